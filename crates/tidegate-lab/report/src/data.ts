/** The report's data, checked. Nothing after this file needs to doubt the shape of what it shows. */
import { anchors, column, longest, num, numbers, object, objects, optional, text, texts, type Num, type Raw } from "./json";

/** The format that this page is written for. */
export const FORMAT = "tidegate-lab-report/1";

export type Status = "passed" | "failed" | "invalid" | "skipped";
export const STATUSES: readonly Status[] = ["passed", "failed", "invalid", "skipped"];

export interface Report {
  format: string;
  version: string;
  kind: string;
  createdAt: string | null;
  seed: Num;
  environment: { cpus: Num; system: string; memoryBytes: Num } | null;
  verdict: Verdict;
  formulas: { name: string; text: string }[];
  scenarios: Scenario[];
}

export interface Verdict {
  passed: boolean;
  runs: number;
  counts: Record<Status, number>;
  interrupted: boolean;
}

export interface Scenario {
  /** Unique in the page, fit for an element's id. */
  anchor: string;
  name: string;
  title: string;
  description: string;
  duration: Num;
  /** Requests per second that the target bears. */
  capacity: Num;
  /** The rate is of a second, whatever the window. */
  limit: { rate: Num; window: Num; burst: Num; isPerClient: boolean } | null;
  load: string;
  clients: { name: string; class: string; count: Num; share: Num }[];
  target: string;
  store: string;
  faults: Fault[];
  runs: Run[];
}

export interface Fault {
  at: number;
  until: Num;
  kind: string;
  label: string;
}

/** Whether a run shows what happens without any limit. */
export const isBaseline = (run: Run): boolean => run.algorithm === null && run.variant === null;

/** A time of a run that is not scored, since nothing is limited then by design. */
export interface Exempt {
  from: number;
  until: number;
  label: string;
}

export interface Run {
  /** Unique in the page, fit for an element's id. */
  anchor: string;
  id: string;
  /** Null is the baseline, without any limit, and a run with the gateway's own configuration. */
  algorithm: string | null;
  adaptation: boolean;
  /** The name of the gateway's configuration, where the scenario has its own. */
  variant: string | null;
  /** By group of clients, where the scenario has the gateway's own configuration. */
  groups: { name: string; served: Num; slowdown: Num }[];
  numbers: string;
  status: Status;
  reason: string | null;
  expectations: { text: string; passed: boolean | null; value: string }[];
  totals: Record<"offered" | "admitted" | "refused" | "good" | "targetErrors" | "errors", Num>;
  scores: Scores;
  gateway: { cpuSeconds: Num; cpuPerRequest: Num; refusalP99: Num } | null;
  series: Series;
  notes: string[];
  exempt: Exempt[];
  peaks: Peak[];
  events: { at: number; kind: string; text: string }[];
}

const SCORES = [
  "protection", "goodput", "worstWindow", "overAdmitted", "underAdmitted", "fairness", "refusedShare", "refusedHonest",
  "refusedAttackers", "targetErrorShare", "recoverySeconds", "peakStability", "refusedInOutage", "limitingBackSeconds",
  "served", "amplification", "failedWaitSeconds", "openAfterSeconds",
] as const;
const LATENCIES = ["mean", "p50", "p90", "p95", "p99", "p999", "max"] as const;
export type Scores = Record<(typeof SCORES)[number], Num> & { latency: Record<(typeof LATENCIES)[number], Num> };

const SERIES = [
  "offered", "offeredByAttackers", "admitted", "refused", "good", "errors", "limit", "forecast", "forecastLow", "forecastHigh", "p50", "p95", "p99", "busy", "queue",
] as const;
export type SeriesName = (typeof SERIES)[number];

/**
 * What was measured in each step of `step` seconds; the value at index i is of the time from i × step on. Flows are per second, latencies
 * in seconds, `busy` and `queue` counts. A series that was not measured is null, all others have `length` values.
 */
export interface Series {
  step: number;
  length: number;
  of: Record<SeriesName, Num[] | null>;
}

export interface Peak {
  at: Num;
  until: Num;
  offered: Num;
  action: string;
  limitBefore: Num;
  limitDuring: Num;
  predicted: Num;
  actual: Num;
  targetP95: Num;
  targetErrors: Num;
}

/** Checks what JSON.parse gave. Whatever it is, a report comes out. */
export function readReport(parsed: unknown): Report {
  const raw = object(parsed);
  const unique = anchors();
  const scenarios = objects(raw.scenarios).map((scenario) => readScenario(scenario, unique));
  const environment = raw.environment == null ? null : object(raw.environment);
  return {
    format: text(raw.format),
    version: text(raw.version),
    kind: text(raw.kind),
    createdAt: optional(raw.createdAt),
    seed: num(raw.seed),
    environment: environment && { cpus: num(environment.cpus), system: text(environment.system), memoryBytes: num(environment.memoryBytes) },
    verdict: readVerdict(raw.verdict, scenarios.flatMap((scenario) => scenario.runs)),
    formulas: objects(raw.formulas).map((formula) => ({ name: text(formula.name), text: text(formula.text) })),
    scenarios,
  };
}

/** What the verdict does not say is counted from the runs. */
function readVerdict(value: unknown, runs: Run[]): Verdict {
  const raw = object(value);
  const count = (status: Status) => num(raw[`${status}Runs`]) ?? runs.filter((run) => run.status === status).length;
  const counts = { passed: count("passed"), failed: count("failed"), invalid: count("invalid"), skipped: count("skipped") };
  return {
    passed: typeof raw.passed === "boolean" ? raw.passed : runs.length > 0 && counts.failed + counts.invalid === 0,
    runs: num(raw.runs) ?? runs.length,
    counts,
    interrupted: raw.interrupted === true,
  };
}

function readScenario(raw: Raw, unique: (name: string) => string): Scenario {
  const name = text(raw.name);
  const limit = raw.limit == null ? null : { ...numbers(["rate", "window", "burst"], raw.limit), isPerClient: object(raw.limit).key === "client" };
  return {
    anchor: unique(`scenario-${name}`),
    name,
    title: text(raw.title) || name || "Scenario without a name",
    description: text(raw.description),
    duration: num(raw.duration),
    capacity: num(raw.capacity),
    limit,
    load: text(raw.load),
    clients: objects(raw.clients).map((client) => ({ name: text(client.name), class: text(client.class), count: num(client.count), share: num(client.share) })),
    target: text(raw.target),
    store: text(raw.store),
    faults: objects(raw.faults).flatMap((fault) => {
      const at = num(fault.at);
      return at === null ? [] : [{ at, until: num(fault.until), kind: text(fault.kind), label: text(fault.label) || text(fault.kind) }];
    }),
    runs: objects(raw.runs).map((run) => readRun(run, unique)),
  };
}

function readRun(raw: Raw, unique: (name: string) => string): Run {
  const id = text(raw.id);
  const status = STATUSES.find((known) => known === raw.status) ?? "invalid";
  const gateway = raw.gateway == null ? null : numbers(["cpuSeconds", "cpuPerRequest", "refusalP99"], raw.gateway);
  return {
    anchor: unique(`run-${id}`),
    id,
    algorithm: optional(raw.algorithm),
    adaptation: raw.adaptation === true,
    variant: optional(raw.variant),
    groups: objects(raw.groups).map((group) => ({ name: text(group.name), served: num(group.served), slowdown: num(group.slowdown) })),
    numbers: text(raw.numbers),
    status,
    reason: optional(raw.reason),
    expectations: objects(raw.expectations).map((expectation) => ({
      text: text(expectation.text),
      passed: typeof expectation.passed === "boolean" ? expectation.passed : null,
      value: text(expectation.value),
    })),
    totals: numbers(["offered", "admitted", "refused", "good", "targetErrors", "errors"], raw.totals),
    scores: { ...numbers(SCORES, raw.scores), latency: numbers(LATENCIES, object(raw.scores).latency) },
    gateway,
    series: readSeries(raw.series),
    notes: texts(raw.notes),
    exempt: objects(raw.exempt).flatMap((exempt) => {
      const [from, until] = [num(exempt.from), num(exempt.until)];
      return from === null || until === null ? [] : [{ from, until, label: text(exempt.label) || "not scored" }];
    }),
    peaks: objects(raw.peaks).map((peak) => ({
      ...numbers(["at", "until", "offered", "limitBefore", "limitDuring", "predicted", "actual", "targetP95", "targetErrors"], peak),
      action: text(peak.action),
    })),
    events: objects(raw.events)
      .flatMap((event) => {
        const at = num(event.at);
        return at === null ? [] : [{ at, kind: text(event.kind), text: text(event.text) }];
      })
      .sort((a, b) => a.at - b.at),
  };
}

function readSeries(value: unknown): Series {
  const raw = object(value);
  const step = num(raw.step);
  const length = longest(SERIES.map((name) => raw[name]));
  return {
    step: step !== null && step > 0 ? step : 1,
    length,
    of: Object.fromEntries(SERIES.map((name) => [name, column(raw[name], length)])) as Record<SeriesName, Num[] | null>,
  };
}
