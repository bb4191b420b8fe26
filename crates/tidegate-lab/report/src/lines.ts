/** What the three charts of a run show, and how each line looks. Lines differ in dash as well as in colour. */
import type { Num, Run, SeriesName } from "./data";
import * as format from "./format";

export interface Line {
  name: SeriesName;
  label: string;
  /** The custom property that holds its colour. */
  color: string;
  dash: number[];
  width: number;
  /** Holds its value until the next, instead of going there. */
  stepped?: boolean;
  /** Bars with an axis of their own at the right. */
  bars?: boolean;
  fill?: string;
}

export interface Plot {
  key: string;
  title: string;
  unit: string;
  height: number;
  show: (value: Num) => string;
  lines: Line[];
  logarithmic: boolean;
  /** Whether it needs an axis at the right, for bars. */
  barAxis: boolean;
  /** Low and high edge of a band behind the lines. */
  band: [SeriesName, SeriesName] | null;
}

const line = (name: SeriesName, label: string, dash: number[] = [], more: Partial<Line> = {}): Line => ({ name, label, color: `--${name}`, dash, width: 1.75, ...more });

const TRAFFIC = [
  line("offered", "offered", [], { width: 1.25, fill: "--offered-fill" }),
  line("offeredByAttackers", "by attackers", [8, 3, 2, 3], { width: 1.25, color: "--offered" }),
  line("admitted", "admitted", [], { width: 4 }),
  line("good", "good answers", [4, 4], { width: 1.5 }),
  line("refused", "refused", [2, 2]),
  line("limit", "limit", [10, 4], { stepped: true, width: 1.5 }),
  line("forecast", "forecast", [1, 3], { width: 2 }),
];
const LATENCY = [line("p50", "p50"), line("p95", "p95", [7, 3]), line("p99", "p99", [2, 2])];
const TARGET = [line("busy", "busy workers"), line("queue", "waiting", [5, 3]), line("errors", "errors per second", [], { bars: true, width: 1, fill: "--errors-fill" })];

/** Latencies that span more than this factor can't be read on a linear axis. */
const WIDE = 30;

/** The charts of a run, each with the lines that were measured. */
export function plots(run: Run): Plot[] {
  const measured = (lines: Line[]) => lines.filter((one) => run.series.of[one.name] !== null);
  const { forecastLow, forecastHigh } = run.series.of;
  const latency = measured(LATENCY);
  const barAxis = (run.series.of.errors ?? []).some((value) => value !== null && value > 0);
  return [
    { key: "traffic", title: "Traffic", unit: "requests per second", height: 250, show: format.count, lines: measured(TRAFFIC), logarithmic: false, barAxis: false, band: forecastLow && forecastHigh ? ["forecastLow", "forecastHigh"] : null },
    { key: "latency", title: "Latency", unit: "from when a request was due", height: 170, show: format.duration, lines: latency, logarithmic: spansWide(run, latency), barAxis: false, band: null },
    { key: "target", title: "Target", unit: barAxis ? "workers and requests; errors at the right" : "workers and requests", height: 170, show: format.count, lines: measured(TARGET), logarithmic: false, barAxis, band: null },
  ];
}

function spansWide(run: Run, lines: Line[]): boolean {
  let [low, high] = [Infinity, 0];
  for (const one of lines) {
    for (const value of run.series.of[one.name] ?? []) {
      if (value === null || value <= 0) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return high / low > WIDE;
}
