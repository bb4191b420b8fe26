/** The links to a page's sections, which stay in sight. */
import { el } from "./dom";

export interface Section {
  anchor: string;
  name: string;
  /** How many of its runs are not as expected, or invalid. */
  bad?: number;
}

export function contents(sections: Section[]): HTMLElement {
  return el(
    "nav",
    { class: "contents control", "aria-label": "Contents" },
    el(
      "ul",
      {},
      sections.map(({ anchor, name, bad = 0 }) => el("li", {}, el("a", { href: `#${anchor}` }, name), bad > 0 && el("span", { class: "count", title: `${bad} not as expected, or invalid` }, String(bad)))),
    ),
  );
}
