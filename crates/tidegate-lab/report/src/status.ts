/** A run's status: a sign, words and a colour, so that none has to be relied on. */
import type { Status } from "./data";
import { el, svg } from "./dom";

/** A run without limits that overloads its target is as expected; “passed” would be misleading. */
export const WORDS: Record<Status, string> = { passed: "as expected", failed: "not as expected", invalid: "invalid", skipped: "not run" };

export const MEANING: Record<Status, string> = {
  passed: "met every expectation, which for the baseline may be that its target suffers",
  failed: "did not meet an expectation",
  invalid: "the instrument was at fault: it proves nothing",
  skipped: "was not run",
};

const PATHS: Record<Status, string> = {
  passed: "M3 8.5 6.5 12 13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  invalid: "M8 3v6.5M8 12v1.2",
  skipped: "M3.5 8h9",
};

export function sign(status: Status): SVGElement {
  const path = svg("path", { d: PATHS[status], fill: "none", stroke: "currentColor", "stroke-width": 2.2, "stroke-linecap": "round" });
  return svg("svg", { viewBox: "0 0 16 16", class: "sign", "aria-hidden": "true" }, path);
}

export function badge(status: Status): HTMLElement {
  return el("span", { class: `badge ${status}` }, sign(status), el("span", {}, WORDS[status]));
}
