/** The top of the page: whether it held, in one sentence, and the way to what did not. */
import type { Report, Run, Scenario, Status } from "./data";
import { el, facts, type Child } from "./dom";
import * as format from "./format";
import { masthead } from "./masthead";
import { badge, MEANING, sign, WORDS } from "./status";

const KINDS: Record<string, string> = {
  simulated: "simulated time: the same seed gives the same figures",
  live: "live: real sockets and clocks",
  demo: "demonstration",
};
/** So many are listed at once; more are behind a fold. */
const LISTED = 6;

export function header(report: Report): HTMLElement {
  const { verdict } = report;
  const state: Status = verdict.passed ? "passed" : verdict.counts.failed > 0 ? "failed" : "invalid";
  return el(
    "header",
    { class: "top" },
    masthead("Tidegate lab report", "tidegate-report.json"),
    el("h1", { class: `verdict ${state}`, id: "verdict" }, sign(state), el("span", {}, sentence(report))),
    verdict.interrupted && el("p", { class: "warning" }, "The experiments were interrupted: what follows is only what was done until then."),
    troubles(report),
    facts([
      ["Kind", (Object.hasOwn(KINDS, report.kind) && KINDS[report.kind]) || report.kind],
      ["Seed", report.seed === null ? "" : String(report.seed)],
      ["Made", report.createdAt && format.date(report.createdAt)],
      ["Machine", report.environment && machine(report.environment)],
      ["Tidegate", report.version],
    ]),
  );
}

/** "Not passed: 1 of 52 runs is not as expected and 1 is invalid; 49 are as expected, 1 was not run." */
export function sentence({ verdict }: Report): string {
  const { counts, runs } = verdict;
  if (runs === 0) return verdict.passed ? "Passed, but nothing was run." : "Not passed: nothing was run.";
  const skipped = counts.skipped > 0 ? `, ${format.count(counts.skipped)} ${counts.skipped === 1 ? "was" : "were"} not run` : "";
  if (verdict.passed && counts.failed + counts.invalid === 0) {
    const ran = counts.skipped > 0 ? `all ${format.plural(runs - counts.skipped, "run")} that ran` : runs === 1 ? "the one run" : `all ${format.count(runs)} runs`;
    return `Passed: ${ran} met every expectation${skipped}.`;
  }
  const of = ` of ${format.plural(runs, "run")}`;
  const failed = counts.failed > 0 ? `${format.count(counts.failed)}${of} ${are(counts.failed)} ${WORDS.failed}` : "";
  const invalid = counts.invalid > 0 ? `${format.count(counts.invalid)}${failed ? "" : of} ${are(counts.invalid)} ${WORDS.invalid}` : "";
  const bad = [failed, invalid].filter(Boolean).join(" and ") || `not all${of} were done`;
  return `${verdict.passed ? "Passed" : "Not passed"}: ${bad}; ${format.count(counts.passed)} ${are(counts.passed)} ${WORDS.passed}${skipped}.`;
}

const are = (runs: number): string => (runs === 1 ? "is" : "are");

function troubles(report: Report): Child {
  const order: Status[] = ["failed", "invalid", "skipped"];
  const all = report.scenarios.flatMap((scenario) => scenario.runs.map((run) => ({ scenario, run })));
  const bad = order.flatMap((status) => all.filter(({ run }) => run.status === status));
  if (bad.length === 0) return null;
  const items = bad.map(({ scenario, run }) => trouble(scenario, run));
  const rest = items.length > LISTED + 2 ? items.splice(LISTED) : [];
  return el(
    "nav",
    { "aria-label": "Runs to look at", class: "troubles" },
    el("ul", {}, items),
    rest.length > 0 && el("details", {}, el("summary", {}, `${format.plural(rest.length, "more run")} to look at`), el("ul", {}, rest)),
  );
}

function trouble(scenario: Scenario, run: Run): HTMLElement {
  return el(
    "li",
    { class: run.status },
    badge(run.status),
    el("a", { href: `#${run.anchor}`, "data-run": run.id }, `${scenario.title}: ${format.runName(run)}`),
    el("span", { class: "why" }, why(run)),
  );
}

/** Why a run has the status that it has, as short as the data allow. */
export function why(run: Run): string {
  if (run.reason) return run.reason;
  const missed = run.expectations.filter((expectation) => expectation.passed === false);
  if (missed.length > 0) return missed.map((one) => (one.value ? `${one.text}: it was ${one.value}` : one.text)).join("; ");
  return MEANING[run.status];
}

function machine(environment: NonNullable<Report["environment"]>): string {
  const parts = [
    environment.system,
    environment.cpus !== null && format.plural(environment.cpus, "CPU"),
    environment.memoryBytes !== null && format.bytes(environment.memoryBytes),
  ];
  return parts.filter(Boolean).join(", ");
}
