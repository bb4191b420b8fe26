/** A time axis of UTC dates. Unix time is aligned to UTC's days, so that round multiples of it are round hours and days. */
import type uPlot from "uplot";
import * as format from "../format";

const [MINUTE, HOUR, DAY] = [60, 3600, 86400];
const STEPS = [1, 2, 5, 10, 15, 30].flatMap((n) => [n, n * MINUTE]).concat([1, 2, 3, 6, 12].map((n) => n * HOUR), [1, 2, 4, 7, 14, 28, 56, 112, 364, 3640, 36400].map((n) => n * DAY)).sort((a, b) => a - b);

export const calendarAxis = (): uPlot.Axis => ({ size: 40, space: 66, incrs: STEPS, values: (_u, splits, _axis, _space, step) => labels(splits, step) });

/** The time of each tick, and below it the date where that is another than before. */
export function labels(seconds: number[], step: number): string[] {
  const [upper, lower] = step >= DAY ? [format.day, format.year] : [step >= MINUTE ? format.clock : format.clockSeconds, format.weekday];
  return seconds.map((one, i) => {
    const [now, before] = [lower(one), i > 0 ? lower(seconds[i - 1] ?? null) : ""];
    return now === before ? upper(one) : `${upper(one)}\n${now}`;
  });
}
