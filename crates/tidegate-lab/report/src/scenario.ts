/** A scenario: what it is, its runs compared, and one of them in full. */
import type { View } from "./charts";
import { comparison } from "./comparison";
import { isBaseline, type Run, type Scenario, type Status } from "./data";
import { el, facts, type Child } from "./dom";
import * as format from "./format";
import { runView, type RunView } from "./run";
import { sign, WORDS } from "./status";

export interface ScenarioView {
  element: HTMLElement;
  /** Shows a run of this scenario. `go` also brings the reader there. */
  choose(run: Run, go: boolean): void;
  /** Draws what needs to be in the page. */
  start(): void;
}

/** Where limits are kept, in words. */
const STORES: Record<string, string> = { memory: "the gateway's memory", redis: "Redis", stand_in: "a stand-in for Redis" };

export function scenarioView(scenario: Scenario): ScenarioView {
  const view: View = { at: null, zoom: null };
  const panel = el("div", { class: "panel" });
  const said = el("p", { class: "spoken", role: "status" });
  const buttons = new Map<Run, HTMLButtonElement>();
  let shown: RunView | null = null;

  const choose = (run: Run, go: boolean) => {
    // Between the old run and the new the page must not lose its height, or it would scroll.
    panel.style.minHeight = `${panel.offsetHeight}px`;
    shown?.charts.destroy();
    shown = runView(run, scenario, view);
    panel.replaceChildren(shown.element);
    shown.charts.start();
    panel.style.minHeight = "";
    for (const [one, button] of buttons) button.setAttribute("aria-pressed", String(one === run));
    if (!go) return;
    shown.heading.focus({ preventScroll: true });
    shown.element.scrollIntoView({ block: "start" });
  };
  const pick = (run: Run) => {
    choose(run, false);
    said.textContent = `${format.runName(run)}: ${WORDS[run.status]}`;
    history.replaceState(null, "", `#${run.anchor}`);
  };

  const element = el(
    "section",
    { class: "scenario", id: scenario.anchor, "data-scenario": scenario.name, "aria-labelledby": `${scenario.anchor}-title` },
    el("h2", { id: `${scenario.anchor}-title` }, scenario.title, scenario.name && scenario.name !== scenario.title && el("code", {}, scenario.name)),
    scenario.description && el("p", { class: "description" }, scenario.description),
    facts(about(scenario)),
    scenario.runs.length === 0 ? el("p", { class: "lead" }, "This scenario has no runs.") : [comparison(scenario), picker(scenario, buttons, pick), said, panel],
  );
  return {
    element,
    choose,
    start() {
      const run = mostInteresting(scenario.runs);
      if (run) choose(run, false);
    },
  };
}

/** What is not as it should be comes first, then what a limit does: the baseline only shows what happens without one. */
function mostInteresting(runs: Run[]): Run | undefined {
  const of = (status: Status) => runs.filter((run) => run.status === status);
  const passed = of("passed");
  return of("failed")[0] ?? of("invalid")[0] ?? passed.find((run) => !isBaseline(run)) ?? passed[0] ?? runs[0];
}

function about(scenario: Scenario): [string, Child][] {
  const { limit, clients, faults } = scenario;
  const longest = scenario.duration ?? 0;
  const limitText = limit && limit.rate !== null && [
    `${format.count(limit.rate)}/s${limit.isPerClient ? " for each client" : ""}`,
    limit.window !== null && limit.window !== 1 && `windows of ${format.duration(limit.window)}`,
    limit.burst !== null && limit.burst > 0 && `bursts of ${format.count(limit.burst)}`,
  ].filter(Boolean).join(", ");
  const client = (one: Scenario["clients"][number]) =>
    [`${one.count === null ? "" : `${format.count(one.count)} `}${one.name}`, one.class && one.class !== one.name && `(${one.class})`, one.share !== null && `${format.percent(one.share)} of the load`].filter(Boolean).join(" ");
  return [
    ["Load", scenario.load],
    ["Clients", clients.length > 0 && clients.map(client).join("; ")],
    ["Limit", limitText],
    ["Target", [scenario.target, scenario.capacity !== null && `capacity ${format.rate(scenario.capacity)}`].filter(Boolean).join("; ")],
    ["Limits kept in", scenario.limit && (STORES[scenario.store] ?? scenario.store)],
    ["Duration", scenario.duration !== null && (longest > 180 ? `${format.moment(longest, longest)} min` : format.duration(longest))],
    ["Faults", faults.length > 0 && faults.map((fault) => `${fault.label}, ${format.moment(fault.at, longest)} to ${fault.until === null ? "the end" : format.moment(fault.until, longest)}`).join("; ")],
  ];
}

/** Buttons by algorithm, with adaptation off and on. */
function picker(scenario: Scenario, buttons: Map<Run, HTMLButtonElement>, pick: (run: Run) => void): HTMLElement {
  const names = [...new Set(scenario.runs.map((run) => run.algorithm))];
  const button = (run: Run, twins: Run[]) => {
    const twin = twins.filter((one) => one.adaptation === run.adaptation).length > 1 && run.numbers;
    const which = run.variant !== null ? format.runName(run) : run.algorithm === null ? "baseline" : run.adaptation ? "on" : "off";
    const label = [which, run.variant === null && twin].filter(Boolean).join(", ");
    const element = el("button", { type: "button", class: run.status, "aria-pressed": "false", "aria-label": `${format.runName(run)}, ${WORDS[run.status]}`, "data-run": run.id, onclick: () => pick(run) }, sign(run.status), label);
    buttons.set(run, element);
    return element;
  };
  return el(
    "div",
    { class: "picker control", role: "group", "aria-label": `Run of ${scenario.title} to show` },
    names.map((name) => {
      const runs = scenario.runs.filter((run) => run.algorithm === name);
      return el("div", { class: "choice" }, el("span", { "aria-hidden": "true" }, runs.every((run) => run.variant !== null) ? "Gateway" : format.algorithm(name)), el("div", {}, runs.map((run) => button(run, runs))));
    }),
  );
}
