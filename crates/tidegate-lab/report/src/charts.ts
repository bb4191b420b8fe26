/** The charts of one run over time. They share a moment and a zoom; a slider moves the moment for those who use no mouse. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Num, Run, Scenario } from "./data";
import { el, svg } from "./dom";
import * as format from "./format";
import { plots, type Line, type Plot } from "./lines";
import { color, labelRows, labelSpace, marks } from "./marks";
import { onLook } from "./theme";

/** What the reader looks at. It outlives a run's charts, so that the same moment of the next run is shown. */
export interface View {
  /** Index of the step under the cursor. */
  at: number | null;
  zoom: [number, number] | null;
}

/** Width of the charts on paper, in CSS pixels: about A4 without its margins; the style sheet makes it fit. */
const PAPER = 760;
const AXIS = 58;
/** At the right of every chart of a run, if one of them has an axis there: seconds stand below each other. */
const BAR_AXIS = 44;
/** Steps that the table of values shows. The data have all. */
const TABLE_ROWS = 600;

const shown = new Set<uPlot>();
onLook((printing) => {
  for (const u of shown) {
    const width = printing ? PAPER : u.root.parentElement?.clientWidth || u.width;
    if (width !== u.width) u.setSize({ width, height: u.height });
    // One that has not been laid out yet will be in the new colours anyway, and would lose its scales.
    if (u.scales.x?.min != null) u.redraw();
  }
});

export interface Charts {
  element: HTMLElement;
  /** Draws them; only once the element is in the page, since charts need its width. */
  start(): void;
  destroy(): void;
  /** Moves the cursor to a moment of the run. */
  show(seconds: number): void;
}

export function charts(run: Run, scenario: Scenario, view: View): Charts {
  const { step, length } = run.series;
  const time = Array.from({ length }, (_, i) => i * step);
  const longest = Math.max(scenario.duration ?? 0, length * step);
  const moment = (seconds: number) => format.moment(seconds, longest);
  const all = plots(run).filter((plot) => plot.lines.length > 0);
  const drawn: uPlot[] = [];
  const legends = all.map((plot) => new Legend(plot, run, (name, on) => toggle(plot, name, on)));
  const toggle = (plot: Plot, name: string, on: boolean) => {
    const u = drawn[all.indexOf(plot)];
    const index = u?.series.findIndex((series) => series.label === name) ?? -1;
    if (index > 0) u?.setSeries(index, { show: on });
  };

  const slider = el("input", { type: "range", min: 0, max: Math.max(0, length - 1), step: 1, value: view.at ?? 0, "aria-label": "Moment of the run", oninput: () => moveTo(Number(slider.value)) });
  const now = el("output", { class: "now" });
  const whole = el("button", { type: "button", class: "small", hidden: true, onclick: () => zoom(null) }, "Show all");
  const hosts = all.map(() => el("div", { class: "plot" }));

  const moveTo = (index: number | null, from?: uPlot) => {
    view.at = index;
    for (const legend of legends) legend.show(index);
    if (index === null) {
      now.textContent = "Point at a chart or move the slider to read values.";
      return;
    }
    const from0 = index * step;
    const here = run.events.filter((event) => event.at >= from0 && event.at < from0 + step).map((event) => event.text);
    const faults = scenario.faults.filter((fault) => fault.at < from0 + step && (fault.until ?? Infinity) > from0).map((fault) => fault.label);
    now.textContent = [`at ${moment(from0)}`, ...faults, ...here].join(" · ");
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", [now.textContent, ...legends.map((legend) => legend.spoken(index))].join("; "));
    for (const u of drawn) if (u !== from) u.setCursor({ left: u.valToPos(from0, "x"), top: 0 }, false);
  };
  const zoom = (range: [number, number] | null) => {
    view.zoom = range;
    whole.hidden = range === null;
    const [min, max] = range ?? [0, time[length - 1] ?? 0];
    for (const u of drawn) u.setScale("x", { min, max });
    // The cursor's pixel now stands for another moment; the reader's moment is to stay.
    const { at } = view;
    queueMicrotask(() => moveTo(at));
  };

  const draw = (plot: Plot, host: HTMLElement): uPlot => {
    const events: uPlot.Hooks.Arrays = {
      setCursor: [(u) => u.cursor.idx != null && (u.cursor.left ?? -1) >= 0 && u.cursor.idx !== view.at && moveTo(u.cursor.idx, u)],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (width > 4) zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
        },
      ],
    };
    const width = Math.max(200, host.clientWidth);
    const top = plot.key === "traffic" ? labelSpace(labelRows(scenario.faults, run.events, (width - AXIS) / longest)) : 6;
    return new uPlot({ ...options(plot, run, scenario, moment, longest, top), width, height: plot.height + top, hooks: events }, [time, ...columns(plot, run)], host);
  };

  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const u = drawn[hosts.indexOf(entry.target as HTMLDivElement)];
      const width = Math.floor(entry.contentRect.width);
      if (u && width > 0 && width !== u.width && document.documentElement.dataset.paper === undefined) u.setSize({ width, height: u.height });
    }
  });

  const figures = all.map((plot, i) =>
    el(
      "figure",
      { class: "chart", "data-chart": plot.key },
      el("figcaption", {}, el("strong", {}, plot.title), ` ${plot.unit}${plot.logarithmic ? ", logarithmic" : ""}`),
      legends[i]?.element,
      hosts[i],
    ),
  );
  return {
    element: el(
      "div",
      { class: "charts" },
      all.length === 0
        ? el("p", { class: "lead" }, "No series were recorded in this run.")
        : [el("div", { class: "cursor control" }, slider, now, whole), figures, values(all, run, moment)],
    ),
    start() {
      if (view.at !== null && view.at >= length) view.at = null;
      all.forEach((plot, i) => {
        const host = hosts[i];
        if (host) drawn.push(draw(plot, host));
      });
      for (const u of drawn) shown.add(u);
      for (const host of hosts) resized.observe(host);
      if (all.length === 0) return;
      if (view.zoom) zoom(view.zoom);
      // uPlot lays its scales out in a microtask; positions are known after it.
      queueMicrotask(() => moveTo(view.at));
    },
    destroy() {
      resized.disconnect();
      for (const u of drawn) {
        shown.delete(u);
        u.destroy();
      }
    },
    show(seconds) {
      if (length > 0) moveTo(Math.min(length - 1, Math.max(0, Math.floor(seconds / step))));
    },
  };
}

/**
 * The values as uPlot wants them: the band's edges first, then the lines. Nothing at or below zero has a place on a
 * logarithmic axis, nor a bar.
 */
function columns(plot: Plot, run: Run): Num[][] {
  const names = [...(plot.band ? [...plot.band].reverse() : []), ...plot.lines.map((line) => line.name)];
  return names.map((name) => {
    const column = run.series.of[name] ?? [];
    return plot.logarithmic || name === "errors" ? column.map((value) => (value !== null && value > 0 ? value : null)) : column;
  });
}

function options(plot: Plot, run: Run, scenario: Scenario, moment: (seconds: number) => string, longest: number, top: number): Omit<uPlot.Options, "width" | "height"> {
  const isEdge = (index: number) => plot.band !== null && index <= plot.band.length;
  const edge: uPlot.Series = { width: 0, points: { show: false } };
  const font = "11px system-ui, sans-serif";
  const axis: uPlot.Axis = { stroke: () => color("--muted"), font, grid: { stroke: () => color("--grid"), width: 1 }, ticks: { show: false } };
  const bars = plot.lines.some((line) => line.bars);
  const right = run.series.of.errors?.some((value) => value !== null && value > 0) ? BAR_AXIS : 16;
  const fromZero: uPlot.Scale.Range = (_u, _min, max) => [0, max > 0 ? max * 1.06 : 1];
  const label = (value: Num) => (value === null ? "" : plot.show(value));
  return {
    legend: { show: false },
    padding: [top, plot.barAxis ? 0 : right, 0, 0],
    // The cursor stays where the pointer left the chart, as the slider does.
    cursor: { y: false, bind: { mouseleave: () => null }, drag: { x: true, y: false, setScale: false }, points: { size: (_u, i) => (isEdge(i) ? 0 : 7), width: (_u, i) => (isEdge(i) ? 0 : 1.5) } },
    scales: {
      x: { time: false },
      y: plot.logarithmic ? { distr: 3, range: (_u, min, max) => [min / 1.3, max * 1.3] } : { range: fromZero },
      ...(bars && { errors: { range: fromZero } }),
    },
    series: [{}, ...(plot.band ? [edge, edge] : []), ...plot.lines.map(series)],
    bands: plot.band ? [{ series: [1, 2], fill: () => color("--band") }] : [],
    axes: [
      { ...axis, values: (_u, splits) => splits.map(moment), size: 26, gap: 4, ...(longest > 180 && { incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400] }) },
      { ...axis, scale: "y", size: AXIS, values: (_u, splits) => splits.map(label) },
      ...(plot.barAxis ? [{ ...axis, scale: "errors", side: 1 as const, size: BAR_AXIS, grid: { show: false }, values: (_u: uPlot, splits: number[]) => splits.map(label) }] : []),
    ],
    plugins: [marks(scenario.faults, run.events, plot.key === "traffic")],
  };
}

function series(line: Line): uPlot.Series {
  const { stepped, bars } = uPlot.paths;
  return {
    label: line.name,
    scale: line.bars ? "errors" : "y",
    stroke: () => color(line.color),
    width: line.width,
    dash: line.dash,
    ...(line.fill !== undefined && { fill: () => color(line.fill ?? "") }),
    ...(line.stepped && stepped && { paths: stepped({ align: 1 }) }),
    ...(line.bars && bars && { paths: bars({ size: [0.6, 20], align: 1 }) }),
    points: { show: false },
  };
}

/** Names of the lines with their looks, which switch them off and on, and the values under the cursor. */
class Legend {
  readonly element: HTMLElement;
  private readonly outputs: HTMLElement[];

  constructor(
    private readonly plot: Plot,
    private readonly run: Run,
    toggle: (name: string, on: boolean) => void,
  ) {
    this.outputs = plot.lines.map((line) => el("span", { class: "value", "data-series": line.name }));
    this.element = el(
      "div",
      { class: "legend", role: "group", "aria-label": `Lines of ${plot.title}` },
      plot.lines.map((line, i) => {
        const button = el(
          "button",
          {
            type: "button",
            "aria-pressed": "true",
            onclick: () => {
              const on = button.getAttribute("aria-pressed") !== "true";
              button.setAttribute("aria-pressed", String(on));
              toggle(line.name, on);
            },
          },
          stroke(line),
          line.label,
        );
        return el("span", { class: "entry" }, button, this.outputs[i]);
      }),
    );
  }

  show(index: number | null): void {
    this.plot.lines.forEach((line, i) => {
      const output = this.outputs[i];
      if (output) output.textContent = index === null ? "" : this.value(line, index);
    });
  }

  spoken(index: number): string {
    return this.plot.lines.map((line) => `${line.label} ${this.value(line, index)}`).join(", ");
  }

  private value(line: Line, index: number): string {
    const value = this.run.series.of[line.name]?.[index] ?? null;
    if (line.name !== "forecast" || !this.plot.band) return this.plot.show(value);
    const [low, high] = this.plot.band.map((name) => this.run.series.of[name]?.[index] ?? null);
    return low == null || high == null ? this.plot.show(value) : `${this.plot.show(value)} (${this.plot.show(low)} to ${this.plot.show(high)})`;
  }
}

function stroke(line: Line): SVGElement {
  const mark = line.bars
    ? svg("path", { d: "M5 12V6h4v6M13 12V2h4v10", class: `line ${line.name}`, "stroke-width": 1 })
    : svg("path", { d: "M0 7H26", class: `line ${line.name}`, "stroke-width": Math.max(2, line.width), "stroke-dasharray": line.dash.join(" ") || "none" });
  return svg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, "aria-hidden": "true" }, mark);
}

/** The same values as a table, made when it is opened. */
function values(all: Plot[], run: Run, moment: (seconds: number) => string): HTMLElement {
  const lines = all.flatMap((plot) => plot.lines.map((line) => ({ line, show: plot.show })));
  const rows = Math.min(run.series.length, TABLE_ROWS);
  const table = () =>
    el(
      "table",
      { class: "values" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Time"), lines.map(({ line }) => el("th", { scope: "col", class: "number" }, line.label)))),
      el("tbody", {}, Array.from({ length: rows }, (_, i) => el("tr", {}, el("th", { scope: "row" }, moment(i * run.series.step)), lines.map(({ line, show }) => el("td", { class: "number" }, show(run.series.of[line.name]?.[i] ?? null)))))),
    );
  const host = el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Values of the charts" });
  const details = el(
    "details",
    { class: "control", ontoggle: () => details.open && host.childElementCount === 0 && host.append(table()) },
    el("summary", {}, "Values as a table"),
    run.series.length > rows && el("p", { class: "lead" }, `The first ${format.count(rows)} of ${format.count(run.series.length)} steps; the JSON has all.`),
    host,
  );
  return details;
}
