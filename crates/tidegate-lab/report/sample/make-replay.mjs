// A sample replay: a made-up week of a shop's requests, put to two policies request by request. Same seed, same bytes.
//   node sample/make-replay.mjs        writes dist/replay-sample.json and dist/replay-sample.html
import { fileURLToPath } from "node:url";
import { limiters } from "./limiters.mjs";
import { random } from "./random.mjs";
import { save } from "./template.mjs";

const START = 1_699_920_000; // Tue 14 Nov 2023, 00:00 UTC
const STEP = 600;
const ROWS = 7 * 144;
const HOUR = 3600;
const SEED = 2;
const LISTED = 15;

const token = (capacity, fillRate) => ({ algorithm: "token", numbers: { capacity, fillRate }, make: () => limiters.token({ rate: fillRate, burst: capacity }) });
const sliding = (limit, window) => ({ algorithm: "sliding", numbers: { limit, window }, make: () => limiters.sliding({ rate: limit, window }) });
const gcra = (rate, burst) => ({ algorithm: "gcra", numbers: { rate, burst }, make: () => limiters.gcra({ rate, burst }) });

const byIp = { key: "ip", of: (request) => request.client };
const byRoute = { key: "route", of: (request) => request.route };

/** Limits by route; the first that refuses counts, and one that only watches never does. */
const GATEWAY = {
  name: "gateway.yaml",
  notes: ["The log has no hosts: routes were matched by path alone.", "Adaptation was off: a replay has no target whose health it could follow."],
  limits: [
    { name: "per-ip", ...token(20, 2), ...byIp },
    { name: "login", ...sliding(10, 60), ...byIp, routes: ["login"] },
    { name: "search-total", ...gcra(1, 6), ...byRoute, routes: ["search"], isWatching: true },
  ],
};
const STRICT = {
  name: "gateway-strict.yaml",
  notes: [],
  limits: [
    { name: "per-ip", ...token(8, 1), ...byIp },
    { name: "login", ...sliding(5, 60), ...byIp, routes: ["login"] },
    { name: "search-total", ...gcra(1, 6), ...byRoute, routes: ["search"] },
  ],
};

/** The week's requests in the order of their time: people by day, a scraper, someone who guesses passwords, and a sale. */
function requests(next) {
  const list = [];
  const pick = (routes) => routes[Math.floor(next() * routes.length)];
  const visit = (client, from, pages, gap, routes) => {
    for (let i = 0, t = from; i < pages; i += 1, t += gap * (0.4 + 1.2 * next())) list.push({ t, client, route: pick(routes) });
  };
  const shop = ["shop", "shop", "shop", "api", "api", "search", "login"];
  for (let row = 0; row < ROWS; row += 1) {
    const hour = (row / 6) % 24;
    const sale = row / 6 >= 4 * 24 + 18 && row / 6 < 4 * 24 + 20;
    const visits = (6 + 26 * Math.max(0, Math.sin(((hour - 7) / 16) * Math.PI)) + (sale ? 50 : 0)) * (0.8 + 0.4 * next());
    for (let i = 0; i < visits; i += 1) visit(`192.0.2.${Math.floor(1 + next() * 250)}`, row * STEP + next() * STEP, 4 + Math.floor(next() * 14), 0.2 + 3 * next() ** 2, shop);
  }
  visit("203.0.113.7", 9 * HOUR, 7200, 0.42, ["shop", "search"]);
  visit("203.0.113.8", 2 * 24 * HOUR + 14.5 * HOUR, 2600, 0.44, ["api"]);
  for (let i = 0; i < 5; i += 1) visit(`2001:db8::bad:${i + 1}`, 3 * 24 * HOUR + 2 * HOUR + i * 300, 700, 4, ["login"]);
  // The log has whole seconds; the requests of one second are spread evenly over it.
  const inWeek = list.filter(({ t }) => t < ROWS * STEP).sort((a, b) => a.t - b.t);
  const bySecond = new Map();
  for (const request of inWeek) {
    const second = Math.floor(request.t);
    if (!bySecond.has(second)) bySecond.set(second, []);
    bySecond.get(second).push(request);
  }
  return [...bySecond].flatMap(([second, all]) => all.map((request, i) => ({ ...request, t: second + i / all.length })));
}

/** What a policy does to the requests, and by which limit each was refused. */
function replay(policy, all) {
  const zero = () => new Array(ROWS).fill(0);
  const limits = policy.limits.map((limit) => ({ ...limit, kept: new Map(), asked: 0, refused: 0, series: zero() }));
  const [refused, routes, clients, rejections] = [zero(), new Map(), new Map(), []];
  let watched = 0;
  for (const request of all) {
    const row = Math.floor(request.t / STEP);
    const route = routes.get(request.route) ?? routes.set(request.route, { name: request.route, requests: 0, refused: 0 }).get(request.route);
    const client = clients.get(request.client) ?? clients.set(request.client, { client: request.client, requests: 0, refused: 0, by: {}, first: null, last: null }).get(request.client);
    route.requests += 1;
    client.requests += 1;
    let by = null;
    let wouldBe = false;
    for (const limit of limits.filter((one) => one.routes?.includes(request.route) ?? true)) {
      const key = limit.of(request);
      if (!limit.kept.has(key)) limit.kept.set(key, limit.make());
      limit.asked += 1;
      if (limit.kept.get(key)(request.t, 1) !== null) continue;
      limit.refused += 1;
      limit.series[row] += 1;
      if (limit.isWatching) wouldBe = true;
      else { by = limit.name; break; }
    }
    rejections.push(by);
    if (by === null) { watched += Number(wouldBe); continue; }
    refused[row] += 1;
    route.refused += 1;
    client.refused += 1;
    client.by[by] = (client.by[by] ?? 0) + 1;
    client.first ??= START + request.t;
    client.last = START + request.t;
  }
  return { limits, refused, routes, clients, rejections, watched };
}

function result(policy, all, offered, ran) {
  const count = ran.rejections.filter((by) => by !== null).length;
  const worst = ran.refused.indexOf(Math.max(...ran.refused));
  const clients = [...ran.clients.values()].filter((client) => client.refused > 0).sort((a, b) => b.refused - a.refused);
  return {
    name: policy.name, notes: policy.notes,
    totals: { requests: all.length, admitted: all.length - count, refused: count, watched: ran.watched, noRoute: 0, lacking: 0, delayed: 0, longestWait: 0 },
    refused: ran.refused,
    limits: ran.limits.map(({ name, algorithm, numbers, key, isWatching = false, asked, refused, series }) => ({ name, algorithm, numbers, key, isWatching, asked, refused, series })),
    routes: [...ran.routes.values()].sort((a, b) => b.requests - a.requests),
    clients: clients.slice(0, LISTED).map(({ by, ...client }) => ({ ...client, limit: Object.entries(by).sort(([, a], [, b]) => b - a)[0][0] })),
    clientsRefused: clients.length, clientsAreExact: true,
    worst: count === 0 ? null : { at: START + worst * STEP, offered: offered[worst], refused: ran.refused[worst] },
  };
}

/** The smallest bucket per client, as a multiple of the policy's, that refuses no more than a share. */
function suggestion(policy, all, share) {
  const { numbers: from } = policy.limits[0];
  for (let times = 1; ; times += 0.1) {
    const to = { capacity: Math.ceil(from.capacity * times), fillRate: Number((from.fillRate * times).toFixed(1)) };
    const ran = replay({ ...policy, limits: [{ ...policy.limits[0], ...token(to.capacity, to.fillRate) }, ...policy.limits.slice(1)] }, all);
    const [{ name, key, asked, refused }] = ran.limits;
    if (refused / asked > share) continue;
    return {
      share, refusedShare: ran.rejections.filter((by) => by !== null).length / all.length,
      limits: [{ name, key, from, to, asked, refused, share: refused / asked }],
      notes: ["203.0.113.9 sent 71.3 % of the requests that gateway.yaml rejects; the proposed numbers admit them too (--without 203.0.113.9 leaves them out)."],
      yaml: `limits:\n  ${name}:\n    key: ${key}\n    algorithm: token\n    capacity: ${to.capacity}\n    fill_rate: ${to.fillRate}\n`,
    };
  }
}

export function replaySample() {
  const all = requests(random(SEED));
  const offered = new Array(ROWS).fill(0);
  for (const { t } of all) offered[Math.floor(t / STEP)] += 1;
  const ran = [GATEWAY, STRICT].map((policy) => replay(policy, all));
  const both = (first, second) => all.filter((_, i) => (ran[0].rejections[i] !== null) === first && (ran[1].rejections[i] !== null) === second).length;
  const bad = [
    { file: "access.log.1", line: 17, reason: "the time can't be read: “14/Nov/2023:25:00:11 +0000” has no hour 25" },
    { file: "access.log.1", line: 20_388, reason: "the line ends within its request" },
    { file: "access.log", line: 4_021, reason: "not a line of this format: “\\x16\\x03\\x01\\x02” instead of a request" },
  ];
  return {
    kind: "replay", format: "tidegate-lab-replay/1", version: "0.1.0", createdAt: "2023-11-21T09:00:00Z",
    log: { files: ["access.log.1", "access.log"], format: "combined", lines: all.length + 56, requests: all.length, badLines: 56, bad, late: 3, from: START + all[0].t, until: START + all.at(-1).t, times: "seconds", isSpread: true, lacks: ["host"] },
    step: STEP, start: START, offered,
    policies: [GATEWAY, STRICT].map((policy, i) => result(policy, all, offered, ran[i])),
    differences: { bothAdmit: both(false, false), onlyFirstRefuses: both(true, false), onlySecondRefuses: both(false, true), bothRefuse: both(true, true) },
    suggestion: suggestion(GATEWAY, all, 0.001),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const data = replaySample();
  save("replay-sample", data);
  console.log(`dist/replay-sample.html, dist/replay-sample.json: ${data.log.requests} requests, ${data.policies.length} policies`);
}
