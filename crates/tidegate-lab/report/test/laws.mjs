// What holds of every page that the template makes, whatever its data are of.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { assertFits, dataOf, visit } from "./visit.mjs";

const PHONE = { width: 390, height: 844 };
const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

export function laws(path) {
  test("keeps the theme that was chosen, and follows the system's otherwise", () =>
    visit(path, {}, async (page) => {
      const light = await background(page);
      await page.emulateMedia({ colorScheme: "dark" });
      await page.waitForFunction((before) => getComputedStyle(document.body).backgroundColor !== before, light);
      const dark = await background(page);
      await page.emulateMedia({ colorScheme: "light" });
      await page.waitForFunction((before) => getComputedStyle(document.body).backgroundColor === before, light);
      await page.getByRole("radio", { name: "dark" }).check();
      assert.equal(await background(page), dark);
      // The browser writes what a page stores in the background: a reload at the same moment may come before that.
      let isKept = false;
      for (let tries = 0; tries < 10 && !isKept; tries += 1) {
        await page.getByRole("radio", { name: "dark" }).check();
        await page.reload();
        isKept = (await background(page)) === dark;
      }
      assert.ok(isKept);
      assert.ok(await page.getByRole("radio", { name: "dark" }).isChecked());
      await page.getByRole("radio", { name: "system" }).check();
      assert.equal(await background(page), light);
    }));

  test("gives its data back as they are", () =>
    visit(path, { acceptDownloads: true }, async (page) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#download").click()]);
      assert.match(download.suggestedFilename(), /\.json$/);
      assert.deepEqual(JSON.parse(readFileSync(await download.path(), "utf8")), dataOf(path));
    }));

  test("fits a phone: nothing but tables in their own frames goes beyond the edge", () => visit(path, { viewport: PHONE }, assertFits));

  test("on paper has no controls and is light, from a dark screen too", () =>
    visit(path, { colorScheme: "dark" }, async (page) => {
      await page.emulateMedia({ media: "print" });
      const controls = page.locator(".control");
      for (let i = 0; i < (await controls.count()); i += 1) assert.ok(await controls.nth(i).isHidden());
      const [r] = (await page.evaluate(() => getComputedStyle(document.querySelector("main > section")).backgroundColor)).match(/\d+/g);
      assert.equal(r, "255");
      await page.emulateMedia({ media: "screen" });
      assert.ok((await controls.count()) > 0 && (await controls.first().isVisible()));
      assert.ok((await page.pdf({ preferCSSPageSize: true })).length > 10_000);
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    }));

  for (const theme of ["light", "dark"]) {
    test(`has contrast enough, ${theme}`, () =>
      visit(path, { colorScheme: theme }, async (page) => {
        const colors = await page.evaluate(() => {
          const style = getComputedStyle(document.documentElement);
          const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const of = (name) => {
            context.fillStyle = style.getPropertyValue(`--${name}`).trim();
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data];
          };
          const names = "page panel raised ink muted accent passed failed failed-soft invalid invalid-soft failed-ground invalid-ground on-ground on-strong over offered admitted good refused limit forecast p50 p95 p99 busy queue errors fault-ink event-fill";
          return Object.fromEntries(names.split(" ").map((name) => [name, of(name)]));
        });
        const light = (rgb) => rgb.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const contrast = (a, b) => {
          const [high, low] = [light(colors[a]), light(colors[b])].sort((x, y) => y - x);
          return (high + 0.05) / (low + 0.05);
        };
        const check = (least, pairs) => pairs.forEach(([a, b]) => assert.ok(contrast(a, b) >= least, `${a} on ${b}: ${contrast(a, b).toFixed(2)}`));
        check(4.5, ["page", "panel", "raised", "failed-soft", "invalid-soft"].flatMap((ground) => ["ink", "muted", "accent"].map((ink) => [ink, ground])));
        check(4.5, [["passed", "panel"], ["failed", "panel"], ["failed", "failed-soft"], ["invalid", "invalid-soft"], ["on-ground", "failed-ground"], ["on-ground", "invalid-ground"], ["on-strong", "accent"], ["over", "panel"], ["over", "failed-soft"], ["over", "invalid-soft"], ["fault-ink", "panel"], ["ink", "event-fill"], ["passed", "raised"]]);
        check(3, ["failed-ground", "invalid-ground", "offered", "admitted", "good", "refused", "limit", "forecast", "p50", "p95", "p99", "busy", "queue", "errors"].map((line) => [line, "panel"]));
        // Good answers lie on top of what was admitted, and must be seen there.
        check(2.5, [["good", "admitted"]]);
      }));
  }

  test("is in order for a screen reader: ids are unique, controls have names, headings skip no level, frames can be reached", () =>
    visit(path, {}, async (page) => {
      const faults = await page.evaluate(() => {
        const list = [];
        const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
        if (new Set(ids).size !== ids.length) list.push("an id stands twice");
        for (const element of document.querySelectorAll("button, a, input, [role=region], [role=group]")) {
          const name = element.getAttribute("aria-label") || element.closest("label")?.textContent || element.textContent;
          if (!name?.trim()) list.push(`no name: ${element.outerHTML.slice(0, 100)}`);
        }
        let level = 0;
        for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
          const next = Number(heading.tagName[1]);
          if (next > level + 1) list.push(`h${level}, then ${heading.outerHTML.slice(0, 80)}`);
          level = next;
        }
        for (const frame of document.querySelectorAll(".scroll")) if (frame.scrollWidth > frame.clientWidth && frame.tabIndex < 0) list.push("a frame can't be scrolled by keyboard");
        return list;
      });
      assert.deepEqual(faults, []);
    }));
}
