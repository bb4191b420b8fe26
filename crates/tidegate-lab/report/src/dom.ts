/** Elements from code. Text goes in as text nodes only, so that nothing in the data can become markup. */

import { clip } from "./format";

export type Child = Node | string | null | false | undefined | Child[];

type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

/**
 * An element with attributes and children. `onclick` and its like take functions; names with `--` are set as custom properties, because
 * the page's policy forbids style attributes; null and false leave an attribute out.
 */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, String(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function svg(tag: string, attributes: Record<string, string | number>, ...children: Node[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

/** Letters that a cell of a table takes in one line. */
const SHORT = 40;

/** A text that others wrote: cut where it is long, and no matter which way its letters run. */
export function foreign(text: string, most?: number): HTMLElement {
  const shown = clip(text, most);
  return el("bdi", { class: text.length > SHORT ? "foreign" : "foreign short", title: shown !== text && clip(text, 2000) }, shown);
}

/** Text that only screen readers get. */
export const spoken = (text: string): HTMLElement => el("span", { class: "spoken" }, text);

/** Names and values, those that have one. */
export function facts(list: [name: Child, value: Child][]): HTMLElement {
  return el("dl", { class: "facts" }, list.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export interface Head {
  name: Child;
  number?: boolean;
}

/** A table of its columns' heads and its rows, whose first cells name them. */
export function table(heads: Head[], rows: Child[][], attributes: Attributes = {}): HTMLTableElement {
  const cell = (child: Child, i: number) => (i === 0 ? el("th", { scope: "row" }, child) : el("td", { class: heads[i]?.number && "number" }, child));
  return el(
    "table",
    attributes,
    el("thead", {}, el("tr", {}, heads.map(({ name, number }) => el("th", { scope: "col", class: number && "number" }, name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))),
  );
}

/** A table that scrolls by itself where the page is narrow, and where it has more rows than `most`. */
export function scrolling(label: string, table: HTMLTableElement, most = Infinity): HTMLElement {
  const tall = (table.tBodies[0]?.rows.length ?? 0) > most;
  return el("div", { class: tall ? "scroll tall" : "scroll", role: "region", "aria-label": label, tabindex: 0 }, table);
}
