/** A scenario's load in words. The lab writes a profile as its type and parameters; what is none of those it knows stays as it is. */
import * as format from "./format";
import { num, object, objects, type Num, type Raw } from "./json";

/** `0.4 s of constant: rps 5; then 20 s of burst: …`, or one profile without a duration. */
export function inWords(load: string): string {
  const phases = load.split("; then ").map(phase);
  return phases.every((words) => words !== null) ? phases.join("; then ") : load;
}

function phase(text: string): string | null {
  const [, lasting = "", type = "", rest = ""] = /^([\d.e+-]+ s of )?(\w+): (.*)$/s.exec(text) ?? [];
  const words = Object.hasOwn(PROFILES, type) && PROFILES[type]?.(parameters(rest));
  return words ? `${lasting}${words}` : null;
}

/** Each is a name and its value as JSON, in which there may be commas too. */
function parameters(text: string): Raw {
  try {
    return object(JSON.parse(`{${text.replace(/(^|, )([A-Za-z]+) /g, '$1"$2":')}}`));
  } catch {
    return {};
  }
}

/** Numbers by their names in words, if all of them are known. */
const told = (params: Raw, names: string[], words: (...numbers: number[]) => string): string | null => {
  const numbers = names.map((name) => num(params[name]));
  return numbers.every((one) => one !== null) ? words(...numbers) : null;
};
const rate = (perSecond: Num): string => `${format.count(perSecond)}/s`;
const time = (seconds: Num): string => `${format.figure(seconds)} s`;

const PROFILES: Record<string, (params: Raw) => string | null> = {
  constant: (params) => told(params, ["rps"], (rps) => `steady ${rate(rps)}`),
  poisson: (params) => told(params, ["averageRps"], (rps) => `${rate(rps)} on average, at random times`),
  burst: (params) => told(params, ["baseRps", "spikeRps", "spikeDuration", "spikePeriod"], (base, spike, lasts, period) => `bursts: ${rate(base)}, and ${rate(spike)} in the last ${time(lasts)} of every ${time(period)}`),
  sinusoidal: (params) => told(params, ["minRps", "maxRps", "period"], (least, most, period) => `a wave between ${rate(least)} and ${rate(most)}, every ${time(period)}`),
  ddos: (params) => told(params, ["minRps", "maxRps", "maxSpikeDuration", "minIdleTime", "maxIdleTime"], (least, most, longest, short, long) => `random attacks: up to ${rate(most)} for at most ${time(longest)}, after ${time(short)} to ${time(long)} at ${rate(least)}`),
  ramp: (params) => told(params, ["fromRps", "toRps"], (from, to) => `a ramp from ${rate(from)} to ${rate(to)}`),
  steps: ({ steps }) => list(objects(steps)),
  trace: ({ rates, timestamps, step, scale }) => trace(rates, timestamps, num(step) ?? 1, num(scale) ?? 1),
};

/** Steps that are told one by one. */
const MOST = 12;

/** The last may have no duration: it stays to the end. */
function list(steps: Raw[]): string | null {
  if (steps.length === 0) return null;
  const one = ({ duration, rps }: Raw) => `${num(duration) === null ? "then" : `${time(num(duration))} at`} ${rate(num(rps))}`;
  const more = steps.length > MOST ? `, and ${format.count(steps.length - MOST)} more` : "";
  return `steps: ${steps.slice(0, MOST).map(one).join(", ")}${more}`;
}

function trace(rates: unknown, timestamps: unknown, step: number, scale: number): string | null {
  if (Array.isArray(rates)) return `as recorded: ${format.plural(rates.length, "rate")} of ${time(step)} each${scale === 1 ? "" : `, times ${format.figure(scale)}`}`;
  if (Array.isArray(timestamps)) return `as recorded: ${format.plural(timestamps.length, "request")}${scale === 1 ? "" : `, ${format.figure(scale)} times as fast`}`;
  return null;
}
