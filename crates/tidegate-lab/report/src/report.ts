/** The page of a report: verdict, all runs, every scenario. */
import { contents } from "./contents";
import { FORMAT, type Report, type Run } from "./data";
import { el } from "./dom";
import { configurations, matrix } from "./matrix";
import type { Page } from "./page";
import { reading } from "./reading";
import { scenarioView } from "./scenario";
import { header, sentence } from "./verdict";
import { windows } from "./windows";

export function reportPage(report: Report): Page {
  const views = report.scenarios.map((scenario) => ({ scenario, view: scenarioView(scenario) }));
  const places = new Map(views.flatMap(({ scenario, view }) => scenario.runs.map((run) => [run.anchor, { view, run }] as const)));
  const [all, policies, worst] = [matrix(report), configurations(report), windows(report)];
  const bad = (runs: Run[]) => runs.filter((run) => run.status === "failed" || run.status === "invalid").length;
  return {
    title: `Tidegate lab: ${sentence(report)}`,
    header: header(report),
    contents: contents([
      ...(all && report.scenarios.length > 0 ? [{ anchor: "matrix", name: "All runs" }] : []),
      ...(policies ? [{ anchor: "configurations", name: "Policies" }] : []),
      ...(worst ? [{ anchor: "windows", name: "Worst windows" }] : []),
      ...report.scenarios.map((scenario) => ({ anchor: scenario.anchor, name: scenario.name || scenario.title, bad: bad(scenario.runs) })),
      { anchor: "reading", name: "Reading the figures" },
    ]),
    sections: [
      report.format !== FORMAT && el("p", { class: "warning" }, `The data’s format is “${report.format}”; this page was made for “${FORMAT}” and may show them wrongly.`),
      report.scenarios.length === 0 ? el("p", { class: "lead" }, "The report has no scenarios.") : [all, policies, worst],
      views.map(({ view }) => view.element),
      reading(report),
    ],
    start() {
      for (const { view } of views) view.start();
    },
    open(anchor) {
      const place = places.get(anchor);
      place?.view.choose(place.run, true);
      return place !== undefined;
    },
  };
}
