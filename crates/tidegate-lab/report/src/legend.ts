/** Names of a plot's lines with their looks, which switch them off and on, and the values under the cursor. */
import { el, svg } from "./dom";
import { named, type Line, type Plot, type Timeline } from "./timeline";

export class Legend {
  readonly element: HTMLElement;
  private readonly outputs: HTMLElement[];

  constructor(
    private readonly plot: Plot,
    private readonly of: Timeline["of"],
    toggle: (name: string, on: boolean) => void,
  ) {
    this.outputs = plot.lines.map((line) => el("span", { class: "value", "data-series": line.name }));
    this.element = el(
      "div",
      { class: "legend", role: "group", "aria-label": `Lines of ${named(plot)}` },
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
          el("bdi", {}, line.label),
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
    const values = this.plot.lines.map((line) => `${line.label} ${this.value(line, index)}`).join(", ");
    return this.plot.group === undefined ? values : `${this.plot.group}: ${values}`;
  }

  private value(line: Line, index: number): string {
    const { band, show } = this.plot;
    const at = (name: string) => this.of[name]?.[index] ?? null;
    const value = show(at(line.name));
    if (band?.of !== line.name) return value;
    const [low, high] = [at(band.low), at(band.high)];
    return low === null || high === null ? value : `${value} (${show(low)} to ${show(high)})`;
  }
}

function stroke(line: Line): SVGElement {
  const look = `line ${line.color.replace("--", "")}`;
  const mark = line.bars
    ? svg("path", { d: "M5 12V6h4v6M13 12V2h4v10", class: look, "stroke-width": 1 })
    : svg("path", { d: "M0 7H26", class: look, "stroke-width": Math.max(2, line.width), "stroke-dasharray": line.dash.join(" ") || "none" });
  return svg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, "aria-hidden": "true" }, mark);
}
