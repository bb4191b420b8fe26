// The report in a browser, by file://. Of the sample, or of a real one: REPORT=path npm test. What is expected is taken from the data in
// the file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, test } from "node:test";
import { sample } from "../sample/make-sample.mjs";
import { template } from "../sample/template.mjs";
import { laws } from "./laws.mjs";
import { all, assertHarmless, assertShows, assertSound, dataOf, EVIL, page, replaced, says, visit, write } from "./visit.mjs";

const path = process.env.REPORT ? resolve(process.env.REPORT) : page("sample.html", sample());
const report = dataOf(path);
const runs = report.scenarios.flatMap((scenario) => scenario.runs.map((run) => ({ scenario, run })));
const WORDS = { passed: "as expected", failed: "not as expected", invalid: "invalid", skipped: "not run" };
const drawn = runs.filter(({ run }) => (run.series?.offered ?? []).filter((value) => value !== null).length > 2);

/** Goes to a run by its cell in the matrix and gives the part of the page that shows it. */
async function openRun(page, id) {
  await page.locator("a.cell[data-run]").evaluateAll((cells, wanted) => cells.find((cell) => cell.dataset.run === wanted).click(), id);
  return page.locator("article.run").and(page.locator(`[data-run=${JSON.stringify(id)}]`));
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
      const cells = new Map((await all(page, "a.cell[data-run]", (cell) => [cell.dataset.run, [cell.querySelector(".score").textContent, cell.className, cell.title]])));
      assert.equal(cells.size, runs.length);
      for (const { run } of runs) {
        const [score, look, title] = cells.get(run.id);
        assert.ok(look.includes(run.status), run.id);
        assert.ok(title.endsWith(`, ${WORDS[run.status]}`), title);
        if (run.status !== "skipped") assertShows(score, run.variant ? Math.round(run.scores?.served * 1e5) / 1e3 : run.scores?.protection, run.id);
      }
    }));

  test("has the same digits for a figure wherever it stands: what the lab wrote beside an expectation, and the tables", () =>
    visit(path, {}, async (page) => {
      const COLUMN = { refused: "refusedShare", refused_honest: "refusedHonest", refused_attackers: "refusedAttackers", goodput: "goodput", worst_window: "worstWindow", over_admitted: "overAdmitted", under_admitted: "underAdmitted", target_errors: "targetErrorShare", p95: "p95", recovery: "recoverySeconds", protection: "protection", served: "served", amplification: "amplification", failed_wait: "failedWaitSeconds" };
      const column = (figure) => COLUMN[figure] ?? figure.replace(/^served\{(.*)\}$/, "served-$1");
      const keys = await page.locator("section.scenario").evaluateAll((list) => list.map((one) => [...one.querySelectorAll(".comparison thead th")].map((head) => head.dataset.key)));
      const cells = new Map(await all(page, ".comparison tbody tr", (row) => [row.dataset.run, [...row.children].map((cell) => cell.lastChild?.textContent.replace("\u00a0", " ").replace("×", ""))]));
      for (const [i, scenario] of report.scenarios.entries()) {
        for (const run of scenario.runs) {
          for (const { text, value } of run.expectations ?? []) {
            const place = keys[i].indexOf(column(text.split(" ")[0]));
            if (value && place > 0) assert.equal(cells.get(run.id)[place], value, `${run.id}: ${text}`);
          }
        }
      }
    }));

  test("shows the values of the second under the pointer, in all charts", { skip: drawn.length === 0 }, () =>
    visit(path, {}, async (page) => {
      const { scenario, run } = drawn.find(({ run: one }) => one.status === "failed") ?? drawn[0];
      const shown = await openRun(page, run.id);
      const plot = shown.locator("[data-chart=traffic] .u-over");
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      const { step, offered } = run.series;
      const steps = Math.min(offered.length, scenario.duration / step);
      for (const place of [0.25, 0.75, 2.25, 2.75, Math.floor(steps / 2) + 0.5, steps - 0.1]) {
        await page.mouse.move(box.x + (box.width * place) / steps, box.y + box.height / 2);
        const index = Number(await shown.locator(".cursor input").inputValue());
        assert.equal(index, Math.floor(place), `at ${place} of ${steps} steps`);
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
      for (const x of lines) assert.ok(Math.abs(x - box.x - (box.width * (middle + 0.5)) / run.series.offered.length) < 3, `${x} in ${box.x} + ${box.width}`);
    }));

  test("can be read by keyboard: the slider moves through the seconds and announces them", { skip: drawn.length === 0 }, () =>
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

  test("shows first what is not as it should be, then what a limit does", () =>
    visit(path, {}, async (page) => {
      const shown = await all(page, "article.run", (one) => one.dataset.run);
      const first = report.scenarios.filter((scenario) => scenario.runs.length > 0).map((scenario) => {
        const rank = (run) => ["failed", "invalid", "passed", "skipped"].indexOf(run.status) * 2 + Number(run.algorithm === null && !run.variant && run.status === "passed");
        return [...scenario.runs].sort((a, b) => rank(a) - rank(b))[0].id;
      });
      assert.deepEqual(shown, first);
    }));

  test("says of a run whether it is as expected: a baseline that suffers did not pass anything", () =>
    visit(path, {}, async (page) => {
      const badges = new Map(await all(page, ".comparison tbody tr", (row) => [row.dataset.run, row.querySelector(".badge").textContent]));
      for (const { run } of runs) assert.equal(badges.get(run.id), WORDS[run.status]);
      assert.doesNotMatch((await says(page)).replace(/^.*(Passed|Not passed):/m, ""), /\b(passed|skipped)\b/i);
    }));

  test("has whole tables on paper, with the words of a status", { skip: runs.length === 0 }, () =>
    visit(path, { viewport: { width: 703, height: 900 } }, async (page) => {
      await page.emulateMedia({ media: "print" });
      assert.ok((await page.locator(".comparison .badge span").first().boundingBox()).width > 10);
      for (const right of await all(page, ".comparison, .peaks table", (table) => table.getBoundingClientRect().right)) assert.ok(right <= 704, String(right));
    }));

  for (const width of [1400, 1100, 920]) {
    test(`has its runs side by side without scrolling, ${width} pixels wide`, () =>
      visit(path, { viewport: { width, height: 900 } }, async (page) => {
        for (const beyond of await all(page, ".comparison", (table) => table.parentElement.scrollWidth - table.parentElement.clientWidth)) assert.equal(beyond, 0);
      }));
  }

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
        // The page draws a run when it is to be shown, which takes a moment on a busy machine.
        await shown.waitFor({ state: "visible" });
        const top = (await shown.boundingBox()).y;
        assert.ok(top >= 0 && top < 450, `${id} is at ${top}`);
        assert.equal(await shown.locator(".badge").first().innerText(), WORDS[status]);
        const { run } = runs.find((one) => one.run.id === id);
        if (run.reason) assert.ok((await shown.innerText()).includes(run.reason));
        assert.equal(await page.evaluate(() => document.activeElement.tagName), "H3");
        await page.evaluate(() => scrollTo(0, 0));
      }
    }));

  test("shows the run that its address names", { skip: runs.length === 0 }, () =>
    visit(path, {}, async (page, url) => {
      const { run } = runs.at(-1);
      const anchor = await page.locator("a.cell[data-run]").evaluateAll((cells, id) => cells.find((cell) => cell.dataset.run === id).hash, run.id);
      await page.goto("about:blank");
      await page.goto(url + anchor);
      const box = await page.locator("article.run").last().boundingBox();
      assert.equal(await page.locator("article.run").last().getAttribute("data-run"), run.id);
      assert.ok(box.y >= 0 && box.y < 900, String(box.y));
    }));

  laws(path);
});

// These make up their data: they say the same whichever report is looked at.
describe("whatever the data are", { skip: Boolean(process.env.REPORT) }, () => {
  test("markup and script in them do nothing", () => {
    const keep = new Set(["passed", "failed", "invalid", "skipped", "tidegate-lab-report/1"]);
    const data = replaced(sample(), (value) => (typeof value === "string" && !keep.has(value) ? EVIL : value));
    return visit(page("hostile.html", data), {}, async (tab) => {
      await tab.locator(".picker button").last().click();
      await assertHarmless(tab);
    });
  });

  test("halves go up, and no digit stands where it says nothing", () => {
    const data = sample();
    const run = data.scenarios[0].runs.find((one) => one.id === "normal/token/off");
    Object.assign(run.scores, { protection: 80.85, goodput: 1, refusedShare: 0.070455, refusedHonest: 0.1915, overAdmitted: 0.000781, underAdmitted: 0.000001, worstWindow: 1.195, fairness: 0.999843, recoverySeconds: 0 });
    run.scores.latency.p95 = 0.2758;
    Object.assign(run.gateway, { cpuPerRequest: 0.0001409, refusalP99: 0.000216 });
    return visit(page("halves.html", data), {}, async (tab) => {
      const row = await all(tab, ".comparison tbody tr", (one) => [one.dataset.run, Object.fromEntries([...one.children].map((cell, i) => [one.closest("table").rows[0].cells[i].dataset.key, cell.lastChild?.textContent.replace("\u00a0", " ")]))]);
      const { run: _name, status: _status, ...shown } = new Map(row).get(run.id);
      assert.deepEqual(shown, { protection: "80.9", worstWindow: "1.2×", goodput: "100 %", refusedShare: "7.05 %", refusedHonest: "19.2 %", overAdmitted: "0.078 %", underAdmitted: "<0.001 %", p95: "276 ms", targetErrorShare: "0 %", recoverySeconds: "0 ms" });
      const text = (await (await openRun(tab, run.id)).locator(".figures").innerText()).replaceAll("\u00a0", " ");
      for (const part of [/fairness\s+100 %/, /protection\s+80.9/, /CPU per request\s+141 µs/, /refusal p99\s+0.216 ms/]) assert.match(text, part);
    });
  });

  test("a bucket's burst is no warning: above the limit counts what was over-admitted, and the page says why", () => {
    const data = sample();
    data.scenarios = data.scenarios.slice(0, 1);
    for (const run of data.scenarios[0].runs) Object.assign(run.scores, { worstWindow: 1.193333, overAdmitted: run.algorithm === "fixed" ? 0.02 : 0 });
    return visit(page("burst.html", data), {}, async (tab) => {
      const orange = new Map(await all(tab, ".comparison td.bar", (cell) => [cell.closest("tr").dataset.run, [cell.classList.contains("over"), cell.title]]));
      const [isOver, hint] = orange.get("normal/token/off");
      assert.ok(!isOver && /burst is meant to come on top/.test(hint), hint);
      assert.deepEqual(orange.get("normal/fixed/off"), [true, ""]);
      const rows = new Map(await all(tab, ".windows tbody tr", (row) => [row.cells[0].textContent, [row.cells[2].classList.contains("over"), row.cells[3].textContent, row.querySelectorAll("circle.over").length]]));
      assert.deepEqual(rows.get("Token bucket"), [false, "nothing over-admitted", 0]);
      assert.deepEqual(rows.get("Fixed window"), [true, "normal, adaptation off", 2]);
      for (const part of [".scenario .remark", "#windows ~ .remark"]) assert.match(await tab.locator(part).innerText(), /burst is meant to come on top/);
    });
  });

  /* The row of the sliding window said 1.5× beside a mark at 1.995×: the text was of the worst run that was over its limit, the plot of all. */
  test("the worst window in the text is the mark furthest to the right, also where a burst is above what was over-admitted", () => {
    const data = sample();
    const sliding = data.scenarios.flatMap((scenario) => scenario.runs).filter((run) => run.algorithm === "sliding" && run.status !== "skipped");
    for (const run of sliding) Object.assign(run.scores, { worstWindow: 1, overAdmitted: 0 });
    Object.assign(sliding.find((run) => run.id === "outage/sliding/off").scores, { worstWindow: 1.495, overAdmitted: 0.12 });
    Object.assign(sliding.find((run) => run.id === "spikes/sliding/on").scores, { worstWindow: 1.995, overAdmitted: 0 });
    return visit(page("worst.html", data), {}, async (tab) => {
      const rows = new Map(await all(tab, ".windows tbody tr", (row) => {
        const at = (element, name) => parseFloat(element.getAttribute(name));
        const marks = [...row.querySelectorAll(".strip > svg")].map((mark) => at(mark, "x"));
        return [row.cells[0].textContent, { plotted: Math.max(...marks) / at(row.querySelector("line.allowed"), "x1"), text: row.cells[2].textContent, over: row.cells[2].classList.contains("over"), where: row.cells[3].textContent }];
      }));
      for (const [name, { plotted, text }] of rows) if (name !== "No limit" && plotted > 0) assertShows(text.replace("×", ""), plotted, name);
      const { text, over, where } = rows.get("Sliding window");
      assert.deepEqual([text, over, where], ["2×", false, "spikes, adaptation on, nothing over-admitted; over the limit: 1.5× in outage, adaptation off"]);
    });
  });

  test("of equal worst windows the one that was over the limit is shown", () => {
    const data = sample();
    const sliding = data.scenarios.flatMap((scenario) => scenario.runs).filter((run) => run.algorithm === "sliding" && run.status !== "skipped");
    for (const run of sliding) Object.assign(run.scores, { worstWindow: 1.5, overAdmitted: run.id === "outage/sliding/off" ? 0.12 : 0 });
    return visit(page("equal.html", data), {}, async (tab) => {
      const rows = new Map(await all(tab, ".windows tbody tr", (row) => [row.cells[0].textContent, [row.cells[2].classList.contains("over"), row.cells[3].textContent]]));
      assert.deepEqual(rows.get("Sliding window"), [true, "outage, adaptation off"]);
    });
  });

  test("what is not scored is in the notes, marked in the charts, and announced at its seconds", () => {
    const data = sample();
    const id = "outage/token/off";
    const { exempt: [exempt], notes } = data.scenarios.flatMap((scenario) => scenario.runs).find((run) => run.id === id);
    const bare = replaced(data, (value) => value);
    for (const run of bare.scenarios.flatMap((scenario) => scenario.runs)) delete run.exempt;
    const look = async (name, of, body) => {
      let pixels;
      await visit(page(name, of), {}, async (tab) => {
        const shown = await openRun(tab, id);
        pixels = await shown.locator("[data-chart=traffic] canvas").first().evaluate((canvas) => canvas.toDataURL());
        await body(tab, shown);
      });
      return pixels;
    };
    return (async () => {
      const marked = await look("exempt.html", data, async (tab, shown) => {
        assert.ok((await shown.locator(".notes").innerText()).includes(notes[0]), "in words");
        await shown.locator(".cursor input").fill(String(Math.floor(exempt.from)));
        assert.match(await shown.locator(".now").innerText(), /no limit, not scored/);
        for (const second of [Math.floor(exempt.from) - 1, Math.ceil(exempt.until)]) {
          await shown.locator(".cursor input").fill(String(second));
          assert.doesNotMatch(await shown.locator(".now").innerText(), /not scored/, `second ${second} is scored`);
        }
        assert.match(await tab.locator("[data-scenario=outage] .remark").allInnerTexts().then((list) => list.join(" ")), /Some seconds are not scored/);
        assert.doesNotMatch(await tab.locator("[data-scenario=normal]").innerText(), /not scored/);
      });
      const unmarked = await look("not-exempt.html", bare, async () => {});
      assert.notEqual(marked, unmarked, "it is to be seen");
    })();
  });

  test("figures that puzzle have a hint: a full goodput beside errors, what a request costs at rest", () => {
    const data = sample();
    Object.assign(data.scenarios[0].runs[0].scores, { goodput: 1, targetErrorShare: 0.1915 });
    return visit(page("hints.html", data), {}, async (tab) => {
      assert.match(await tab.locator("th[data-key=goodput] button").first().getAttribute("title"), /the target.s capacity, whichever is less/);
      assert.match(await tab.locator(".scenario").first().locator(".remark").innerText(), /smaller of the offered load and the target's capacity/);
      assert.equal(await tab.locator(".scenario").last().locator(".remark", { hasText: "Goodput" }).count(), 0);
      const cost = (await openRun(tab, "normal/token/off")).getByText("CPU per request");
      assert.match(await cost.getAttribute("title"), /low load/);
      assert.match(await tab.locator("#reading ~ .terms").first().innerText(), /CPU per request\s+At this run's load/);
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
      for (const shown of await all(tab, ".matrix .score, .peaks td.number")) assert.match(shown, /^(–|not run)$/);
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
      assert.equal(await tab.locator("a.cell[data-run]").count(), 4);
    });
  });

  test("a limit is shown by the second, and whose it is", () => {
    const limits = [[{ rate: 150, window: 1, burst: 30, key: "global" }, "150/s, bursts of 30"], [{ rate: 2.5, window: 60, burst: 10, key: "client" }, "2.5/s for each client, windows of 60 s, bursts of 10"]];
    return visit(page("limits.html", { format: "tidegate-lab-report/1", scenarios: limits.map(([limit], i) => ({ name: `limit ${i}`, limit, runs: [] })) }), {}, async (tab) => {
      const shown = await all(tab, ".scenario .facts div:first-child dd", (one) => one.textContent.replaceAll("\u00a0", " "));
      assert.deepEqual(shown, limits.map(([, words]) => words));
    });
  });

  test("a report of another format says so", () =>
    visit(page("other.html", { ...sample(), format: "tidegate-lab-report/9" }), {}, async (tab) => assert.match(await says(tab), /tidegate-lab-report\/9/)));

  /** A run of six seconds, of which only these series were measured. */
  const short = (series) => {
    const run = { id: "short", algorithm: "token", status: "passed", scores: { latency: {} }, totals: {}, series: { step: 1, ...series } };
    return { format: "tidegate-lab-report/1", scenarios: [{ name: "short", duration: 6, runs: [run] }] };
  };

  test("what was measured in a second is flat there, and the last second is as wide as the others", () =>
    visit(page("flat.html", short({ busy: [4, 1, 3, null, 2, 4] })), {}, async (tab) => {
      const heights = await tab.locator("[data-chart=target] canvas").evaluate((canvas) => {
        const over = canvas.parentElement.querySelector(".u-over").getBoundingClientRect();
        const [left, top] = [over.x - canvas.getBoundingClientRect().x, over.y - canvas.getBoundingClientRect().y].map(Math.round);
        const [width, height] = [over.width, over.height].map(Math.round);
        const { data } = canvas.getContext("2d").getImageData(left, top, width, height);
        // Lines are the only thing that is blue: the grid is grey.
        const isBlue = (x, y) => data[4 * (y * width + x) + 2] > data[4 * (y * width + x)] + 60;
        const column = (x) => Array.from({ length: height }, (_, y) => y).filter((y) => isBlue(x, y)).join();
        const second = (k) => Array.from({ length: Math.floor(width / 6) - 6 }, (_, i) => column(Math.round((k * width) / 6) + 3 + i));
        return [0, 1, 2, 3, 4, 5].map((k) => [...new Set(second(k))]);
      });
      for (const [k, found] of heights.entries()) assert.equal(found.length, 1, `second ${k}: ${found.join(" and ")}`);
      assert.equal(heights[3][0], "", "what is not known is not drawn");
      assert.deepEqual(heights[0], heights[5]);
      assert.equal(new Set(heights.flat()).size, 5);
    }));

  test("a short run's axis has whole seconds to its end, and workers are whole", () =>
    visit(page("ticks.html", short({ offered: [9, 9, 9, 9, 9, 9], busy: [1, 0, 1, 0, 1, 1] })), {}, async (tab) => {
      await tab.evaluate(() => {
        window.written = [];
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
          window.written.push([this.canvas.closest("[data-chart]").dataset.chart, text.replace("\u00a0", " ")]);
          return fillText.call(this, text, ...rest);
        };
      });
      await tab.getByRole("radio", { name: "dark" }).check();
      await tab.waitForFunction(() => window.written.some(([chart]) => chart === "target"));
      const written = await tab.evaluate(() => window.written.filter(([chart]) => chart === "target").map(([, text]) => text));
      assert.deepEqual(written.filter((text) => text.endsWith(" s")), ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s"]);
      assert.deepEqual(written.filter((text) => !text.endsWith(" s")), ["0", "1"]);
    }));

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
