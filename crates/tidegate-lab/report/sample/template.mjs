// The template and how data get into it.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const PLACEHOLDER = "/*TIDEGATE_REPORT*/";

/** The template with data in it, escaped as the lab does it. */
export function fill(template, data) {
  return template.replace(PLACEHOLDER, () => JSON.stringify(data).replaceAll("<", "\\u003c"));
}

export const template = () => readFileSync(join(DIST, "report.html"), "utf8");

/** Writes data as JSON and as a page. */
export function save(name, data) {
  mkdirSync(DIST, { recursive: true });
  writeFileSync(join(DIST, `${name}.json`), JSON.stringify(data));
  writeFileSync(join(DIST, `${name}.html`), fill(template(), data));
}
