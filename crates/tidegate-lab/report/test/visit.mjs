// How the tests look at a page, by file://: what they open it with, and what they read from it.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { fill, template } from "../sample/template.mjs";
import { launch } from "./browser.mjs";

const DATA = /<script type="application\/json" id="data">([^]*?)<\/script>/;
const folder = mkdtempSync(join(tmpdir(), "tidegate-report-"));

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

export const write = (name, html) => {
  const path = join(folder, name);
  writeFileSync(path, html);
  return path;
};

/** A page of these data. */
export const page = (name, data) => write(name, fill(template(), data));

/** The data that a page has in it. */
export const dataOf = (path) => JSON.parse(DATA.exec(readFileSync(path, "utf8"))[1]);

/** Opens a page, does something with it, and sees to it that nothing was asked of any network and no error was told. */
export async function visit(file, options, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
  const tab = await context.newPage();
  const url = pathToFileURL(file).href;
  const problems = [];
  tab.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  tab.on("pageerror", (error) => problems.push(String(error)));
  tab.on("request", (request) => !/^(data|blob):/.test(request.url()) && request.url().split("#")[0] !== url && problems.push(`request of ${request.url()}`));
  try {
    await tab.goto(url);
    await body(tab, url);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

export const all = (tab, selector, of = (element) => element.textContent) => tab.locator(selector).evaluateAll((list, source) => list.map(new Function(`return ${source}`)()), of.toString());
export const says = (tab) => tab.locator("#app").innerText();
export const assertSound = (text) => assert.doesNotMatch(text, /\bNaN\b|\bundefined\b|\bInfinity\b|\[object/);

/** Whether a text shows a number: all its digits are right, and it has at least two of them or is exact. */
export function assertShows(text, value, what) {
  if (value === null || value === undefined) return assert.equal(text, "–", what);
  const [, digits, unit] = /^(-?[\d,.]+)\s?(µs|ms|s|)/.exec(text) ?? assert.fail(`${what}: “${text}” for ${value}`);
  const shown = Number(digits.replaceAll(",", "")) * { µs: 1e-6, ms: 1e-3, s: 1, "": 1 }[unit];
  return assert.ok(Math.abs(shown - value) <= Math.max(Math.abs(value) * 0.006, 1e-9), `${what}: “${text}” for ${value}`);
}

/** Data with each value that is no list and no object put through `replace`. */
export function replaced(value, replace) {
  if (Array.isArray(value)) return value.map((one) => replaced(one, replace));
  if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, replaced(one, replace)]));
  return replace(value);
}

export const EVIL = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><!-- <script> $& javascript:hacked`;

/** Nothing in the data has become markup, and what they say is still read. */
export async function assertHarmless(tab) {
  assert.equal(await tab.evaluate(() => window.hacked), undefined);
  assert.equal(await tab.locator("img").count(), 0);
  assert.equal(await tab.locator("script").count(), 3);
  assert.ok((await says(tab)).includes("<img src=x onerror="));
}

/** Nothing but what has a frame of its own goes beyond the window's edge. */
export async function assertFits(tab) {
  const wide = await tab.evaluate(() => {
    const beyond = [...document.querySelectorAll("#app *")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width > 1 && box.right > innerWidth + 0.5 && !element.closest(".scroll, .contents, .uplot, pre");
    });
    return [document.documentElement.scrollWidth - innerWidth, ...beyond.map((element) => `${element.tagName}.${element.className}`)];
  });
  assert.deepEqual(wide, [0]);
}
