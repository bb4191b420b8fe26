/** What the three charts of a run show, and how each line looks. */
import type { Run, Scenario } from "./data";
import * as format from "./format";
import { line, type Line, type Plot, type Timeline } from "./timeline";

const TRAFFIC = [
  line("offered", "offered", [], { width: 1.25, fill: "--offered-fill" }),
  line("offeredByAttackers", "by attackers", [8, 3, 2, 3], { width: 1.25, color: "--offered" }),
  line("admitted", "admitted", [], { width: 4 }),
  line("good", "good responses", [4, 4], { width: 1.5 }),
  line("refused", "refused", [2, 2]),
  line("limit", "limit", [10, 4], { width: 1.5 }),
  line("forecast", "forecast", [1, 3], { width: 2 }),
];
const LATENCY = [line("p50", "p50"), line("p95", "p95", [7, 3]), line("p99", "p99", [2, 2])];
const TARGET = [line("busy", "busy workers"), line("queue", "waiting", [5, 3]), line("errors", "errors per second", [], { bars: true, width: 1, fill: "--errors-fill" })];

/** Latencies that span more than this factor can't be read on a linear axis. */
const WIDE = 30;
/** Seconds between ticks: values are of whole seconds, and moments of long runs are round in minutes. */
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];

export function timeline(run: Run, scenario: Scenario): Timeline {
  const { step, length, of } = run.series;
  const longest = Math.max(scenario.duration ?? 0, length * step);
  const stops = scenario.duration !== null && scenario.duration > (length - 1) * step ? scenario.duration : Infinity;
  const moment = (seconds: number) => format.moment(seconds, longest);
  return {
    start: 0,
    step,
    length,
    end: Math.min(length * step, stops),
    longest,
    of,
    plots: plots(run),
    moment,
    axis: { values: (_u, splits) => splits.map(moment), size: 26, incrs: TICKS },
    right: 16,
    faults: scenario.faults,
    exempt: run.exempt,
    events: run.events,
  };
}

/** The charts of a run, each with the lines that were measured. */
function plots(run: Run): Plot[] {
  const { of } = run.series;
  const measured = (lines: Line[]) => lines.filter((one) => of[one.name as keyof typeof of] !== null);
  const latency = measured(LATENCY);
  const barAxis = (of.errors ?? []).some((value) => value !== null && value > 0);
  const band = of.forecastLow && of.forecastHigh ? { low: "forecastLow", high: "forecastHigh", fill: "--band", of: "forecast" } : null;
  return [
    { key: "traffic", title: "Traffic", unit: "requests per second", height: 250, show: format.count, lines: measured(TRAFFIC), band },
    { key: "latency", title: "Latency", unit: "from when a request was due", height: 170, show: format.duration, lines: latency, logarithmic: spansWide(run, latency) },
    { key: "target", title: "Target", unit: barAxis ? "workers and requests; errors at the right" : "workers and requests", height: 170, show: format.count, lines: measured(TARGET), isWhole: true, barAxis },
  ];
}

function spansWide(run: Run, lines: Line[]): boolean {
  const { of } = run.series;
  let [low, high] = [Infinity, 0];
  for (const one of lines) {
    for (const value of of[one.name as keyof typeof of] ?? []) {
      if (value === null || value <= 0) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high / low > WIDE;
}
