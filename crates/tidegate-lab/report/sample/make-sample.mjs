// A sample report, simulated request by request so that its figures agree with each other. Same seed, same bytes.
//   node sample/make-sample.mjs        writes dist/sample.json and dist/sample.html
import { fileURLToPath } from "node:url";
import { limiters } from "./limiters.mjs";
import { random } from "./random.mjs";
import { save } from "./template.mjs";

const SEED = 1;

const SCENARIOS = [
  {
    name: "normal", title: "Normal use, up to the limit", duration: 60, workers: 2, service: 0.005, store: "memory",
    description: "Load between 80 % and 100 % of the limit. A limiter that rejects anything here is too strict.",
    load: "wave: 80 to 100 req/s, period 30 s",
    clients: [{ name: "people", class: "honest", count: 10, share: 1 }],
    limit: { rate: 100, window: 1, burst: 20 },
    rate: (t) => ({ people: 88 + 8 * Math.sin((t / 30) * 2 * Math.PI) }),
    peaks: [], faults: [],
    expect: (run) => [below("refused", run.scores.refusedShare, 0.05), above("goodput", run.scores.goodput, 0.95)],
  },
  {
    name: "spikes", title: "Spikes of three times the limit", duration: 120, workers: 2, service: 0.008, store: "memory",
    description: "30 s at the limit, then 10 s at three times of it. Without a limit the target drowns in each spike; with adaptation the limit is raised before, to what the target bears.",
    load: "burst: 90 req/s, 300 req/s for 10 s of every 40 s",
    clients: [{ name: "people", class: "honest", count: 10, share: 0.75 }, { name: "crawlers", class: "honest", count: 2, share: 0.25 }],
    limit: { rate: 100, window: 1, burst: 20 },
    rate: (t) => { const all = t % 40 >= 30 ? 300 : 90; return { people: all * 0.75, crawlers: all * 0.25 }; },
    peaks: [[30, 40], [70, 80], [110, 120]], faults: [],
    expect: (run) => [below("target_errors", run.scores.targetErrorShare, 0.01), above("goodput", run.scores.goodput, 0.9), below("worst_window", run.scores.worstWindow, 1.5, digits)],
  },
  {
    name: "attack", title: "An attack of five times the limit", duration: 90, workers: 2, service: 0.005, store: "memory",
    description: "Five attackers send in pulses that straddle the seconds' boundaries, where a fixed window lets through twice what it should. Limits are per client.",
    load: "constant: 60 req/s of people, 440 req/s of bots from 20 s to 70 s, in pulses of 0.5 s",
    clients: [{ name: "people", class: "honest", count: 10, share: 0.12 }, { name: "bots", class: "attacker", count: 5, share: 0.88 }],
    limit: { rate: 10, window: 1, burst: 2 }, perClient: true,
    rate: (t) => ({ people: 60, bots: t >= 20 && t < 70 && (t + 0.25) % 1 < 0.5 ? 880 : 0 }),
    peaks: [[20, 70]], faults: [],
    expect: (run) => [below("refused_honest", run.scores.refusedHonest, 0.15), above("refused_attackers", run.scores.refusedAttackers, 0.75), below("worst_window", run.scores.worstWindow, 2.01, digits)],
  },
  {
    name: "outage", title: "Redis and the forecaster fail", duration: 120, workers: 2, service: 0.005, store: "redis",
    description: "Redis is killed, comes back, and is slowed; then the forecaster is killed. The gateway limits by itself while Redis is away.",
    load: "constant: 130 req/s",
    clients: [{ name: "people", class: "honest", count: 10, share: 1 }],
    limit: { rate: 100, window: 1, burst: 20 },
    rate: () => ({ people: 130 }),
    peaks: [],
    faults: [
      { at: 20, until: 40, kind: "redis_killed", label: "Redis killed" },
      { at: 55, until: 75, kind: "redis_slowed", label: "Redis slowed by 40 ms" },
      { at: 85, until: 105, kind: "forecaster_killed", label: "Forecaster killed" },
    ],
    expect: (run) => [below("errors", run.totals.errors / run.totals.offered, 0.01), below("p95", run.scores.latency.p95, 0.25, time)],
  },
];

/** Figures as the lab writes them. */
const digits = (value) => {
  const scale = value < 1 ? 1000 : value < 10 ? 100 : value < 100 ? 10 : 1;
  return String(Math.round(value * scale) / scale);
};
const share = (value) => `${digits(value * 100)} %`;
const time = (value) => (value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`);
const below = (what, value, bound, show = share) => ({ text: `${what} < ${show(bound)}`, passed: value < bound, value: show(value) });
const above = (what, value, bound, show = share) => ({ text: `${what} > ${show(bound)}`, passed: value > bound, value: show(value) });

/** All requests of a scenario in the order of their time, the same for each of its runs. */
function arrivals(scenario, next) {
  const list = [];
  for (const client of scenario.clients) {
    let t = 0;
    while (t < scenario.duration) {
      const rate = scenario.rate(t)[client.name];
      if (rate <= 0) { t += 0.01; continue; }
      t += (0.75 + 0.5 * next()) / rate;
      if (t < scenario.duration) list.push({ t, client: `${client.name}-${Math.floor(next() * client.count)}`, honest: client.class === "honest" });
    }
  }
  return list.sort((a, b) => a.t - b.t);
}

/** What the limit is at each second, as a multiple of the operator's. */
function factors(scenario, adaptation) {
  const capacity = scenario.workers / scenario.service;
  return Array.from({ length: scenario.duration }, (_, second) => {
    if (!adaptation || scenario.perClient) return 1;
    const peak = scenario.peaks.findIndex(([at, until]) => second >= at - 2 && second < until);
    if (scenario.name === "outage" && second >= 50 && second < 85) return 1.3;
    return peak > 0 ? (0.9 * capacity) / scenario.limit.rate : 1; // The first peak is not known yet.
  });
}

function fault(scenario, kind, t) {
  return scenario.faults.some((one) => one.kind === kind && t >= one.at && t < one.until);
}

const quantile = (sorted, q) => (sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]);
const round = (value, digits = 6) => (value === null ? null : Number(value.toFixed(digits)));

function simulate(scenario, requests, algorithm, adaptation, next) {
  const n = scenario.duration;
  const factor = factors(scenario, adaptation);
  const { limit } = scenario;
  const keyed = new Map();
  const zero = () => new Array(n).fill(0);
  const series = { step: 1, offered: zero(), offeredByAttackers: scenario.clients.some((client) => client.class === "attacker") ? zero() : null, admitted: zero(), refused: zero(), good: zero(), errors: zero() };
  const latencies = Array.from({ length: n }, () => []);
  const busyTime = zero();
  const queue = zero();
  const free = new Array(scenario.workers).fill(0);
  let waiting = [];
  const admitted = new Map();
  const counts = { honest: 0, honestRefused: 0, attackers: 0, attackersRefused: 0 };

  for (const request of requests) {
    const second = Math.floor(request.t);
    series.offered[second] += 1;
    if (!request.honest) series.offeredByAttackers[second] += 1;
    counts[request.honest ? "honest" : "attackers"] += 1;
    const key = scenario.perClient ? request.client : "all";
    if (!keyed.has(key)) keyed.set(key, algorithm === null ? () => 0 : limiters[algorithm](limit));
    // The first second without Redis: not yet noticed, everything passes.
    const blind = fault(scenario, "redis_killed", request.t) && request.t < 21;
    const delay = blind && algorithm !== null ? 0 : keyed.get(key)(request.t, factor[second]);
    if (delay === null) {
      series.refused[second] += 1;
      counts[request.honest ? "honestRefused" : "attackersRefused"] += 1;
      continue;
    }
    series.admitted[second] += 1;
    if (!admitted.has(key)) admitted.set(key, []);
    const slow = algorithm !== null && fault(scenario, "redis_slowed", request.t) ? 0.04 : 0;
    const due = request.t + delay + slow + 0.0004;
    admitted.get(key).push(request.t + delay);
    waiting = waiting.filter((start) => start > due);
    if (waiting.length >= 64) {
      series.errors[second] += 1;
      continue;
    }
    const worker = free.indexOf(Math.min(...free));
    const start = Math.max(due, free[worker]);
    const took = scenario.service * (0.9 + 0.2 * next());
    free[worker] = start + took;
    if (start > due) waiting.push(start);
    busyTime[second] += took;
    queue[second] = Math.max(queue[second], waiting.length);
    const latency = start + took - request.t + (next() < 0.01 ? 0.004 + 0.02 * next() : 0);
    latencies[second].push(latency);
    if (latency < 0.25) series.good[second] += 1;
  }

  const sorted = latencies.map((list) => [...list].sort((a, b) => a - b));
  for (const [name, q] of [["p50", 0.5], ["p95", 0.95], ["p99", 0.99]]) series[name] = sorted.map((list) => round(quantile(list, q)));
  series.busy = busyTime.map((time) => round(Math.min(scenario.workers, time), 2));
  series.queue = queue;
  const keys = scenario.perClient ? scenario.clients.reduce((sum, client) => sum + client.count, 0) : 1;
  series.limit = algorithm === null ? null : factor.map((f) => round((limit.rate / limit.window) * keys * f, 1));
  const forecast = adaptation && scenario.name !== "attack";
  const known = (second) => forecast && !fault(scenario, "forecaster_killed", second);
  series.forecast = forecast ? zero().map((_, s) => (known(s) ? round(scenario.rate(s + 0.5).people * (scenario.name === "spikes" ? 4 / 3 : 1) * (0.97 + 0.06 * next()), 1) : null)) : null;
  series.forecastLow = forecast ? series.forecast.map((value) => (value === null ? null : round(value * 0.88, 1))) : null;
  series.forecastHigh = forecast ? series.forecast.map((value) => (value === null ? null : round(value * 1.13, 1))) : null;

  return { series, counts, all: sorted.flat().sort((a, b) => a - b), worst: worstWindow(admitted, scenario, algorithm, factor) };
}

/** The most that was admitted in any window, over what is allowed in one. */
function worstWindow(admitted, { limit }, algorithm, factor) {
  const buckets = ["token", "gcra"].includes(algorithm);
  let worst = 0;
  for (const times of admitted.values()) {
    let from = 0;
    times.forEach((t, i) => {
      while (times[from] <= t - limit.window) from += 1;
      const most = Math.max(factor[Math.floor(Math.max(0, t - limit.window))], factor[Math.min(factor.length - 1, Math.floor(t))]);
      worst = Math.max(worst, (i - from + 1) / (limit.rate * most + (buckets ? limit.burst : 0)));
    });
  }
  return worst;
}

function result(scenario, requests, algorithm, adaptation, next) {
  const { series, counts, all, worst } = simulate(scenario, requests, algorithm, adaptation, next);
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const totals = { offered: requests.length, admitted: sum(series.admitted), refused: sum(series.refused), good: sum(series.good), targetErrors: sum(series.errors), errors: 0 };
  const capacity = scenario.workers / scenario.service;
  const allowed = series.offered.map((offered, s) => Math.min(offered, capacity, series.limit?.[s] ?? Infinity));
  const possible = scenario.perClient ? series.offered.map((offered) => Math.min(offered, 60 + 50)) : allowed;
  const goodput = Math.min(1, totals.good / sum(possible));
  const targetErrorShare = totals.targetErrors / Math.max(1, totals.admitted);
  const overAdmitted = series.limit === null ? null : sum(series.admitted.map((n, s) => Math.max(0, n - series.limit[s]))) / totals.admitted;
  const underAdmitted = series.limit === null ? null : sum(series.refused.map((n, s) => Math.min(n, Math.max(0, possible[s] - series.admitted[s])))) / totals.offered;
  const attackers = counts.attackers > 0;
  const scores = {
    protection: round(100 * goodput * (1 - targetErrorShare) * (1 - Math.min(1, overAdmitted ?? 0)) * (attackers ? 1 - counts.honestRefused / counts.honest : 1), 2),
    goodput: round(goodput), worstWindow: algorithm === null ? round(worst, 3) : round(worst, 3), overAdmitted: overAdmitted === null ? null : round(overAdmitted), underAdmitted: underAdmitted === null ? null : round(underAdmitted),
    fairness: round(0.96 + 0.03 * next(), 3), refusedShare: round(totals.refused / totals.offered), refusedHonest: round(counts.honestRefused / counts.honest),
    refusedAttackers: attackers ? round(counts.attackersRefused / counts.attackers) : null, targetErrorShare: round(targetErrorShare),
    recoverySeconds: scenario.peaks.length + scenario.faults.length === 0 ? null : round(algorithm === null ? 1.5 + next() : 0.2 + 1.2 * next(), 2),
    peakStability: scenario.peaks.length === 0 ? null : round(algorithm === null ? 0.6 : 0.93 + 0.06 * next(), 3),
    latency: { mean: round(sum(all) / all.length), ...Object.fromEntries([["p50", 0.5], ["p90", 0.9], ["p95", 0.95], ["p99", 0.99], ["p999", 0.999], ["max", 1]].map(([name, q]) => [name, round(quantile(all, q))])) },
  };
  const name = `${scenario.name}/${algorithm ?? "none"}/${adaptation ? "on" : "off"}`;
  const run = {
    id: name, algorithm, adaptation, numbers: numbers(algorithm, scenario.limit), status: "passed", reason: null, expectations: [], totals, scores,
    gateway: algorithm === null ? null : { cpuSeconds: round(totals.offered * 0.000021, 3), cpuPerRequest: round(0.000019 + 0.000004 * next(), 7), refusalP99: totals.refused > 0 ? round(0.0009 + 0.0006 * next()) : null },
    notes: scenario.name === "outage" && algorithm !== null ? ["Not scored: 20.0 s to 20.9 s. Redis was unavailable and on_failure is open, so no limit was enforced; 280 requests were admitted then."] : [],
    exempt: scenario.name === "outage" && algorithm !== null ? [{ from: 20, until: 20.9, label: "no limit, not scored", reason: "Redis was unavailable and on_failure is open, so no limit was enforced", admitted: 280, refused: 0 }] : [],
    series, peaks: peaks(scenario, series, adaptation), events: events(scenario, series, algorithm, adaptation),
  };
  if (algorithm !== null) run.expectations = scenario.expect(run);
  if (run.expectations.some((one) => !one.passed)) run.status = "failed";
  return run;
}

const numbers = (algorithm, { rate, burst }) => ({ fixed: `fixed, ${rate} in 1 s`, sliding: `sliding, ${rate} in 1 s`, sliding_log: `sliding_log, ${rate} in 1 s`, token: `token, ${rate}/s, bursts of ${burst}`, leaky: `leaky, ${rate}/s, ${burst} waiting`, gcra: `gcra, ${rate}/s, bursts of ${burst}` })[algorithm] ?? "no limit";

function peaks(scenario, series, adaptation) {
  const mean = (list, [at, until]) => round(list.slice(at, until).reduce((a, b) => a + (b ?? 0), 0) / (until - at), 1);
  return scenario.peaks.map(([at, until]) => {
    const before = series.limit?.[at - 5] ?? null;
    const during = series.limit?.[at + 1] ?? null;
    return {
      at, until, offered: mean(series.offered, [at, until]), action: during > before ? "raised" : during < before ? "lowered" : "none", limitBefore: before, limitDuring: during,
      predicted: adaptation && series.forecast ? mean(series.forecast, [at, until]) : null, actual: mean(series.offered, [at, until]),
      targetP95: round(Math.max(...series.p95.slice(at, until))), targetErrors: series.errors.slice(at, until).reduce((a, b) => a + b, 0),
    };
  });
}

function events(scenario, series, algorithm, adaptation) {
  const list = scenario.faults.flatMap((one) => [{ at: one.at, kind: "fault", text: one.label }, { at: one.until, kind: "fault", text: `${one.label}: over` }]);
  if (algorithm !== null && scenario.name === "outage") list.push({ at: 20.9, kind: "failopen", text: "Redis is away: limits are kept in memory" }, { at: 41.2, kind: "note", text: "Redis is back: limits are shared again" });
  if (scenario.name === "attack") list.push({ at: 20, kind: "attack", text: "attack begins" }, { at: 70, kind: "attack", text: "attack ends" });
  if (adaptation) series.limit.forEach((limit, s) => s > 0 && limit !== series.limit[s - 1] && list.push({ at: s, kind: "adaptation", text: `limit from ${series.limit[s - 1]} to ${limit}` }));
  return list.sort((a, b) => a.at - b.at);
}

export function sample() {
  const next = random(SEED);
  const scenarios = SCENARIOS.map((scenario) => {
    const requests = arrivals(scenario, next);
    const runs = ["fixed", "sliding", "sliding_log", "token", "leaky", "gcra"].flatMap((algorithm) => [false, true].map((on) => result(scenario, requests, algorithm, on, next)));
    runs.unshift(result(scenario, requests, null, false, next));
    const { name, title, description, duration, workers, service, limit, load, clients, store, faults } = scenario;
    return { name, title, description, duration, capacity: workers / service, limit, load, clients, target: `${workers} workers, ${service * 1000} ms each, 64 waiting`, store, faults, runs };
  });
  const run = (id) => scenarios.flatMap((scenario) => scenario.runs).find((one) => one.id === id);
  Object.assign(run("outage/leaky/on"), { status: "invalid", reason: "the load generator was late: p99 of its lag was 312 ms, more than 100 ms" });
  const { id, algorithm, adaptation, numbers: text } = run("normal/gcra/on");
  const skipped = { id, algorithm, adaptation, numbers: text, status: "skipped", reason: "the forecaster could not be started", expectations: [], totals: {}, scores: { latency: {} }, gateway: null, series: { step: 1 }, peaks: [], events: [] };
  const normal = scenarios[0].runs;
  normal[normal.findIndex((one) => one.id === id)] = skipped;
  const all = scenarios.flatMap((scenario) => scenario.runs);
  const count = (status) => all.filter((one) => one.status === status).length;
  return {
    format: "tidegate-lab-report/1", version: "0.1.0", kind: "live", createdAt: "2026-11-17T06:00:00Z", seed: SEED,
    environment: { cpus: 2, system: "Linux 6.1 x86_64", memoryBytes: 25769803776 },
    verdict: { passed: false, runs: all.length, passedRuns: count("passed"), failedRuns: count("failed"), invalidRuns: count("invalid"), skippedRuns: count("skipped"), interrupted: false },
    formulas: [
      { name: "protection", text: "100 × goodput × (1 − target errors) × (1 − over-admitted) × (1 − honest refused, under attack)" },
      { name: "goodput", text: "good answers ÷ Σ min(offered, limit, capacity)" },
      { name: "worst window", text: "max over all windows of admitted ÷ (limit × window + burst)" },
    ],
    scenarios,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const data = sample();
  save("sample", data);
  console.log(`dist/sample.html, dist/sample.json: ${data.scenarios.length} scenarios, ${data.verdict.runs} runs`);
}
