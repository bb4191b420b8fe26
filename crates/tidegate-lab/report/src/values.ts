/** The charts' values as a table, made when it is opened. */
import { el, table } from "./dom";
import * as format from "./format";
import type { Plot, Timeline } from "./timeline";

/** Steps that the table shows. The data have all. */
const ROWS = 600;

export function values(plots: Plot[], { start, step, length, of, moment }: Timeline): HTMLElement {
  const lines = plots.flatMap((plot) => plot.lines.map((line) => ({ line, plot })));
  const rows = Math.min(length, ROWS);
  const heads = [{ name: "Time" }, ...lines.map(({ line, plot }) => ({ name: plot.group === undefined ? line.label : `${plot.group}: ${line.label}`, number: true }))];
  const row = (i: number) => [moment(start + i * step), ...lines.map(({ line, plot }) => plot.show(of[line.name]?.[i] ?? null))];
  const host = el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Values of the charts" });
  const details = el(
    "details",
    { class: "control", ontoggle: () => details.open && host.childElementCount === 0 && host.append(table(heads, Array.from({ length: rows }, (_, i) => row(i)), { class: "values" })) },
    el("summary", {}, "Values as a table"),
    length > rows && el("p", { class: "lead" }, `The first ${format.count(rows)} of ${format.count(length)} steps; the JSON has all.`),
    host,
  );
  return details;
}
