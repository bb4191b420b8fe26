// The report in a browser, by file://. Of the sample, or of a real one: REPORT=path npm test. What is expected is taken from the data in
// the file.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { sample } from "../sample/make-sample.mjs";
import { fill, template } from "../sample/template.mjs";
import { launch } from "./browser.mjs";

const PHONE = { width: 390, height: 844 };
const DATA = /<script type="application\/json" id="data">([^]*?)<\/script>/;
const folder = mkdtempSync(join(tmpdir(), "tidegate-report-"));
const write = (name, html) => {
  const path = join(folder, name);
  writeFileSync(path, html);
  return path;
};

const path = process.env.REPORT ? resolve(process.env.REPORT) : write("sample.html", fill(template(), sample()));
const report = JSON.parse(DATA.exec(readFileSync(path, "utf8"))[1]);
const runs = report.scenarios.flatMap((scenario) => scenario.runs.map((run) => ({ scenario, run })));
const drawn = runs.filter(({ run }) => (run.series?.offered ?? []).filter((value) => value !== null).length > 2);

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

/** Opens a page, does something with it, and sees to it that nothing was asked of any network and no error was told. */
async function visit(file, options, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
  const page = await context.newPage();
  const url = pathToFileURL(file).href;
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => !/^(data|blob):/.test(request.url()) && request.url().split("#")[0] !== url && problems.push(`request of ${request.url()}`));
  try {
    await page.goto(url);
    await body(page, url);
    assert.deepEqual(problems, []);
  } finally {
    await context.close();
  }
}

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const all = (page, selector, of = (element) => element.textContent) => page.locator(selector).evaluateAll((list, source) => list.map(new Function(`return ${source}`)()), of.toString());
const says = (page) => page.locator("#app").innerText();
const assertSound = (text) => assert.doesNotMatch(text, /\bNaN\b|\bundefined\b|\bInfinity\b|\[object/);

/** Goes to a run by its cell in the matrix and gives the part of the page that shows it. */
async function openRun(page, id) {
  await page.locator(".matrix a[data-run]").evaluateAll((cells, wanted) => cells.find((cell) => cell.dataset.run === wanted).click(), id);
  return page.locator("article.run").and(page.locator(`[data-run=${JSON.stringify(id)}]`));
}

/** Whether a text shows a number: all its digits are right, and it has at least two of them or is exact. */
function assertShows(text, value, what) {
  if (value === null || value === undefined) return assert.equal(text, "–", what);
  const [, digits, unit] = /^(-?[\d,.]+)\s?(µs|ms|s|)/.exec(text) ?? assert.fail(`${what}: “${text}” for ${value}`);
  const shown = Number(digits.replaceAll(",", "")) * { µs: 1e-6, ms: 1e-3, s: 1, "": 1 }[unit];
  return assert.ok(Math.abs(shown - value) <= Math.max(Math.abs(value) * 0.006, 1e-9), `${what}: “${text}” for ${value}`);
}

describe("the report", () => {
  test("opens without an error and without a request, and says the verdict first", () =>
    visit(path, {}, async (page) => {
      const { passed, failedRuns, runs: count } = report.verdict;
      const verdict = await page.locator("h1").innerText();
      assert.match(verdict, passed ? /^Passed/ : /^Not passed/);
      if (failedRuns > 0) assert.ok(verdict.includes(`${failedRuns} of ${count.toLocaleString("en-US")} run`), verdict);
      const text = await says(page);
      assertSound(text);
      assert.match(text, new RegExp(`Seed\\s+${report.seed}`));
      for (const formula of report.formulas) assert.ok(text.includes(formula.text));
    }));

  test("has every scenario and in it every run", () =>
    visit(path, {}, async (page) => {
      assert.deepEqual(await all(page, "section.scenario", (element) => element.dataset.scenario), report.scenarios.map((scenario) => scenario.name));
      for (const [i, scenario] of report.scenarios.entries()) {
        const section = page.locator("section.scenario").nth(i);
        assert.ok((await section.locator("h2").innerText()).startsWith(scenario.title));
        const ids = scenario.runs.map((run) => run.id);
        for (const part of [".comparison tbody tr", ".picker button"]) assert.deepEqual((await section.locator(part).evaluateAll((list) => list.map((one) => one.dataset.run))).sort(), [...ids].sort());
      }
    }));

  test("has a cell with score and status for every run", () =>
    visit(path, {}, async (page) => {
      const cells = new Map((await all(page, ".matrix a[data-run]", (cell) => [cell.dataset.run, [cell.querySelector(".score").textContent, cell.className]])));
      assert.equal(cells.size, runs.length);
      for (const { run } of runs) {
        const [score, look] = cells.get(run.id);
        assert.ok(look.includes(run.status), run.id);
        if (run.status !== "skipped") assertShows(score, run.scores?.protection, run.id);
      }
    }));

  test("shows the values of the second under the pointer, in all charts", { skip: drawn.length === 0 }, () =>
    visit(path, {}, async (page) => {
      const { run } = drawn.find(({ run: one }) => one.status === "failed") ?? drawn[0];
      const shown = await openRun(page, run.id);
      const plot = shown.locator("[data-chart=traffic] .u-over");
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      for (const share of [0.25, 0.6]) {
        await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
        const index = Number(await shown.locator(".cursor input").inputValue());
        assert.ok(Math.abs(index - share * (run.series.offered.length - 1)) <= 1, `index ${index} at ${share}`);
        const values = await shown.locator(".legend .value").evaluateAll((list) => list.map((one) => [one.dataset.series, one.textContent]));
        assert.ok(values.length >= 3);
        for (const [name, text] of values) assertShows(text, run.series[name][index], `${name}[${index}]`);
        // The line of the cursor stands at the same place in each of them.
        const lines = await shown.locator(".u-cursor-x").evaluateAll((list) => list.map((one) => Math.round(one.getBoundingClientRect().x)));
        assert.ok(Math.max(...lines) - Math.min(...lines) <= 2 + box.width / run.series.offered.length, String(lines));
      }
    }));

  test("shows a part of the time in all charts when one is dragged over, and all of it again", { skip: drawn.length === 0 }, () =>
    visit(path, {}, async (page) => {
      const { run } = drawn[0];
      const shown = await openRun(page, run.id);
      const plot = shown.locator("[data-chart=traffic] .u-over");
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      const drag = async (from, to) => {
        await page.mouse.move(box.x + box.width * from, box.y + 20);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * to, box.y + 30, { steps: 4 });
        await page.mouse.up();
      };
      const slider = shown.locator(".cursor input");
      await drag(0.5, 0.75);
      await page.mouse.move(box.x + 1, box.y + 20);
      const middle = Number(await slider.inputValue());
      assert.equal(await shown.locator(".u-select").first().evaluate((one) => one.offsetWidth), 0, "what was dragged over is no longer marked");
      assert.ok(Math.abs(middle - (run.series.offered.length - 1) / 2) <= 2, String(middle));
      await shown.getByRole("button", { name: "Show all" }).click();
      assert.equal(Number(await slider.inputValue()), middle);
      assert.ok(await shown.getByRole("button", { name: "Show all" }).isHidden());
      const lines = await shown.locator(".u-cursor-x").evaluateAll((list) => list.map((one) => one.getBoundingClientRect().x));
      for (const x of lines) assert.ok(Math.abs(x - box.x - box.width / 2) < box.width * 0.03 + 2, `${x} in ${box.x} + ${box.width}`);
    }));

  test("can be read by keyboard: the slider moves through the seconds and tells them", { skip: drawn.length === 0 }, () =>
    visit(path, {}, async (page) => {
      const { run } = drawn[0];
      const shown = await openRun(page, run.id);
      const slider = shown.locator(".cursor input");
      await slider.focus();
      await page.keyboard.press("Home");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      assert.equal(await slider.inputValue(), "2");
      assertShows(await shown.locator("[data-series=offered]").innerText(), run.series.offered[2], "offered[2]");
      assert.match(await slider.getAttribute("aria-valuetext"), /offered \d/);
      const legend = shown.locator(".legend button").first();
      await legend.press("Enter");
      assert.equal(await legend.getAttribute("aria-pressed"), "false");
    }));

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
      await page.reload();
      assert.equal(await background(page), dark);
      assert.ok(await page.getByRole("radio", { name: "dark" }).isChecked());
      await page.getByRole("radio", { name: "system" }).check();
      assert.equal(await background(page), light);
    }));

  test("sorts a table by the head that is clicked, what is not known last", { skip: runs.length === 0 }, () =>
    visit(path, {}, async (page) => {
      for (const [i, scenario] of report.scenarios.entries()) {
        const table = page.locator("section.scenario").nth(i).locator(".comparison");
        const head = table.locator("th[data-key=protection]");
        if ((await head.count()) === 0) continue;
        const score = new Map(scenario.runs.map((run) => [run.id, run.scores?.protection ?? null]));
        for (const direction of ["descending", "ascending"]) {
          await head.locator("button").click();
          assert.equal(await head.getAttribute("aria-sort"), direction);
          const order = (await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.dataset.run))).map((id) => score.get(id));
          const known = order.filter((value) => value !== null);
          assert.deepEqual(order.slice(0, known.length), [...known].sort((a, b) => (direction === "ascending" ? a - b : b - a)));
        }
      }
    }));

  test("leads from the verdict to a run that did not pass with one click", { skip: runs.every(({ run }) => run.status === "passed") }, () =>
    visit(path, {}, async (page) => {
      for (const status of ["failed", "invalid", "skipped"]) {
        const found = runs.find(({ run }) => run.status === status);
        if (!found) continue;
        const links = page.locator(".troubles li").filter({ has: page.locator(`.badge.${status}`) }).locator("a");
        const link = links.first();
        if (!(await link.isVisible())) continue;
        const id = await link.getAttribute("data-run");
        await link.click();
        const shown = page.locator("article.run").and(page.locator(`[data-run=${JSON.stringify(id)}]`));
        const top = (await shown.boundingBox()).y;
        assert.ok(top >= 0 && top < 450, `${id} is at ${top}`);
        assert.ok((await shown.locator(".badge").first().innerText()).includes(status));
        const { run } = runs.find((one) => one.run.id === id);
        if (run.reason) assert.ok((await shown.innerText()).includes(run.reason));
        assert.equal(await page.evaluate(() => document.activeElement.tagName), "H3");
        await page.evaluate(() => scrollTo(0, 0));
      }
    }));

  test("shows the run that its address names", { skip: runs.length === 0 }, () =>
    visit(path, {}, async (page, url) => {
      const { run } = runs.at(-1);
      const anchor = await page.locator(".matrix a[data-run]").evaluateAll((cells, id) => cells.find((cell) => cell.dataset.run === id).hash, run.id);
      await page.goto("about:blank");
      await page.goto(url + anchor);
      const box = await page.locator("article.run").last().boundingBox();
      assert.equal(await page.locator("article.run").last().getAttribute("data-run"), run.id);
      assert.ok(box.y >= 0 && box.y < 900, String(box.y));
    }));

  test("gives its data back as they are", () =>
    visit(path, { acceptDownloads: true }, async (page) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#download").click()]);
      assert.match(download.suggestedFilename(), /\.json$/);
      assert.deepEqual(JSON.parse(readFileSync(await download.path(), "utf8")), report);
    }));

  test("fits a phone: nothing but tables in their own frames goes beyond the edge", () =>
    visit(path, { viewport: PHONE }, async (page) => {
      const wide = await page.evaluate(() => {
        const beyond = [...document.querySelectorAll("#app *")].filter((element) => {
          const box = element.getBoundingClientRect();
          return box.width > 1 && box.right > innerWidth + 0.5 && !element.closest(".scroll, .contents, .uplot");
        });
        return [document.documentElement.scrollWidth, ...beyond.map((element) => `${element.tagName}.${element.className}`)];
      });
      assert.deepEqual(wide, [PHONE.width]);
    }));

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
});

describe("whatever the data are", () => {
  const replaced = (value, replace) => {
    if (Array.isArray(value)) return value.map((one) => replaced(one, replace));
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, replaced(one, replace)]));
    return replace(value);
  };
  const page = (name, data) => write(name, fill(template(), data));

  test("markup and script in them do nothing", () => {
    const evil = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><!-- <script> $& javascript:hacked`;
    const keep = new Set(["passed", "failed", "invalid", "skipped", "tidegate-lab-report/1"]);
    const data = replaced(sample(), (value) => (typeof value === "string" && !keep.has(value) ? evil : value));
    return visit(page("hostile.html", data), {}, async (tab) => {
      await tab.locator(".picker button").last().click();
      assert.equal(await tab.evaluate(() => window.hacked), undefined);
      assert.equal(await tab.locator("img").count(), 0);
      assert.equal(await tab.locator("script").count(), 3);
      assert.ok((await says(tab)).includes("<img src=x onerror="));
    });
  });

  test("a report without scenarios is one", () =>
    visit(page("empty.html", { ...sample(), scenarios: [], verdict: { passed: true, runs: 0, passedRuns: 0, failedRuns: 0, invalidRuns: 0, skippedRuns: 0, interrupted: true } }), {}, async (tab) => {
      const text = await says(tab);
      assert.match(text, /nothing was run/);
      assert.match(text, /no scenarios/);
      assert.match(text, /interrupted/);
    }));

  test("numbers that are not known are dashes", () =>
    visit(page("nulls.html", replaced(sample(), (value) => (typeof value === "number" ? null : value))), {}, async (tab) => {
      const text = await says(tab);
      assertSound(text);
      assert.doesNotMatch(text, /\bnull\b/);
      assert.equal(await tab.locator("section.scenario").count(), 4);
      for (const shown of await all(tab, ".matrix .score, .peaks td.number")) assert.match(shown, /^(–|skipped)$/);
    }));

  test("a run of which little is known has dashes beside the others' numbers", () => {
    const data = sample();
    const { runs: list } = data.scenarios[1];
    const nothing = (value) => (typeof value === "number" ? null : value);
    for (const part of ["scores", "totals", "gateway"]) list[3][part] = replaced(list[3][part], nothing);
    for (const [name, values] of Object.entries(list[3].series)) if (Array.isArray(values)) values[5] = null;
    return visit(page("partly.html", data), {}, async (tab) => {
      const row = await all(tab, ".comparison tbody tr", (one) => [one.dataset.run, [...one.querySelectorAll("td.number")].map((cell) => cell.textContent)]);
      assert.deepEqual(new Set(new Map(row).get(list[3].id)), new Set(["–"]));
      const shown = await openRun(tab, list[3].id);
      await shown.locator(".cursor input").fill("5");
      assert.deepEqual(new Set(await shown.locator(".legend .value").allTextContents()), new Set(["–"]));
      assertSound(await says(tab));
    });
  });

  test("runs and scenarios with nothing in them are shown", () => {
    const bare = { format: "tidegate-lab-report/1", scenarios: [{}, null, { name: "odd", runs: [{}, null, { id: "x", series: null, scores: null, status: "???" }] }, { name: "odd", runs: [{ id: "x", status: "passed", series: { step: 0, offered: [5] } }] }] };
    return visit(page("bare.html", bare), {}, async (tab) => {
      assertSound(await says(tab));
      assert.equal(await tab.locator("section.scenario").count(), 4);
      assert.equal(await tab.locator(".matrix a[data-run]").count(), 4);
    });
  });

  test("a report of another format says so", () =>
    visit(page("other.html", { ...sample(), format: "tidegate-lab-report/9" }), {}, async (tab) => assert.match(await says(tab), /tidegate-lab-report\/9/)));

  test("an hour of seconds is drawn, too", () => {
    const data = sample();
    data.scenarios = data.scenarios.slice(1, 2);
    const long = (values) => Array.from({ length: 3600 }, (_, i) => values[i % values.length]);
    for (const run of data.scenarios[0].runs) for (const [name, values] of Object.entries(run.series)) if (Array.isArray(values)) run.series[name] = long(values);
    data.scenarios[0].duration = 3600;
    return visit(page("long.html", data), {}, async (tab) => {
      await tab.locator(".cursor input").fill("3599");
      assert.match(await tab.locator(".now").innerText(), /59:59/);
    });
  });

  test("the template without data says that there are none", () => visit(write("template.html", template()), {}, async (tab) => assert.match(await says(tab), /no data/)));

  test("data that are no JSON are said to be so", () => visit(write("broken.html", template().replace("/*TIDEGATE_REPORT*/", "{oops")), {}, async (tab) => assert.match(await says(tab), /can't be read/)));
});

describe("the template", () => {
  test("is small and has one place for the data", () => {
    assert.ok(Buffer.byteLength(template()) < 150_000);
    assert.equal(template().split("/*TIDEGATE_REPORT*/").length, 2);
    assert.equal(template().split('<script type="application/json" id="data">/*TIDEGATE_REPORT*/</script>').length, 2);
  });

  test("is built from packages whose lock names no host", () => {
    assert.doesNotMatch(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"), /"resolved"/);
  });
});
