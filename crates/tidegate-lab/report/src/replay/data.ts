/** A replay's data, checked: what one or more policies would have done to the requests of a log. */
import { anchors, column, longest, num, numbers, object, objects, optional, text, texts, type Num, type Raw } from "../json";

/** What this page is written for. */
export const FORMAT = "tidegate-lab-replay/1";

export interface Replay {
  format: string;
  tidegate: string;
  createdAt: string | null;
  log: Log;
  rows: Rows;
  offered: Num[] | null;
  policies: Policy[];
  /** Only of exactly two policies. */
  differences: Differences | null;
  suggestion: Suggestion | null;
}

/** Of how many seconds a row is and when the first begins, in Unix seconds. Both are known or none. */
export interface Rows {
  length: number;
  time: { start: number; step: number } | null;
}

export interface Log {
  files: string[];
  format: string;
  lines: Num;
  requests: Num;
  badLines: Num;
  /** The first of them. */
  bad: { file: string; line: Num; reason: string }[];
  /** Lines further out of order than can be sorted. */
  late: Num;
  /** Lines whose times fit none around them: left out. */
  odd: Num;
  /** Whose requests were left out on demand. */
  without: { name: string; requests: Num }[];
  from: Num;
  until: Num;
  times: string;
  isSpread: boolean;
  lacks: string[];
}

export interface Policy {
  /** Unique in the page, fit for an element's id. */
  anchor: string;
  name: string;
  notes: string[];
  totals: Record<(typeof TOTALS)[number], Num>;
  refused: Num[] | null;
  limits: Limit[];
  routes: { name: string; requests: Num; refused: Num }[];
  clients: { client: string; requests: Num; refused: Num; limit: string; first: Num; last: Num }[];
  clientsRefused: Num;
  clientsAreExact: boolean;
  worst: { at: number; offered: Num; refused: Num } | null;
}

/** What a limit is set to, by the names of the configuration. */
export type Numbers = [name: string, value: string][];

export interface Limit {
  name: string;
  algorithm: string;
  numbers: Numbers;
  key: string;
  /** A dry run: it rejects nothing, and counts what it would have rejected. */
  isWatching: boolean;
  asked: Num;
  refused: Num;
  series: Num[] | null;
}

const DIFFERENCES = ["bothAdmit", "onlyFirstRefuses", "onlySecondRefuses", "bothRefuse"] as const;
export type Differences = Record<(typeof DIFFERENCES)[number], Num>;

export interface Suggestion {
  share: Num;
  refusedShare: Num;
  limits: { name: string; key: string; from: Numbers; to: Numbers; asked: Num; refused: Num; share: Num }[];
  /** What to bear in mind before they are put in force. */
  notes: string[];
  yaml: string;
}

const TOTALS = ["requests", "admitted", "refused", "watched", "noRoute", "lacking", "delayed", "longestWait"] as const;

/** The last second that a calendar knows. */
const LAST = 8.64e12;

/** Checks what JSON.parse gave. Whatever it is, a replay comes out. */
export function readReplay(parsed: unknown): Replay {
  const raw = object(parsed);
  const policies = objects(raw.policies);
  const length = longest([raw.offered, ...policies.flatMap((policy) => [policy.refused, ...objects(policy.limits).map((limit) => limit.series)])]);
  const unique = anchors();
  return {
    format: text(raw.format),
    tidegate: text(raw.version),
    createdAt: optional(raw.createdAt),
    log: readLog(object(raw.log)),
    rows: { length, time: readTime(num(raw.start), num(raw.step), length) },
    offered: column(raw.offered, length),
    policies: policies.map((policy) => readPolicy(policy, length, unique)),
    differences: raw.differences == null || policies.length !== 2 ? null : numbers(DIFFERENCES, raw.differences),
    suggestion: raw.suggestion == null ? null : readSuggestion(object(raw.suggestion)),
  };
}

function readTime(start: Num, step: Num, length: number): Rows["time"] {
  if (start === null || step === null || step <= 0 || start < -LAST || start + step * length > LAST) return null;
  return { start, step };
}

function readLog(raw: Raw): Log {
  return {
    files: texts(raw.files),
    format: text(raw.format),
    lines: num(raw.lines),
    requests: num(raw.requests),
    badLines: num(raw.badLines),
    bad: objects(raw.bad).map((one) => ({ file: text(one.file), line: num(one.line), reason: text(one.reason) })),
    late: num(raw.late),
    odd: num(raw.odd),
    without: objects(raw.without).map((one) => ({ name: text(one.name), requests: num(one.requests) })),
    from: num(raw.from),
    until: num(raw.until),
    times: text(raw.times),
    isSpread: raw.isSpread === true,
    lacks: texts(raw.lacks),
  };
}

function readPolicy(raw: Raw, length: number, unique: (name: string) => string): Policy {
  const name = text(raw.name) || "policy without a name";
  const worst = object(raw.worst);
  const at = num(worst.at);
  return {
    anchor: unique(`policy-${name}`),
    name,
    notes: texts(raw.notes),
    totals: numbers(TOTALS, raw.totals),
    refused: column(raw.refused, length),
    limits: objects(raw.limits).map((limit) => ({
      name: text(limit.name) || "limit without a name",
      algorithm: text(limit.algorithm),
      numbers: readNumbers(limit.numbers),
      key: text(limit.key),
      isWatching: limit.isWatching === true,
      asked: num(limit.asked),
      refused: num(limit.refused),
      series: column(limit.series, length),
    })),
    routes: objects(raw.routes).map((route) => ({ name: text(route.name), requests: num(route.requests), refused: num(route.refused) })),
    clients: objects(raw.clients).map((client) => ({ client: text(client.client), limit: text(client.limit), ...numbers(["requests", "refused", "first", "last"], client) })),
    clientsRefused: num(raw.clientsRefused),
    clientsAreExact: raw.clientsAreExact !== false,
    worst: at === null ? null : { at, offered: num(worst.offered), refused: num(worst.refused) },
  };
}

function readSuggestion(raw: Raw): Suggestion {
  return {
    share: num(raw.share),
    refusedShare: num(raw.refusedShare),
    limits: objects(raw.limits).map((limit) => ({ name: text(limit.name), key: text(limit.key), from: readNumbers(limit.from), to: readNumbers(limit.to), ...numbers(["asked", "refused", "share"], limit) })),
    notes: texts(raw.notes),
    yaml: text(raw.yaml),
  };
}

const readNumbers = (value: unknown): Numbers => Object.entries(object(value)).map(([name, one]): Numbers[number] => [name, text(one)]).filter(([, one]) => one !== "");
