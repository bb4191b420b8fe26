// The page of a replay in a browser, by file://. Of the sample, or of a real one: REPLAY=path npm test. What is expected is taken from the
// data in the file.
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { describe, test } from "node:test";
import { replaySample } from "../sample/make-replay.mjs";
import { laws } from "./laws.mjs";
import { all, assertFits, assertHarmless, assertShows, assertSound, dataOf, EVIL, page, replaced, says, visit } from "./visit.mjs";

const PHONE = { width: 390, height: 844 };
const path = process.env.REPLAY ? resolve(process.env.REPLAY) : page("replay.html", replaySample());
const replay = dataOf(path);
const { policies } = replay;
const rows = replay.offered?.length ?? 0;
const count = (value) => value.toLocaleString("en-US");
/** As the page cuts what others wrote. */
const clip = (text, most = 100) => (text.length > most ? text.slice(0, most) : text);

/** The cells of a table, row by row. */
const cells = (table) => table.locator("tbody tr").evaluateAll((list) => list.map((row) => [...row.children].map((cell) => cell.textContent)));

/** What a line of the charts should show at a row, by the name that it has. */
function expected(name, row) {
  const [kind, policy, limit] = name.split("-");
  const refused = policies[policy]?.refused?.[row] ?? null;
  if (kind === "offered") return replay.offered[row];
  if (kind === "refused") return refused;
  if (kind === "admitted") return refused === null ? null : replay.offered[row] - refused;
  return kind === "limit" ? policies[policy].limits[limit].series[row] : undefined;
}

describe("the replay", () => {
  test("opens without an error and without a request, and first shows how much would have been rejected", () =>
    visit(path, {}, async (tab) => {
      const verdict = await tab.locator("h1").innerText();
      for (const { name, totals } of policies) {
        if (totals.requests === 0) continue;
        assert.ok(verdict.includes(clip(name, 60)), verdict);
        assert.ok(verdict.includes(totals.refused === 0 ? "none" : count(totals.refused)), verdict);
      }
      if (replay.log.requests > 0) assert.ok(verdict.includes(count(replay.log.requests)), verdict);
      assert.ok((await tab.title()).includes(verdict.slice(0, 40)));
      assertSound(await says(tab));
    }));

  test("has the policies side by side", () =>
    visit(path, {}, async (tab) => {
      const figures = new Map((await cells(tab.locator("table.policies"))).map(([name, ...values]) => [name, values]));
      for (const [name, key] of [["Requests", "requests"], ["Admitted", "admitted"], ["Rejected", "refused"], ["Rejected in a dry run only", "watched"], ["Without a key", "lacking"], ["Without a route", "noRoute"], ["Delayed", "delayed"]]) {
        policies.forEach(({ totals }, i) => assertShows(figures.get(name)[i], totals[key], name));
      }
    }));

  test("has what two policies decide differently", { skip: !replay.differences }, () =>
    visit(path, {}, async (tab) => {
      const { bothAdmit, onlyFirstRefuses, onlySecondRefuses, bothRefuse } = replay.differences;
      const shown = await all(tab, ".differences td b");
      [bothAdmit, onlySecondRefuses, onlyFirstRefuses, bothRefuse].forEach((value, i) => assertShows(shown[i], value, `cell ${i}`));
    }));

  test("says what of the log can't be read and what it lacks, and every note", () =>
    visit(path, {}, async (tab) => {
      // As a browser shows white space, whatever a log has.
      const plain = (text) => text.replace(/\s+/g, " ").trim();
      const text = plain(await says(tab));
      const { badLines, bad, late, lacks } = replay.log;
      if (badLines > 0) assert.ok(text.includes(`${count(badLines)} line`));
      if (late > 0) assert.match(text, new RegExp(`${count(late)} lines? (is|are) further out of order`));
      for (const one of bad) assert.ok(text.includes(plain(clip(one.reason, 300))), one.reason);
      for (const one of lacks) assert.ok(text.includes(one), one);
      for (const note of policies.flatMap((policy) => policy.notes)) assert.ok(text.includes(plain(clip(note, 600))), note);
    }));

  test("has tables of limits, routes and clients for every policy", () =>
    visit(path, {}, async (tab) => {
      assert.equal(await tab.locator("section.policy").count(), policies.length);
      for (const [i, policy] of policies.entries()) {
        const section = tab.locator("section.policy").nth(i);
        const limits = await cells(section.locator("table.limits"));
        assert.equal(limits.length, policy.limits.length);
        limits.forEach(([name, , numbers, , asked, refused], k) => {
          const limit = policy.limits[k];
          assert.ok(name.startsWith(clip(limit.name, 60)));
          assert.equal(name.endsWith("dry run"), limit.isWatching);
          for (const [key, value] of Object.entries(limit.numbers)) assert.ok(numbers.includes(`${key} ${value}`), numbers);
          assertShows(asked, limit.asked, name);
          assertShows(refused, limit.refused, name);
        });
        const routes = await cells(section.locator("table.routes"));
        assert.deepEqual(routes.map(([name]) => name.replace(/…$/, "")), policy.routes.map(({ name }) => clip(name)));
        routes.forEach(([name, asked, refused], k) => [[asked, policy.routes[k].requests], [refused, policy.routes[k].refused]].forEach(([shown, value]) => assertShows(shown, value, name)));
        const clients = await cells(section.locator("table.clients"));
        assert.deepEqual(clients.map(([name]) => name.replace(/…$/, "")), policy.clients.map(({ client }) => clip(client)));
        clients.forEach(([name, asked, refused, , , first], k) => {
          assertShows(asked, policy.clients[k].requests, name);
          assertShows(refused, policy.clients[k].refused, name);
          if (policy.clients[k].first != null) assert.ok(first.endsWith(new Date(policy.clients[k].first * 1000).toISOString().slice(11, 19)), first);
        });
      }
    }));

  test("shows the values of the moment under the pointer, in the charts of all policies", { skip: rows < 3 }, () =>
    visit(path, {}, async (tab) => {
      const plot = tab.locator("[data-chart=traffic-0] .u-over");
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      for (const share of [0.25, 0.6]) {
        await tab.mouse.move(box.x + box.width * share, box.y + box.height / 2);
        const index = Number(await tab.locator(".cursor input").inputValue());
        assert.ok(Math.abs(index - share * (rows - 1)) <= 1 + rows / box.width, `index ${index} at ${share}`);
        const values = await all(tab, ".legend .value", (one) => [one.dataset.series, one.textContent]);
        assert.ok(values.length >= 2 * policies.length);
        for (const [name, text] of values) if (expected(name, index) !== undefined) assertShows(text, expected(name, index), `${name}[${index}]`);
        const at = new Date((replay.start + index * replay.step) * 1000).toISOString().slice(11, 16);
        assert.match(await tab.locator(".now").innerText(), new RegExp(`${at}.* UTC`));
        const lines = await all(tab, ".u-cursor-x", (one) => Math.round(one.getBoundingClientRect().x));
        assert.ok(Math.max(...lines) - Math.min(...lines) <= 2 + box.width / rows, String(lines));
      }
    }));

  test("shows a part of the time when a chart is dragged over, and all of it again", { skip: rows < 20 }, () =>
    visit(path, {}, async (tab) => {
      const plot = tab.locator("[data-chart=traffic-0] .u-over");
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      await tab.mouse.move(box.x + box.width * 0.5, box.y + 20);
      await tab.mouse.down();
      await tab.mouse.move(box.x + box.width * 0.75, box.y + 30, { steps: 4 });
      await tab.mouse.up();
      await tab.mouse.move(box.x + 1, box.y + 20);
      const middle = Number(await tab.locator(".cursor input").inputValue());
      assert.ok(Math.abs(middle - (rows - 1) / 2) <= 2 + rows / box.width, String(middle));
      await tab.getByRole("button", { name: "Show all" }).click();
      assert.equal(Number(await tab.locator(".cursor input").inputValue()), middle);
    }));

  test("leads from a policy's worst row to that moment in the charts", { skip: rows === 0 || policies.every(({ worst }) => !worst) }, () =>
    visit(path, {}, async (tab) => {
      const { worst } = policies.find((policy) => policy.worst);
      await tab.locator(".policies .when").first().click();
      assert.equal(Number(await tab.locator(".cursor input").inputValue()), Math.floor((worst.at - replay.start) / replay.step));
      assert.ok((await tab.locator("[data-chart=traffic-0]").boundingBox()).y < 450);
    }));

  test("has its values as a table", { skip: rows === 0 }, () =>
    visit(path, {}, async (tab) => {
      await tab.getByText("Values as a table").click();
      const [time, offered] = (await cells(tab.locator("table.values")))[0];
      assert.match(time, / UTC$/);
      assertShows(offered, replay.offered[0], "offered[0]");
    }));

  test("suggests numbers, from what to what, with a configuration that can be copied", { skip: !replay.suggestion }, () =>
    visit(path, { permissions: ["clipboard-read", "clipboard-write"] }, async (tab) => {
      const { limits, yaml } = replay.suggestion;
      const shown = await cells(tab.locator("table.suggestion"));
      limits.forEach((limit, i) => {
        assert.equal(shown[i][0], clip(limit.name, 60));
        for (const [key, value] of Object.entries(limit.from)) assert.ok(shown[i][2].includes(`${key} ${value}`), shown[i][2]);
        for (const [key, value] of Object.entries(limit.to)) assert.ok(shown[i][3].includes(`${key} ${value}`), shown[i][3]);
      });
      assert.equal(await tab.locator("pre").textContent(), yaml);
      await tab.getByRole("button", { name: "Copy YAML" }).click();
      await tab.getByText("Copied.").waitFor();
      assert.equal(await tab.evaluate(() => navigator.clipboard.readText()), yaml);
    }));

  /* The terminal said that the numbers fit one client alone, and how to leave it out; the page did not. */
  test("says beside a suggestion what to bear in mind", { skip: !replay.suggestion?.notes?.length }, () =>
    visit(path, {}, async (tab) => {
      const list = tab.locator("#suggestion ~ .notes li");
      assert.deepEqual(await list.allInnerTexts(), replay.suggestion.notes);
    }));

  test("says nothing where there is nothing to bear in mind", () => {
    const data = replaySample();
    delete data.suggestion.notes;
    return visit(page("replay-no-notes.html", data), {}, async (tab) => assert.equal(await tab.locator("#suggestion ~ .notes").count(), 0));
  });

  laws(path);
});

// These make up their data: they say the same whichever replay is looked at.
describe("whatever a replay's data are", { skip: Boolean(process.env.REPLAY) }, () => {
  const file = (name, change) => page(name, change(replaySample()));

  test("markup and script in them do nothing", () => {
    const numbers = (policy) => policy.limits.forEach((limit) => Object.assign(limit, { numbers: { [EVIL]: 1 } }));
    const data = replaced(replaySample(), (value) => (typeof value === "string" && value !== "replay" ? EVIL : value));
    data.policies.forEach(numbers);
    return visit(page("replay-hostile.html", data), {}, async (tab) => {
      await assertHarmless(tab);
      await tab.getByText("Values as a table").click();
      await assertHarmless(tab);
    });
  });

  for (const [name, viewport] of [["a phone", PHONE], ["a screen", { width: 1280, height: 900 }]]) {
    for (const [kind, long] of [["one word", "x".repeat(10_000)], ["letters that run both ways", "\u202e\u05d0 <b>".repeat(2000)]]) {
      test(`texts of 10,000 letters, ${kind}, fit ${name}`, () => {
        const data = replaced(replaySample(), (value) => (typeof value === "string" && value !== "replay" ? long : value));
        return visit(page("replay-long.html", data), { viewport }, async (tab) => {
          await assertFits(tab);
          assert.equal(await tab.locator("section.policy").count(), 2);
          assert.ok((await tab.locator("h1").boundingBox()).height < 500);
          for (const height of await all(tab, "table.clients tr, table.limits tr, table.bad tr", (row) => row.offsetHeight)) assert.ok(height < 260, String(height));
        });
      });
    }
  }

  test("one policy has a whole sentence", () =>
    visit(file("replay-one.html", (data) => ({ ...data, policies: data.policies.slice(0, 1), differences: null })), {}, async (tab) => {
      const { totals, clientsRefused } = replaySample().policies[0];
      const verdict = await tab.locator("h1").innerText();
      assert.ok(verdict.startsWith(`gateway.yaml would have rejected ${count(totals.refused)} of ${count(totals.requests)} requests (`), verdict);
      assert.match(verdict, new RegExp(`from ${clientsRefused} clients; the worst 10 minutes began \\w{3} \\d+ Nov \\d\\d:\\d0 UTC`));
      assert.equal(await tab.locator(".differences").count(), 0);
      assert.equal(await tab.locator("[data-chart]").count(), 2);
      assert.equal(await tab.locator("[data-chart=traffic-0] figcaption strong").innerText(), "Traffic");
    }));

  test("four policies stand side by side, and fit a phone", () =>
    visit(file("replay-four.html", (data) => ({ ...data, policies: [...data.policies, ...data.policies] })), { viewport: PHONE }, async (tab) => {
      assert.equal(await tab.locator(".policies thead th").count(), 5);
      assert.equal(await tab.locator("section.policy").count(), 4);
      assert.equal(await tab.locator(".differences").count(), 0);
      await assertFits(tab);
    }));

  test("a policy that rejects nothing is shown so, without empty charts and tables", () => {
    const quiet = (policy) => ({
      ...policy, refused: policy.refused.map(() => 0), clients: [], clientsRefused: 0, worst: null,
      totals: { ...policy.totals, refused: 0, watched: 0, admitted: policy.totals.requests },
      limits: policy.limits.map((limit) => ({ ...limit, refused: 0, series: limit.series.map(() => 0) })),
    });
    return visit(file("replay-quiet.html", (data) => ({ ...data, policies: [quiet(data.policies[0])], differences: null, suggestion: null })), {}, async (tab) => {
      const text = await says(tab);
      assert.match(await tab.locator("h1").innerText(), /would have rejected none of/);
      assert.match(text, /Nothing would have been rejected, so there is no chart/);
      assert.match(text, /No client would have been rejected/);
      assert.deepEqual(await all(tab, "[data-chart]", (chart) => chart.dataset.chart), ["traffic-0"]);
      assert.equal(await tab.locator("table.clients").count(), 0);
      assertSound(text);
    });
  });

  test("more limits than looks: the others are one line", () =>
    visit(
      file("replay-many.html", (data) => {
        const [policy] = data.policies;
        const limit = policy.limits[0];
        return { ...data, policies: [{ ...policy, limits: Array.from({ length: 9 }, (_, i) => ({ ...limit, name: `limit ${i}`, refused: 90 - i })) }] };
      }),
      {},
      async (tab) => {
        const labels = await all(tab, "[data-chart=limits-0] .legend button");
        assert.deepEqual(labels, ["limit 0", "limit 1", "limit 2", "limit 3", "limit 4", "4 others"]);
        await tab.locator(".cursor input").fill("57");
        assertShows(await tab.locator("[data-series=others-0]").innerText(), 4 * replaySample().policies[0].limits[0].series[57], "others");
      },
    ));

  test("clients that were left out are listed", () => {
    const { log, ...data } = replaySample();
    const without = [{ name: "203.0.113.9", requests: 15000 }, { name: "<b>", requests: 1 }];
    return visit(page("replay-without.html", { ...data, log: { ...log, without } }), {}, async (tab) => assert.match(await says(tab), /Left out on demand: 15,000 requests of 203\.0\.113\.9, 1 request of <b>\./));
  });

  test("numbers that are not known are dashes", () =>
    visit(page("replay-nulls.html", replaced(replaySample(), (value) => (typeof value === "number" ? null : value))), {}, async (tab) => {
      const text = await says(tab);
      assertSound(text);
      assert.doesNotMatch(text, /\bnull\b/);
      for (const shown of await all(tab, "table.policies td, table.limits td.number, table.routes td.number, table.clients td.number")) assert.equal(shown, "–");
    }));

  for (const [name, data] of Object.entries({
    nothing: { kind: "replay" },
    nulls: { kind: "replay", format: "tidegate-lab-replay/1", log: null, step: null, start: null, offered: null, policies: null, differences: null, suggestion: null },
    "odd shapes": { kind: "replay", format: "tidegate-lab-replay/1", log: [], step: "x", offered: {}, policies: [{}, null, "x", { limits: [{}, null], routes: [null], clients: [{}], totals: [], refused: "x", worst: [] }], differences: 7, suggestion: {} },
    "no requests": { kind: "replay", format: "tidegate-lab-replay/1", log: { requests: 0, lines: 0, badLines: 0 }, step: 60, start: 0, offered: [], policies: [{ name: "a.yaml", totals: { requests: 0, refused: 0 }, refused: [] }] },
    "one row": { kind: "replay", format: "tidegate-lab-replay/1", step: 1, start: 1_699_920_000, offered: [5], policies: [{ name: "a.yaml", totals: { requests: 5, refused: 2 }, refused: [2], limits: [{ name: "l", refused: 2, series: [2] }] }] },
    "rows without a time": { kind: "replay", format: "tidegate-lab-replay/1", offered: [5, 6, 7], policies: [{ name: "a.yaml", refused: [2, 0, null] }] },
    "times beyond any calendar": { kind: "replay", format: "tidegate-lab-replay/1", log: { from: 1e300, until: -1e300 }, step: 1e300, start: 1e15, offered: [5, 6], policies: [{ name: "a.yaml", refused: [2, 0], clients: [{ client: "c", first: 1e200, last: -1e200 }], worst: { at: 1e200 } }] },
  })) {
    test(`${name}: a page comes out`, () =>
      visit(page("replay-odd.html", data), {}, async (tab) => {
        assertSound(await says(tab));
        assert.equal(await tab.locator("h1").count(), 1);
        assert.equal(await tab.locator("section.policy").count(), data.policies?.length ?? 0);
        const slider = tab.locator(".cursor input");
        if (await slider.count()) await slider.fill(await slider.getAttribute("max"));
        assertSound(await says(tab));
      }));
  }

  test("many lines that can't be read are a warning at the top", () =>
    visit(file("replay-bad.html", (data) => ({ ...data, log: { ...data.log, lines: 100, badLines: 40 } })), {}, async (tab) => assert.match(await tab.locator("header .warning").innerText(), /^40\s% of the log's lines can't be read/)));

  test("a replay of another format says so", () =>
    visit(file("replay-version.html", (data) => ({ ...data, format: "other/9" })), {}, async (tab) => assert.match(await tab.locator("main > .warning").innerText(), /format is “other\/9”/)));

  test("without a clipboard the configuration is selected to be copied", () =>
    visit(file("replay-clipboard.html", (data) => data), {}, async (tab) => {
      await tab.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
      await tab.getByRole("button", { name: "Copy YAML" }).click();
      await tab.getByText("It is selected").waitFor();
      assert.equal(await tab.evaluate(() => String(getSelection()).trim()), replaySample().suggestion.yaml.trim());
    }));

  test("1,500 rows are drawn, a minute each, with their dates in UTC wherever the reader is", () => {
    const long = (values) => Array.from({ length: 1500 }, (_, i) => values[i % values.length]);
    const data = replaySample();
    const policies = data.policies.map((policy) => ({ ...policy, refused: long(policy.refused), limits: policy.limits.map((limit) => ({ ...limit, series: long(limit.series) })) }));
    return visit(page("replay-rows.html", { ...data, step: 60, offered: long(data.offered), policies }), { timezoneId: "America/St_Johns" }, async (tab) => {
      await tab.locator(".cursor input").fill("1499");
      assert.equal(await tab.locator(".now").innerText(), "at Wed 15 Nov 00:59 UTC");
    });
  });
});
