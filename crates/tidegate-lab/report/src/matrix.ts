/** Every run at a glance: algorithms down, scenarios across, adaptation off and on, with the protection score and the status. */
import type { Report, Run } from "./data";
import { el, scrolling, spoken, type Child } from "./dom";
import * as format from "./format";
import { sign, WORDS } from "./status";

/** The algorithms of a report in the order of their first run, the baseline last. */
export function algorithms(report: Report): (string | null)[] {
  const seen = new Set(report.scenarios.flatMap((scenario) => scenario.runs.filter((run) => run.variant === null).map((run) => run.algorithm)));
  return [...[...seen].filter((name) => name !== null), ...(seen.has(null) ? [null] : [])];
}

/** Scenarios with the gateway's own configuration: what of its requests each run served. */
export function configurations(report: Report): HTMLElement | null {
  const rows = report.scenarios.flatMap((scenario) => {
    const runs = scenario.runs.filter((run) => run.variant !== null);
    if (runs.length === 0) return [];
    const cells = el("td", {}, runs.map((run) => el("div", {}, el("span", {}, format.runName(run)), link(run, scenario.title))));
    return [el("tr", {}, el("th", { scope: "row" }, el("a", { href: `#${scenario.anchor}` }, scenario.name || scenario.title)), cells)];
  });
  if (rows.length === 0) return null;
  return el(
    "section",
    { "aria-labelledby": "configurations" },
    el("h2", { id: "configurations" }, "Policies"),
    el("p", { class: "lead" }, "The share of requests that got a good response, with the policies as they are written and with parts of them changed. A cell leads to its run."),
    scrolling("Policies", el("table", { class: "configurations" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Scenario"), el("th", { scope: "col" }, "Served"))), el("tbody", {}, rows))),
  );
}

export function matrix(report: Report): HTMLElement | null {
  const scenarios = report.scenarios.filter((scenario) => scenario.runs.length === 0 || scenario.runs.some((run) => run.variant === null));
  if (scenarios.length === 0 && report.scenarios.length > 0) return null;
  const corner = el("th", { scope: "col", rowspan: 2 }, "Algorithm");
  const names = scenarios.map((scenario) => el("th", { scope: "colgroup", colspan: 2 }, el("a", { href: `#${scenario.anchor}` }, scenario.name || scenario.title)));
  const modes = scenarios.flatMap(() => ["off", "on"].map((mode) => el("th", { scope: "col", class: mode }, spoken("adaptation "), mode)));
  const rows = algorithms(report).map((name) =>
    el(
      "tr",
      { class: name === null && "baseline" },
      el("th", { scope: "row" }, format.algorithm(name)),
      scenarios.flatMap((scenario) => {
        const runs = scenario.runs.filter((run) => run.algorithm === name);
        if (name === null) return cell(runs, scenario.title, 2);
        return [false, true].map((on) => cell(runs.filter((run) => run.adaptation === on), scenario.title, 1));
      }),
    ),
  );
  const table = el("table", { class: "matrix", "--columns": scenarios.length * 2 }, el("thead", {}, el("tr", {}, corner, names), el("tr", {}, modes)), el("tbody", {}, rows));
  return el(
    "section",
    { "aria-labelledby": "matrix" },
    el("h2", { id: "matrix" }, "All runs"),
    el("p", { class: "lead" }, "Protection score from 0 to 100, with adaptation off and on. A cell leads to its run."),
    scrolling("All runs", table),
  );
}

function cell(runs: Run[], scenario: string, colspan: number): HTMLElement {
  return el("td", { colspan: colspan > 1 && colspan }, runs.map((run) => link(run, scenario)));
}

function link(run: Run, scenario: string): Child {
  const { protection, served } = run.scores;
  const portion = run.variant === null ? protection && protection / 100 : served;
  const share = portion === null ? 0 : Math.min(1, Math.max(0, portion));
  const score = run.variant === null ? format.figure(protection) : format.percent(served);
  return el(
    "a",
    {
      href: `#${run.anchor}`,
      class: `cell ${run.status}`,
      "data-run": run.id,
      title: `${scenario}: ${format.runName(run)}, ${WORDS[run.status]}`,
      "--share": share,
    },
    sign(run.status),
    el("span", { class: "score" }, run.status === "skipped" && portion === null ? WORDS.skipped : score),
    spoken(`, ${WORDS[run.status]}`),
  );
}
