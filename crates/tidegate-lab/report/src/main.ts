/** Reads the data in this file and shows them. */
import "./style.css";
import { FORMAT, readReport, type Report, type Run } from "./data";
import { el } from "./dom";
import { matrix } from "./matrix";
import { reading } from "./reading";
import { scenarioView, type ScenarioView } from "./scenario";
import { followTheme, themeSwitch } from "./theme";
import { header, sentence } from "./verdict";
import { windows } from "./windows";

const app = document.getElementById("app") ?? document.body;
const json = document.getElementById("data")?.textContent?.trim() ?? "";

followTheme();

/** What stands in the template where the data belong begins like a comment, which no JSON does. */
if (json === "" || json.startsWith("/*")) {
  nothing("There is no data in this report.", "This is the empty template of Tidegate's lab. The lab puts the results of its experiments into it.");
} else {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch (error) {
    nothing("The data in this report can't be read.", String(error));
  }
  if (parsed !== undefined) show(readReport(parsed));
}

function nothing(title: string, text: string): void {
  app.replaceChildren(el("header", { class: "top" }, el("div", { class: "masthead" }, el("p", { class: "brand" }, "Tidegate lab report"), themeSwitch()), el("h1", { class: "verdict skipped" }, title), el("p", {}, text)));
}

function show(report: Report): void {
  document.title = `Tidegate lab: ${sentence(report)}`;
  const views = report.scenarios.map((scenario) => ({ scenario, view: scenarioView(scenario) }));
  const worst = windows(report);
  app.replaceChildren(
    header(report),
    contents(report, worst !== null),
    el(
      "main",
      {},
      report.format !== FORMAT && el("p", { class: "warning" }, `These data say that their format is “${report.format}”; this page was made for “${FORMAT}” and may show them wrongly.`),
      report.scenarios.length === 0 ? el("p", { class: "lead" }, "The report has no scenarios.") : [matrix(report), worst],
      views.map(({ view }) => view.element),
      reading(report),
    ),
    el("footer", {}, "One file, nothing is loaded from anywhere. Charts by uPlot."),
  );
  for (const { view } of views) view.start();

  const places = new Map<string, { view: ScenarioView; run: Run }>(
    views.flatMap(({ scenario, view }) => scenario.runs.map((run) => [run.anchor, { view, run }] as const)),
  );
  const follow = () => {
    const place = places.get(location.hash.slice(1));
    if (place) place.view.choose(place.run, true);
    else if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  // A link to where the reader already is changes no hash.
  app.addEventListener("click", (event) => {
    const link = (event.target as Element).closest("a");
    if (link && link.hash !== "" && link.hash === location.hash) follow();
  });
  // Where a link leads counts more than where a reload left off.
  if (location.hash.length > 1) history.scrollRestoration = "manual";
  follow();
}

function contents(report: Report, hasWindows: boolean): HTMLElement {
  const link = (anchor: string, name: string) => el("li", {}, el("a", { href: `#${anchor}` }, name));
  const bad = (runs: Run[]) => runs.filter((run) => run.status === "failed" || run.status === "invalid").length;
  return el(
    "nav",
    { class: "contents control", "aria-label": "Contents" },
    el(
      "ul",
      {},
      report.scenarios.length > 0 && link("matrix", "All runs"),
      hasWindows && link("windows", "Worst windows"),
      report.scenarios.map((scenario) => {
        const item = link(scenario.anchor, scenario.name || scenario.title);
        const count = bad(scenario.runs);
        if (count > 0) item.append(el("span", { class: "count", title: `${count} did not pass` }, String(count)));
        return item;
      }),
      link("reading", "Reading the figures"),
    ),
  );
}
