/**
 * The comparison's headline: the most that each algorithm admitted in any window, as a multiple of what the limit allows
 * there. An exact limit stays at 1×; a fixed window admits up to 2× at its boundary. Runs that prove nothing are left out.
 */
import type { Report, Run, Scenario } from "./data";
import { el, scrolling, svg } from "./dom";
import * as format from "./format";
import { algorithms } from "./matrix";

/** What a limit is over by no more than rounding. */
const EXACT = 1.005;
const isAbove = ({ scores }: Run): boolean => scores.worstWindow !== null && scores.worstWindow > EXACT;

/** Whether a run's worst window is above the limit by design, because nothing in it was over-admitted. */
export const isMeant = (run: Run): boolean => isAbove(run) && run.scores.overAdmitted === 0;
export const isOver = (run: Run): boolean => isAbove(run) && !isMeant(run);

export const MEANT = "a worst window above 1× is by design where nothing was over-admitted: a bucket's burst is meant to come on top of its rate, and a limit that adapts may change within a window";

interface Mark {
  scenario: Scenario;
  run: Run;
  worst: number;
}

export function windows(report: Report): HTMLElement | null {
  const marks: Mark[] = report.scenarios.flatMap((scenario) =>
    scenario.runs.flatMap((run) => {
      const worst = run.status === "skipped" || run.status === "invalid" ? null : run.scores.worstWindow;
      return worst === null ? [] : [{ scenario, run, worst }];
    }),
  );
  if (marks.length === 0) return null;
  const limited = marks.filter((mark) => mark.run.algorithm !== null).map((mark) => mark.worst);
  const end = Math.max(2, Math.ceil(Math.max(0, ...limited) * 4) / 4) * 1.05;
  const rows = algorithms(report).map((name) => row(name, marks.filter((mark) => mark.run.algorithm === name), report.scenarios, end));
  const ticks = Array.from({ length: Math.floor(end) + 1 }, (_, i) => el("span", { "--at": i / end, class: i === 1 && "allowed" }, i === 1 ? "1× = the limit" : `${i}×`));
  return el(
    "section",
    { "aria-labelledby": "windows" },
    el("h2", { id: "windows" }, "The most admitted in any window"),
    el(
      "p",
      { class: "lead" },
      "As a multiple of what the limit allows in that window: at 1× a limit is exact; a fixed window can reach 2× at its boundary. One mark per scenario: ",
      el("span", { class: "key" }, key(false), " adaptation off, "),
      el("span", { class: "key" }, key(true), " on."),
    ),
    scrolling(
      "The most admitted in any window",
      el(
        "table",
        { class: "windows" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Algorithm"), el("th", { class: "axis", "aria-hidden": "true" }, el("div", {}, ticks)), el("th", { scope: "col" }, "Worst"), el("th", { scope: "col" }, "Where"))),
        el("tbody", {}, rows),
      ),
    ),
    marks.some(({ run }) => isMeant(run)) && el("p", { class: "remark" }, `${format.sentence(MEANT)}.`),
  );
}

function row(name: string | null, marks: Mark[], scenarios: Scenario[], end: number): HTMLElement {
  // The figure is that of the mark furthest to the right, whichever run it belongs to: text and plot must say the same.
  const worst = highest(marks);
  const worstOver = name === null ? null : highest(marks.filter(({ run }) => isOver(run)));
  const over = worst !== null && worst === worstOver;
  const meant = worst !== null && isMeant(worst.run);
  return el(
    "tr",
    { class: name === null && "baseline" },
    el("th", { scope: "row" }, format.algorithm(name)),
    el("td", { class: "axis", "aria-hidden": "true" }, strip(marks, scenarios, end)),
    el("td", { class: `number ${over ? "over" : ""}`, title: meant && format.sentence(MEANT) }, worst === null ? format.UNKNOWN : format.times(worst.worst)),
    el(
      "td",
      { class: "where" },
      worst === null
        ? ""
        : name !== null && worstOver === null
          ? meant ? "nothing over-admitted" : "never over the limit"
          : [place(worst), worstOver !== null && !over && [", nothing over-admitted; over the limit: ", format.times(worstOver.worst), " in ", place(worstOver)]],
    ),
  );
}

/** Of equal ones the first that is over the limit. */
const highest = (marks: Mark[]): Mark | null => marks.reduce<Mark | null>((most, mark) => (most === null || mark.worst > most.worst || (mark.worst === most.worst && isOver(mark.run) && !isOver(most.run)) ? mark : most), null);

const place = ({ scenario, run }: Mark): HTMLElement => el("a", { href: `#${run.anchor}` }, run.algorithm === null ? scenario.name : `${scenario.name}, adaptation ${run.adaptation ? "on" : "off"}`);

function strip(marks: Mark[], scenarios: Scenario[], end: number): SVGElement {
  const height = 30;
  const percent = (value: number) => `${((value / end) * 100).toFixed(2)}%`;
  const lines = Array.from({ length: Math.floor(end) + 1 }, (_, i) =>
    svg("line", { x1: percent(i), x2: percent(i), y1: 0, y2: height, class: i === 1 ? "allowed" : "tick" }),
  );
  // Off above, on below; scenarios a little apart, so that equal marks are seen as several.
  const y = (mark: Mark) => (mark.run.adaptation ? 22 : 8) + 6 * (scenarios.length > 1 ? scenarios.indexOf(mark.scenario) / (scenarios.length - 1) - 0.5 : 0);
  const dots = marks.map((mark) => {
    const place = svg("svg", { x: percent(Math.min(mark.worst, end)), y: mark.run.algorithm === null ? y(mark) + 7 : y(mark), overflow: "visible" });
    place.append(mark.worst > end ? svg("path", { d: "M-9-4 0 0-9 4Z", class: "beyond" }) : dot(mark.run.adaptation, isOver(mark.run)));
    return place;
  });
  return svg("svg", { class: "strip", height, width: "100%" }, ...lines, ...dots);
}

const dot = (hollow: boolean, over: boolean): SVGElement => svg("circle", { r: 4, class: `${hollow ? "hollow" : "full"} ${over ? "over" : ""}` });

function key(hollow: boolean): SVGElement {
  const mark = dot(hollow, false);
  mark.setAttribute("cx", "6");
  mark.setAttribute("cy", "6");
  return svg("svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" }, mark);
}
