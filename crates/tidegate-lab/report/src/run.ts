/** One run of a scenario: what was expected of it, its figures, charts, events and peaks. */
import { charts, type Charts, type View } from "./charts";
import type { Peak, Run, Scenario } from "./data";
import { el, facts, scrolling, spoken, table, type Child } from "./dom";
import * as format from "./format";
import { timeline } from "./lines";
import { badge, sign, WORDS } from "./status";
import { why } from "./verdict";

/** Why a gateway at rest seems expensive. */
export const COST = "at this run's load: what a gateway does in any case, such as reading the clock and serving its metrics, is spread over the requests. At low load that is most of it, so this is not the cost of a request at full load";

export interface RunView {
  element: HTMLElement;
  heading: HTMLElement;
  charts: Charts;
}

export function runView(run: Run, scenario: Scenario, view: View): RunView {
  const drawing = charts(timeline(run, scenario), view);
  const heading = el("h3", { tabindex: -1 }, format.runName(run), " ", badge(run.status));
  const longest = Math.max(scenario.duration ?? 0, run.series.length * run.series.step);
  const element = el(
    "article",
    { class: `run ${run.status}`, "data-run": run.id },
    heading,
    run.numbers && el("p", { class: "lead" }, run.numbers),
    run.status !== "passed" && el("p", { class: `reason ${run.status}` }, sign(run.status), el("span", {}, el("strong", {}, `${format.sentence(WORDS[run.status])}: `), why(run))),
    run.status !== "skipped" && [expectations(run), figures(run)],
    run.notes.length > 0 && el("ul", { class: "notes", "aria-label": "Notes" }, run.notes.map((note) => el("li", {}, note))),
    run.status === "skipped" && run.series.length === 0 ? null : drawing.element,
    events(run, drawing, longest),
    peaks(run.peaks, longest),
  );
  return { element, heading, charts: drawing };
}

function expectations(run: Run): Child {
  if (run.expectations.length === 0) return null;
  return el(
    "ul",
    { class: "expectations", "aria-label": "Expectations" },
    run.expectations.map((expectation) => {
      const status = expectation.passed === null ? "skipped" : expectation.passed ? "passed" : "failed";
      const word = { passed: "met", failed: "not met", skipped: "not known" }[status];
      return el("li", { class: status }, sign(status), spoken(`${word}: `), el("span", {}, expectation.text), expectation.value && el("b", {}, expectation.value), status === "failed" && el("span", { class: "word" }, "not met"));
    }),
  );
}

function figures(run: Run): HTMLElement {
  const { totals, scores, gateway } = run;
  const { latency } = scores;
  const group = (title: string, list: [name: Child, value: string][]) => {
    const known = list.filter(([, value]) => value !== format.UNKNOWN);
    return known.length > 0 && el("section", {}, el("h4", {}, title), facts(known));
  };
  return el(
    "div",
    { class: "figures" },
    group("Requests", [
      ["offered", format.count(totals.offered)],
      ["admitted", format.count(totals.admitted)],
      ["refused", format.count(totals.refused)],
      ["good", format.count(totals.good)],
      ["target errors", format.count(totals.targetErrors)],
      ["other errors", format.count(totals.errors)],
    ]),
    group("Latency", [
      ["mean", format.duration(latency.mean)],
      ["p50", format.duration(latency.p50)],
      ["p90", format.duration(latency.p90)],
      ["p95", format.duration(latency.p95)],
      ["p99", format.duration(latency.p99)],
      ["p99.9", format.duration(latency.p999)],
      ["max", format.duration(latency.max)],
    ]),
    group("Scores", [
      ["protection", format.figure(scores.protection)],
      ["worst window", format.times(scores.worstWindow)],
      ["fairness", format.percent(scores.fairness)],
      ["stability at the peak", format.figure(scores.peakStability)],
      ["recovery", format.duration(scores.recoverySeconds)],
      ["refused in the outage", format.percent(scores.refusedInOutage)],
      ["limiting again after", format.duration(scores.limitingBackSeconds)],
    ]),
    group("Policies", [
      ["served", format.percent(scores.served)],
      ["amplification", format.times(scores.amplification)],
      ["wait of what failed", format.duration(scores.failedWaitSeconds)],
      ["breaker opens after", format.duration(scores.openAfterSeconds)],
      ...run.groups.flatMap((one): [string, string][] => [
        [`${format.clip(one.name, 30)}: served`, format.percent(one.served)],
        [`${format.clip(one.name, 30)}: p99 in faults`, format.times(one.slowdown)],
      ]),
    ]),
    gateway &&
      group("Gateway", [
        ["CPU", format.duration(gateway.cpuSeconds)],
        [el("span", { class: "hinted", title: format.sentence(COST) }, "CPU per request"), format.cost(gateway.cpuPerRequest)],
        ["refusal p99", format.duration(gateway.refusalP99)],
      ]),
  );
}

function events(run: Run, drawing: Charts, longest: number): Child {
  if (run.events.length === 0) return null;
  return el(
    "section",
    { class: "events" },
    el("h4", {}, "Events"),
    el(
      "ol",
      { class: run.events.length > 12 && "scroll tall", tabindex: run.events.length > 12 && 0 },
      run.events.map((event, i) =>
        el(
          "li",
          {},
          el("span", { class: "mark", "aria-hidden": "true" }, String(i + 1)),
          el("button", { type: "button", class: "when", title: "Show this moment in the charts", onclick: () => drawing.show(event.at) }, format.moment(event.at, longest)),
          event.kind && el("span", { class: "kind" }, event.kind),
          el("span", {}, event.text),
        ),
      ),
    ),
  );
}

function peaks(list: Peak[], longest: number): Child {
  if (list.length === 0) return null;
  const heads = ["Peak", "Offered", "Limit", "before", "during", "Forecast", "Actual", "Off by", "Target p95", "Target errors"].map((name, i) => ({ name, number: i !== 0 && i !== 2 }));
  const actions: Record<string, string> = { raised: "▲ raised", lowered: "▼ lowered", none: "– unchanged" };
  const off = (peak: Peak) => (peak.predicted === null || peak.actual === null || peak.actual === 0 ? null : (peak.predicted - peak.actual) / peak.actual);
  const row = (peak: Peak) => [
    `${format.moment(peak.at, longest)} to ${format.moment(peak.until, longest)}`,
    format.rate(peak.offered),
    (Object.hasOwn(actions, peak.action) && actions[peak.action]) || peak.action || format.UNKNOWN,
    format.rate(peak.limitBefore),
    format.rate(peak.limitDuring),
    format.rate(peak.predicted),
    format.rate(peak.actual),
    signed(off(peak)),
    format.duration(peak.targetP95),
    format.count(peak.targetErrors),
  ];
  return el("section", { class: "peaks" }, el("h4", {}, "Peaks"), scrolling("Peaks", table(heads, list.map(row))));
}

const signed = (share: number | null): string => (share === null ? format.UNKNOWN : `${share > 0 ? "+" : share < 0 ? "−" : ""}${format.percent(Math.abs(share))}`);
