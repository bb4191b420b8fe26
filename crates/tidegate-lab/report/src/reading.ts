/** The end of the page: what the figures mean and how they are made. */
import type { Report, Status } from "./data";
import { STATUSES } from "./data";
import { COLUMNS } from "./comparison";
import { el } from "./dom";
import * as format from "./format";
import { COST } from "./run";
import { badge, MEANING } from "./status";
import { MEANT } from "./windows";

const MORE: [name: string, about: string][] = [
  ["Adaptation", "off: the operator's limit stands; on: the limit follows a forecast and the target's health"],
  ["No limit", "the baseline: the same load without any limit, to see what the target suffers"],
  ["Fairness", "how evenly honest clients were served; 100 % is evenly"],
  ["Worst window above 1×", MEANT],
  ["Stability at the peak", "how steady the goodput stays while the peak lasts; 1 is steady"],
  ["Refused in the outage", "share rejected while Redis was away"],
  ["Limiting again after", "time from Redis' return until the limit holds again"],
  ["Latency", "from when a request was due, not from when it was sent, so that a late generator hides nothing"],
  ["CPU per request", COST],
  ["Peaks", "what the adaptation did at each: the limit before and during it, what was forecast and what came, and what the target felt"],
];

export function reading(report: Report): HTMLElement {
  const term = (name: string | HTMLElement, about: string) => el("div", {}, el("dt", {}, name), el("dd", {}, format.sentence(about), "."));
  // A figure with a formula needs no other explanation.
  const given = new Set(report.formulas.map((formula) => formula.name.toLowerCase()));
  const figures = [...COLUMNS.map(({ name, about }) => [name, about] as const), ...MORE].filter(([name]) => !given.has(name.toLowerCase()));
  return el(
    "section",
    { "aria-labelledby": "reading" },
    el("h2", { id: "reading" }, "How to read the figures"),
    report.formulas.length > 0 && el("h3", {}, "Formulas"),
    report.formulas.length > 0 &&
      el("dl", { class: "formulas" }, report.formulas.map((formula) => el("div", {}, el("dt", {}, formula.name), el("dd", {}, formula.text)))),
    el("h3", {}, "Figures"),
    el("dl", { class: "terms" }, figures.map(([name, about]) => term(name, about))),
    el("h3", {}, "Status"),
    el("dl", { class: "terms" }, STATUSES.map((status: Status) => term(badge(status), MEANING[status]))),
  );
}
