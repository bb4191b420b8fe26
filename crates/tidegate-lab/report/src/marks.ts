/** Faults as shaded spans, what is not scored as hatched ones, and events as numbered marks, drawn on the charts' canvas. */
import uPlot from "uplot";
import type { Exempt, Fault, Run } from "./data";

/** Height of a row of labels above the plot, in CSS pixels. */
const ROW = 17;
const FONT = "11px system-ui, sans-serif";

export const color = (property: string): string => getComputedStyle(document.documentElement).getPropertyValue(property).trim();

/** A span of time with a name. */
type Span = Pick<Fault, "at" | "until" | "label">;

/** All spans that have a label above the first chart. */
export const labels = (faults: Fault[], exempt: Exempt[]): Span[] => [...faults, ...exempt.map(({ from, until, label }) => ({ at: from, until, label }))].sort((a, b) => a.at - b.at);

/** Rows of labels above the first chart: a second one for spans if their labels would run into each other, and one for events. */
export function labelRows(faults: Span[], events: Run["events"], pixelsPerSecond: number): number {
  const sorted = [...faults].sort((a, b) => a.at - b.at);
  const crowded = sorted.some((fault, i) => i > 0 && (fault.at - (sorted[i - 1]?.at ?? 0)) * pixelsPerSecond < 12 + 7 * (sorted[i - 1]?.label.length ?? 0));
  return (faults.length > 0 ? (crowded ? 2 : 1) : 0) + (events.length > 0 ? 1 : 0);
}

export const labelSpace = (rows: number): number => rows * ROW + 4;

export function marks(faults: Fault[], exempt: Exempt[], events: Run["events"], labelled: boolean): uPlot.Plugin {
  return {
    hooks: {
      drawClear: (u: uPlot) => {
        shade(u, faults);
        hatch(u, exempt);
        lines(u, events);
      },
      draw: (u: uPlot) => {
        if (!labelled) return;
        spanLabels(u, labels(faults, exempt), events.length > 0 ? ROW : 0);
        if (events.length > 0) eventNumbers(u, events, u.bbox.top - ROW * 0.5 * uPlot.pxRatio);
      },
    },
  };
}

function clipped(u: uPlot, draw: () => void): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw();
  ctx.restore();
}

const span = (u: uPlot, fault: Span): [number, number] => {
  const from = u.valToPos(fault.at, "x", true);
  const end = fault.until === null ? u.bbox.left + u.bbox.width : u.valToPos(fault.until, "x", true);
  return [from, Math.max(end, from + uPlot.pxRatio)];
};

function shade(u: uPlot, faults: Fault[]): void {
  clipped(u, () => {
    for (const fault of faults) {
      const [from, end] = span(u, fault);
      u.ctx.fillStyle = color("--fault-fill");
      u.ctx.fillRect(from, u.bbox.top, end - from, u.bbox.height);
      u.ctx.fillStyle = color("--fault");
      u.ctx.fillRect(from, u.bbox.top, uPlot.pxRatio, u.bbox.height);
      u.ctx.fillRect(end - uPlot.pxRatio, u.bbox.top, uPlot.pxRatio, u.bbox.height);
    }
  });
}

/** Slanted lines: what is not scored differs from a fault also without colour. */
function hatch(u: uPlot, exempt: Exempt[]): void {
  const { ctx, bbox } = u;
  const { pxRatio } = uPlot;
  for (const { from, until, label } of exempt) {
    const [begins, ends] = span(u, { at: from, until, label });
    // Whatever the data are, no more lines than there is room for.
    const [left, right] = [Math.max(begins, bbox.left), Math.min(ends, bbox.left + bbox.width)];
    clipped(u, () => {
      ctx.beginPath();
      ctx.rect(left, bbox.top, right - left, bbox.height);
      ctx.clip();
      ctx.strokeStyle = color("--exempt");
      ctx.lineWidth = pxRatio;
      ctx.beginPath();
      for (let x = left - bbox.height; x < right; x += 8 * pxRatio) {
        ctx.moveTo(x, bbox.top + bbox.height);
        ctx.lineTo(x + bbox.height, bbox.top);
      }
      ctx.stroke();
    });
  }
}

function lines(u: uPlot, events: Run["events"]): void {
  clipped(u, () => {
    u.ctx.strokeStyle = color("--event");
    u.ctx.lineWidth = uPlot.pxRatio;
    u.ctx.setLineDash([2 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
    for (const event of events) {
      const x = Math.round(u.valToPos(event.at, "x", true)) + 0.5;
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
    }
  });
}

function write(u: uPlot): void {
  const { ctx } = u;
  const { pxRatio } = uPlot;
  ctx.font = FONT.replace("11px", `${11 * pxRatio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
}

/** Labels start where their span does, and go to a second row where they would run into the one before; so far above the plot. */
function spanLabels(u: uPlot, spans: Span[], above: number): void {
  const { ctx, bbox } = u;
  const { pxRatio } = uPlot;
  ctx.save();
  write(u);
  ctx.fillStyle = color("--fault-ink");
  const ends = [-Infinity, -Infinity];
  const right = bbox.left + bbox.width;
  for (const fault of spans) {
    const [from, end] = span(u, fault);
    if (end < bbox.left || from > right) continue;
    const width = ctx.measureText(fault.label).width;
    const x = Math.max(bbox.left, Math.min(from, right - width));
    const row = ends.findIndex((taken) => taken < x);
    const y = bbox.top - (above + (row + 0.5) * ROW) * pxRatio;
    if (row < 0 || y < 0) continue;
    ends[row] = x + width + 6 * pxRatio;
    ctx.fillText(fault.label, x, y, right - x);
  }
  ctx.restore();
}

/** Events by their numbers in the list below the charts; those that would cover each other share a mark. */
function eventNumbers(u: uPlot, events: Run["events"], y: number): void {
  const { ctx, bbox } = u;
  const { pxRatio } = uPlot;
  const groups: { first: number; last: number; from: number; to: number }[] = [];
  events.forEach((event, i) => {
    const x = u.valToPos(event.at, "x", true);
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
    const group = groups.at(-1);
    if (group && x - group.to < 22 * pxRatio) Object.assign(group, { last: i, to: x });
    else groups.push({ first: i, last: i, from: x, to: x });
  });
  ctx.save();
  write(u);
  ctx.textAlign = "center";
  for (const { first, last, from, to } of groups) {
    const text = first === last ? String(first + 1) : `${first + 1}–${last + 1}`;
    const x = (from + to) / 2;
    const half = Math.max((to - from) / 2 + 7 * pxRatio, ctx.measureText(text).width / 2 + 4 * pxRatio);
    ctx.fillStyle = color("--event-fill");
    ctx.beginPath();
    ctx.roundRect(x - half, y - 7 * pxRatio, half * 2, 14 * pxRatio, 7 * pxRatio);
    ctx.fill();
    ctx.fillStyle = color("--ink");
    ctx.fillText(text, x, y + 0.5 * pxRatio);
  }
  ctx.restore();
}
