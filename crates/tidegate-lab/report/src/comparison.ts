/** The runs of one scenario side by side, sorted by any column. The best of a column has a star, not only a colour. */
import { isBaseline, type Run, type Scenario } from "./data";
import { el, scrolling, spoken, type Child } from "./dom";
import * as format from "./format";
import type { Num } from "./json";
import { badge, WORDS } from "./status";
import { isMeant, isOver, MEANT } from "./windows";

interface Column {
  key: string;
  name: string;
  about: string;
  value: (run: Run) => Num;
  show: (value: Num) => string;
  /** Which end is the better one, where one is: a share rejected is good in an attack and bad in normal use. */
  better?: "high" | "low";
}

export const COLUMNS: readonly Column[] = [
  { key: "protection", name: "Protection", about: "from 0 to 100, how well the target was protected while it was used to capacity; see its formula", value: (run) => run.scores.protection, show: format.figure, better: "high" },
  { key: "worstWindow", name: "Worst window", about: "most admitted in any window, as a multiple of what the limit allows there; 1× is exact", value: (run) => run.scores.worstWindow, show: format.times },
  { key: "goodput", name: "Goodput", about: "good responses as a share of what was offered or of the target's capacity, whichever is less; errors beyond its capacity do not lower it", value: (run) => run.scores.goodput, show: format.percent, better: "high" },
  { key: "refusedShare", name: "Refused", about: "share of all requests that were rejected", value: (run) => run.scores.refusedShare, show: format.percent },
  { key: "refusedHonest", name: "Honest refused", about: "share of the honest clients' requests that were rejected", value: (run) => run.scores.refusedHonest, show: format.percent, better: "low" },
  { key: "refusedAttackers", name: "Attackers refused", about: "share of the attackers' requests that were rejected", value: (run) => run.scores.refusedAttackers, show: format.percent, better: "high" },
  { key: "overAdmitted", name: "Over-admitted", about: "share admitted though the limit does not allow it", value: (run) => run.scores.overAdmitted, show: format.percent, better: "low" },
  { key: "underAdmitted", name: "Under-admitted", about: "share rejected though the limit allows it", value: (run) => run.scores.underAdmitted, show: format.percent, better: "low" },
  { key: "p95", name: "p95", about: "latency that 95 % of the requests stay below", value: (run) => run.scores.latency.p95, show: format.duration, better: "low" },
  { key: "targetErrorShare", name: "Target errors", about: "share of the requests at the target that ended in an error", value: (run) => run.scores.targetErrorShare, show: format.percent, better: "low" },
  { key: "recoverySeconds", name: "Recovery", about: "time from the end of a peak or fault until all is as before", value: (run) => run.scores.recoverySeconds, show: format.duration, better: "low" },
  { key: "served", name: "Served", about: "share of the clients' requests that got a good response in the end", value: (run) => run.scores.served, show: format.percent, better: "high" },
  { key: "amplification", name: "Amplification", about: "requests that targets got, as a multiple of those that clients had", value: (run) => run.scores.amplification, show: format.times, better: "low" },
  { key: "failedWaitSeconds", name: "Wait of failed", about: "how long clients waited for what failed or was rejected, on average", value: (run) => run.scores.failedWaitSeconds, show: format.duration, better: "low" },
];

/** What of each group's requests was served, where there are several groups. */
function ofGroups(scenario: Scenario): Column[] {
  const names = [...new Set(scenario.runs.flatMap((run) => run.groups.map((group) => group.name)))];
  if (names.length < 2) return [];
  return names.map((name) => ({
    key: `served-${name}`,
    name: `${format.sentence(format.clip(name, 30))} served`,
    about: `share of the requests of ${name} that got a good response in the end`,
    value: (run) => run.groups.find((group) => group.name === name)?.served ?? null,
    show: format.percent,
    better: "high",
  }));
}

/** Why a run may have admitted more than its limit and have nothing over-admitted. */
const EXEMPT = "some seconds are not scored, since nothing is limited then by design; a run's notes and its charts say which";

/** A goodput that looks full, and errors that do not look like it. */
const [FULL, SOME] = [0.995, 0.005];

type Sort = { key: string; descending: boolean };

export function comparison(scenario: Scenario): Child {
  const columns = [...COLUMNS, ...ofGroups(scenario)].filter((column) => scenario.runs.some((run) => column.value(run) !== null));
  const stars = new Map(columns.map((column) => [column.key, best(column, scenario.runs)]));
  const widest = Math.max(1, ...scenario.runs.map((run) => (run.algorithm === null ? 0 : (run.scores.worstWindow ?? 0))));
  const rows = scenario.runs.map((run) => ({ run, element: row(run, columns, stars, widest) }));
  const body = el("tbody", {}, rows.map(({ element }) => element));
  const heads = new Map<string, HTMLElement>();
  let sort: Sort | null = null;

  const sortBy = (key: string, value: (run: Run) => Num | string, highFirst: boolean) => {
    sort = { key, descending: sort?.key === key ? !sort.descending : highFirst };
    const { descending } = sort;
    const ordered = [...rows].sort((a, b) => compare(value(a.run), value(b.run), descending));
    body.replaceChildren(...ordered.map(({ element }) => element));
    for (const [name, head] of heads) {
      if (name === key) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  const head = (key: string, name: string, about: string, value: (run: Run) => Num | string, highFirst: boolean, number: boolean) => {
    const button = el("button", { type: "button", title: about, onclick: () => sortBy(key, value, highFirst) }, name);
    const th = el("th", { scope: "col", "data-key": key, class: number && "number" }, button);
    heads.set(key, th);
    return th;
  };

  const table = el(
    "table",
    { class: "comparison" },
    el("caption", { class: "spoken" }, `Runs of ${scenario.title}. A head sorts by its column.`),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        head("run", "Run", "algorithm, and whether its limit follows the forecast; or the gateway's configuration", (run) => format.runName(run), false, false),
        head("status", "Status", "whether it met its expectations", (run) => WORDS[run.status], false, false),
        columns.map((column) => head(column.key, column.name, column.about, column.value, column.better === "high", true)),
      ),
    ),
    body,
  );
  return [scrolling(`Runs of ${scenario.title}`, table), remarks(scenario.runs)];
}

/** What would puzzle a reader of these figures, in the page itself: titles are neither printed nor reached by keyboard. */
function remarks(runs: Run[]): Child {
  const limited = runs.filter((run) => run.algorithm !== null);
  const full = runs.some(({ scores }) => (scores.goodput ?? 0) >= FULL && (scores.targetErrorShare ?? 0) >= SOME);
  const list = [limited.some(isMeant) && MEANT, runs.some((run) => run.exempt.length > 0) && EXEMPT, full && "goodput can be full beside target errors: it is good responses over the smaller of the offered load and the target's capacity, and errors are what came on top"];
  return list.map((remark) => remark && el("p", { class: "remark" }, `${format.sentence(remark)}.`));
}

function row(run: Run, columns: Column[], stars: Map<string, string | null>, widest: number): HTMLTableRowElement {
  const cell = (column: Column): Child => {
    const value = column.value(run);
    const shown = column.show(value);
    const isBest = value !== null && stands(run) && stars.get(column.key) === shown;
    const worst = column.key === "worstWindow" && value !== null && run.algorithm !== null ? value : null;
    return el(
      "td",
      { class: ["number", isBest && "best", worst !== null && "bar", worst !== null && isOver(run) && "over"].filter(Boolean).join(" "), "--share": worst !== null && worst / widest, "--one": worst !== null && 1 / widest, title: worst !== null && isMeant(run) && format.sentence(MEANT) },
      isBest && el("span", { class: "star", title: "best of this column" }, "★", spoken(" best: ")),
      shown,
    );
  };
  return el(
    "tr",
    { class: `${run.status} ${isBaseline(run) ? "baseline" : ""}`, "data-run": run.id },
    el(
      "th",
      { scope: "row" },
      el("a", { href: `#${run.anchor}` }, run.algorithm === null ? format.runName(run) : format.algorithm(run.algorithm)),
      run.algorithm !== null && el("span", { class: "mode" }, spoken(", adaptation "), run.adaptation ? "on" : "off"),
    ),
    el("td", {}, badge(run.status)),
    columns.map(cell),
  );
}

/** Whether a run may be the best of its scenario: it limits, and it proves something. */
const stands = (run: Run): boolean => !isBaseline(run) && (run.status === "passed" || run.status === "failed");

/** The best value of a column as it is shown, if it sets a few runs apart from the others. */
function best(column: Column, runs: Run[]): string | null {
  const values = runs.filter(stands).map(column.value).filter((value) => value !== null);
  if (column.better === undefined || values.length < 2) return null;
  const top = column.show(column.better === "high" ? Math.max(...values) : Math.min(...values));
  return values.filter((value) => column.show(value) === top).length <= Math.max(1, values.length / 3) ? top : null;
}

/** What is not known comes last in either order. */
function compare(a: Num | string, b: Num | string, descending: boolean): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === "string" || typeof b === "string" ? String(a).localeCompare(String(b)) : a - b;
  return descending ? -order : order;
}
