/** What a replay's charts show: for every policy the traffic, with what it rejects as the gap between offered and admitted, and by limit. */
import * as format from "../format";
import type { Num } from "../json";
import { line, type Line, type Plot, type Timeline } from "../timeline";
import { calendarAxis } from "./calendar";
import type { Limit, Policy, Replay } from "./data";

/** Looks of the limits, the one that rejects most first. */
const LOOKS: [color: string, dash: number[]][] = [["--busy", []], ["--queue", [7, 3]], ["--forecast", [2, 2]], ["--good", [10, 3, 2, 3]], ["--errors", [4, 2]], ["--limit", [1, 3]]];

export function timeline(replay: Replay): Timeline {
  const { length, time } = replay.rows;
  const { start, step } = time ?? { start: 0, step: 1 };
  const of: Timeline["of"] = { offered: replay.offered };
  const unit = time ? `requests per ${format.span(step)}` : "requests per row";
  const plots = replay.policies.flatMap((policy, i) => {
    const group = replay.policies.length > 1 ? { group: format.clip(policy.name, 60) } : {};
    return [traffic(replay, policy, i, of), rejections(policy, i, of)].map((plot): Plot => ({ ...plot, ...group, unit }));
  });
  return {
    start,
    step,
    length,
    end: start + length * step,
    longest: length * step,
    of,
    plots,
    moment: (seconds) => (time ? `${moment(seconds, step)} UTC` : `row ${format.count(seconds + 1)}`),
    axis: time ? calendarAxis() : { size: 26, values: (_u, splits) => splits.map((split) => (Number.isInteger(split) && split < length ? format.count(split + 1) : "")) },
    right: 34,
    faults: [],
    exempt: [],
    events: [],
  };
}

/** Tue 14 Nov 09:10: as exact as rows are. */
export const moment = (seconds: number, step: number): string => `${format.weekday(seconds)} ${step % 60 === 0 ? format.clock(seconds) : format.clockSeconds(seconds)}`;

type Lines = Omit<Plot, "unit" | "group">;

function traffic(replay: Replay, policy: Policy, i: number, of: Timeline["of"]): Lines {
  const [admitted, refused] = [`admitted-${i}`, `refused-${i}`];
  of[refused] = policy.refused;
  of[admitted] = replay.offered && policy.refused && replay.offered.map((offered, row) => minus(offered, policy.refused?.[row] ?? null));
  const lines = [
    line("offered", "offered", [], { width: 1.25 }),
    // What no route takes is neither rejected nor admitted.
    line(admitted, (policy.totals.noRoute ?? 0) > 0 ? "not rejected" : "admitted", [], { color: "--admitted", width: 1.5, fill: "--admitted-fill" }),
    line(refused, "rejected", [2, 2], { color: "--refused" }),
  ];
  const known = lines.filter((one) => of[one.name] !== null);
  const band = of[admitted] ? { low: admitted, high: "offered", fill: "--refused-fill" } : null;
  return { key: `traffic-${i}`, title: "Traffic", height: 220, show: format.count, lines: known, band, ...without(policy) };
}

/** What is shown instead of an empty chart of rejections. */
function without(policy: Policy): { note?: string } {
  if (policy.limits.some(rejects)) return {};
  return { note: policy.totals.refused === 0 ? "Nothing would have been rejected, so there is no chart of rejections." : "It is not recorded which limit would have rejected when." };
}

const minus = (a: Num, b: Num): Num => (a === null || b === null ? null : Math.max(0, a - b));
const rejects = (limit: Limit): boolean => limit.series?.some((value) => value !== null && value > 0) ?? false;

/** A line for every limit that rejects; where there are more than looks, the last is of all others. */
function rejections(policy: Policy, i: number, of: Timeline["of"]): Lines {
  const rejecting = policy.limits.map((limit, index) => ({ limit, name: `limit-${i}-${index}` })).filter(({ limit }) => rejects(limit));
  rejecting.sort((a, b) => (b.limit.refused ?? 0) - (a.limit.refused ?? 0));
  const alone = rejecting.length > LOOKS.length ? LOOKS.length - 1 : rejecting.length;
  const lines = rejecting.slice(0, alone).map(({ limit, name }, rank) => {
    of[name] = limit.series;
    return look(rank, name, `${format.clip(limit.name, 40)}${limit.isWatching ? " (dry run)" : ""}`);
  });
  const others = rejecting.slice(alone);
  if (others.length > 0) {
    of[`others-${i}`] = others[0]?.limit.series?.map((_, row) => others.reduce((sum, { limit }) => sum + (limit.series?.[row] ?? 0), 0)) ?? null;
    lines.push(look(alone, `others-${i}`, `${others.length} others`));
  }
  return { key: `limits-${i}`, title: "Rejections by limit", height: 140, show: format.count, lines };
}

function look(rank: number, name: string, label: string): Line {
  const [color, dash] = LOOKS[rank] ?? ["--limit", []];
  return line(name, label, dash, { color });
}
