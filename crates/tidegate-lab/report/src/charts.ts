/** Charts over time. They share a moment and a zoom; a slider moves the moment for those who use no mouse. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { el } from "./dom";
import type { Num } from "./json";
import { Legend } from "./legend";
import { color, labelRows, labels, labelSpace, marks } from "./marks";
import { onLook } from "./theme";
import { named, type Line, type Plot, type Timeline } from "./timeline";
import { values } from "./values";

/** What the reader looks at. It outlives a run's charts, so that the same moment of the next run is shown. */
export interface View {
  /** Index of the step under the cursor. */
  at: number | null;
  zoom: [number, number] | null;
}

/** Width of the charts on paper, in CSS pixels: about A4 without its margins; the style sheet makes it fit. */
const PAPER = 760;
const AXIS = 58;
/** At the right of every chart, if one of them has an axis there: seconds stand below each other. */
const BAR_AXIS = 44;

/** What was measured in a step holds for all of it: lines are flat there, bars as wide. */
const STEPPED: uPlot.Series = { ...(uPlot.paths.stepped && { paths: uPlot.paths.stepped({ align: 1, alignGaps: 1 }) }) };
const BARS: uPlot.Series = { ...(uPlot.paths.bars && { paths: uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 }) }) };
/** Distances of ticks where there are no halves. */
const WHOLE = Array.from({ length: 16 }, (_, i) => 10 ** i).flatMap((n) => [n, 2 * n, 5 * n]);

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
  /** Moves the cursor to a moment, in seconds of the time axis. */
  show(seconds: number): void;
}

export function charts(timeline: Timeline, view: View): Charts {
  const { start, step, length, end, longest, faults, exempt, events } = timeline;
  const time = [...Array.from({ length }, (_, i) => start + i * step), end];
  const all = timeline.plots.filter((plot) => plot.lines.length > 0);
  const drawn: uPlot[] = [];
  const legends = all.map((plot) => new Legend(plot, timeline.of, (name, on) => toggle(plot, name, on)));
  const toggle = (plot: Plot, name: string, on: boolean) => {
    const u = drawn[all.indexOf(plot)];
    const index = u?.series.findIndex((series) => series.label === name) ?? -1;
    if (index > 0) u?.setSeries(index, { show: on });
  };

  const slider = el("input", { type: "range", min: 0, max: Math.max(0, length - 1), step: 1, value: view.at ?? 0, "aria-label": "Moment that the charts tell", oninput: () => moveTo(Number(slider.value)) });
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
    const from0 = start + index * step;
    const here = events.filter((event) => event.at >= from0 && event.at < from0 + step).map((event) => event.text);
    const lasting = faults.filter((fault) => fault.at < from0 + step && (fault.until ?? Infinity) > from0).map((fault) => fault.label);
    const unscored = exempt.filter((one) => one.from < from0 + step && one.until > from0).map((one) => one.label);
    now.textContent = [`at ${timeline.moment(from0)}`, ...lasting, ...unscored, ...here].join(" · ");
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", [now.textContent, ...legends.map((legend) => legend.spoken(index))].join("; "));
    for (const u of drawn) if (u !== from) u.setCursor({ left: u.valToPos(middle(timeline, index), "x"), top: 0 }, false);
  };
  const zoom = (range: [number, number] | null) => {
    view.zoom = range;
    whole.hidden = range === null;
    const [min, max] = range ?? [start, end];
    for (const u of drawn) u.setScale("x", { min, max });
    // The cursor's pixel now stands for another moment; the reader's moment is to stay.
    const { at } = view;
    queueMicrotask(() => moveTo(at));
  };

  const draw = (plot: Plot, host: HTMLElement): uPlot => {
    const hooks: uPlot.Hooks.Arrays = {
      setCursor: [
        (u) => {
          const left = u.cursor.left ?? -1;
          const index = indexAt(timeline, u.posToVal(left, "x"));
          if (left >= 0 && index !== view.at) moveTo(index, u);
        },
      ],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          if (width > 4) zoom(wholeSteps(timeline, u.posToVal(left, "x"), u.posToVal(left + width, "x")));
        },
      ],
    };
    const width = Math.max(200, host.clientWidth);
    const top = plot === all[0] ? labelSpace(labelRows(labels(faults, exempt), events, (width - AXIS) / longest)) : 6;
    return new uPlot({ ...options(plot, timeline, top), plugins: [marks(faults, exempt, events, plot === all[0])], width, height: plot.height + top, hooks }, [time, ...columns(plot, timeline.of)], host);
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
      el("figcaption", {}, el("strong", {}, el("bdi", {}, named(plot))), ` ${plot.unit}${plot.logarithmic ? ", logarithmic" : ""}`),
      legends[i]?.element,
      hosts[i],
      plot.note !== undefined && el("p", { class: "lead" }, plot.note),
    ),
  );
  return {
    element: el(
      "div",
      { class: "charts" },
      all.length === 0
        ? el("p", { class: "lead" }, "No series were recorded.")
        : [el("div", { class: "cursor control" }, slider, now, whole), figures, values(all, timeline)],
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
      if (length > 0) moveTo(indexAt(timeline, seconds));
    },
  };
}

/** The step that a moment is in. */
const indexAt = ({ start, step, length }: Timeline, seconds: number): number => Math.min(length - 1, Math.max(0, Math.floor((seconds - start) / step)));

const middle = ({ start, step, end }: Timeline, index: number): number => (start + index * step + Math.min(start + (index + 1) * step, end)) / 2;

/** All of the steps that are in a span: values are per step. */
function wholeSteps(timeline: Timeline, from: number, until: number): [number, number] {
  const { start, step, end } = timeline;
  return [start + indexAt(timeline, from) * step, Math.min(start + (indexAt(timeline, until) + 1) * step, end)];
}

/**
 * The values as uPlot wants them: the band's edges first, then the lines. Nothing at or below zero has a place on a
 * logarithmic axis, nor a bar.
 */
function columns(plot: Plot, of: Timeline["of"]): Num[][] {
  const positive = (values: Num[]) => values.map((value) => (value !== null && value > 0 ? value : null));
  const column = (name: string) => lasting(plot.logarithmic ? positive(of[name] ?? []) : (of[name] ?? []));
  const edges = plot.band ? [column(plot.band.high), column(plot.band.low)] : [];
  return [...edges, ...plot.lines.map((line) => (line.bars ? positive(of[line.name] ?? []) : column(line.name)))];
}

/** The last known value stands once more where its step ends, or uPlot would end the line where that begins. */
function lasting(values: Num[]): Num[] {
  let last = values.length - 1;
  while (last >= 0 && values[last] === null) last -= 1;
  return last < 0 ? values : [...values.slice(0, last + 1), values[last] ?? null, ...values.slice(last + 2)];
}

function options(plot: Plot, timeline: Timeline, top: number): Omit<uPlot.Options, "width" | "height"> {
  const { band } = plot;
  const edges: uPlot.Series[] = band ? Array(2).fill({ width: 0, points: { show: false }, ...STEPPED }) : [];
  const isEdge = (index: number) => index <= edges.length;
  const font = "11px system-ui, sans-serif";
  const axis: uPlot.Axis = { stroke: () => color("--muted"), font, grid: { stroke: () => color("--grid"), width: 1 }, ticks: { show: false } };
  const bars = plot.lines.some((line) => line.bars);
  const right = timeline.plots.some((one) => one.barAxis) ? BAR_AXIS : timeline.right;
  const fromZero: uPlot.Scale.Range = (_u, _min, max) => [0, max > 0 ? Math.max(max, plot.isWhole ? 1 : 0) * 1.06 : 1];
  const label = (value: Num) => (value === null ? "" : plot.show(value));
  return {
    legend: { show: false },
    padding: [top, plot.barAxis ? 0 : right, 0, 0],
    // The cursor stays where the pointer left the chart, as the slider does.
    cursor: {
      y: false,
      bind: { mouseleave: () => null },
      drag: { x: true, y: false, setScale: false },
      dataIdx: (_u, _series, _closest, seconds) => indexAt(timeline, seconds),
      points: { bbox: (u, i) => point(u, timeline, i, isEdge(i) ? 0 : 7), width: (_u, i) => (isEdge(i) ? 0 : 1.5) },
    },
    scales: {
      x: { time: false, range: (_u, min, max) => [min, max] },
      y: plot.logarithmic ? { distr: 3, range: (_u, min, max) => [min / 1.3, max * 1.3] } : { range: fromZero },
      ...(bars && { errors: { range: fromZero } }),
    },
    series: [{}, ...edges, ...plot.lines.map(series)],
    bands: band ? [{ series: [1, 2], fill: () => color(band.fill) }] : [],
    axes: [
      { ...axis, gap: 4, ...timeline.axis },
      { ...axis, scale: "y", size: AXIS, values: (_u, splits) => splits.map(label), ...(plot.isWhole && { incrs: WHOLE }) },
      ...(plot.barAxis ? [{ ...axis, scale: "errors", side: 1 as const, size: BAR_AXIS, grid: { show: false }, values: (_u: uPlot, splits: number[]) => splits.map(label) }] : []),
    ],
  };
}

/** What shows a value under the cursor: in the middle of its step, where a point of a line would be at its edge. */
function point(u: uPlot, timeline: Timeline, i: number, size: number): uPlot.BBox {
  const index = u.cursor.idxs?.[i] ?? 0;
  const value = u.data[i]?.[index] ?? null;
  // Where a line was drawn on to the end of its last step there is no value.
  const isKnown = (timeline.of[String(u.series[i]?.label)]?.[index] ?? null) !== null;
  if (value === null || !isKnown) return { left: -10, top: -10, width: 0, height: 0 };
  const [left, top] = [u.valToPos(middle(timeline, index), "x"), u.valToPos(value, u.series[i]?.scale ?? "y")];
  return { left: left - size / 2, top: top - size / 2, width: size, height: size };
}

function series(line: Line): uPlot.Series {
  return {
    label: line.name,
    scale: line.bars ? "errors" : "y",
    stroke: () => color(line.color),
    width: line.width,
    dash: line.dash,
    ...(line.fill !== undefined && { fill: () => color(line.fill ?? "") }),
    ...(line.bars ? BARS : STEPPED),
    points: { show: false },
  };
}
