/** Numbers for people. What is not known is a dash, never NaN. */
import type { Num } from "./json";

export const UNKNOWN = "–";
const SPACE = "\u00a0";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/**
 * Three digits, but none beyond thousandths; halves go up; no zeros that say nothing. It is the rule of the lab's own texts
 * (`Figure::shown`): a figure must have the same digits wherever it stands.
 */
function digits(value: number): string {
  const size = Math.abs(value);
  const scale = size < 1 ? 1000 : size < 10 ? 100 : size < 100 ? 10 : 1;
  return String((Math.sign(value) * Math.round(size * scale)) / scale);
}

const known = (format: (value: number) => string) => (value: Num): string => (value === null ? UNKNOWN : format(value));

/** 97.1 of 100, 0.98 of 1 */
export const figure = known(digits);

/** 1,234 and 12.3 */
export const count = known((value) => (Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(value) : digits(value)));

/** 262 req/s */
export const rate = known((value) => `${count(value)}${SPACE}req/s`);

/** 12.3 % of 0.123. What is nearly nothing does not become nothing. */
export const percent = known((share) => {
  const shown = digits(share * 100);
  return `${shown === "0" && share !== 0 ? "<0.001" : shown}${SPACE}%`;
});

/** What part of a whole something is: 12.3 % */
export const share = (part: Num, whole: Num): string => percent(part === null || whole === null || whole === 0 ? null : part / whole);

/** 5.2 ms of 0.0052 */
export const duration = known((seconds) => (Math.abs(seconds) < 1 ? `${digits(seconds * 1e3)}${SPACE}ms` : `${digits(seconds)}${SPACE}s`));

/** 141 µs: what a request costs is too little for milliseconds. */
export const cost = known((seconds) => (seconds !== 0 && Math.abs(seconds) < 1e-3 ? `${digits(seconds * 1e6)}${SPACE}µs` : duration(seconds)));

/** 1.98× */
export const times = known((value) => `${digits(value)}×`);

/** 24 GiB */
export const bytes = known((value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return `${digits(value / 1024 ** power)}${SPACE}${units[power]}`;
});

/** A moment of a run: 42 s in short ones, 12:05 in long ones. */
export function moment(seconds: Num, longest: number): string {
  if (seconds === null) return UNKNOWN;
  if (longest <= 180) return `${digits(seconds)}${SPACE}s`;
  const sign = seconds < 0 ? "-" : "";
  const all = Math.round(Math.abs(seconds));
  const [h, m, s] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const pad = (part: number) => String(part).padStart(2, "0");
  return longest >= 3600 * 2 ? `${sign}${h}:${pad(m)}:${pad(s)}` : `${sign}${h * 60 + m}:${pad(s)}`;
}

/** 17 November 2026, 06:00 UTC. What is no date stays as it is. */
export function date(text: string): string {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : dateOf(time);
}

function dateOf(time: Date): string {
  const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(time);
  return `${day}, ${time.toISOString().slice(11, 16)} UTC`;
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** What is so many Unix seconds, where a calendar goes so far. */
const calendar = (format: (time: Date) => string) => (seconds: Num): string => {
  const time = new Date((seconds ?? NaN) * 1000);
  return Number.isNaN(time.getTime()) ? UNKNOWN : format(time);
};

/** 14 November 2023, 09:10 UTC */
export const unixDate = calendar(dateOf);

/** 14 Nov */
export const day = calendar((time) => `${time.getUTCDate()} ${MONTHS[time.getUTCMonth()]}`);

/** Tue 14 Nov */
export const weekday = calendar((time) => `${DAYS[time.getUTCDay()]} ${time.getUTCDate()} ${MONTHS[time.getUTCMonth()]}`);

export const year = calendar((time) => String(time.getUTCFullYear()));

/** 09:10 */
export const clock = calendar((time) => time.toISOString().slice(-13, -8));

/** 09:10:01 */
export const clockSeconds = calendar((time) => time.toISOString().slice(-13, -5));

/** What a step of so many seconds is called after "per": second, 10 minutes, 6 hours */
export function span(seconds: number): string {
  const units: [number, string][] = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  const [size, name] = units.find(([one]) => seconds >= one && seconds % one === 0) ?? [1, "second"];
  return seconds === size ? name : plural(seconds / size, name);
}

/** The start of a text that is longer than `most`: whoever sent it must not fill the page. */
export const clip = (text: string, most = 100): string => (text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "")}…` : text);

const ALGORITHMS: Record<string, string> = {
  fixed: "Fixed window",
  sliding: "Sliding window",
  sliding_log: "Sliding log",
  token: "Token bucket",
  leaky: "Leaky bucket",
  gcra: "GCRA",
  concurrency: "Concurrency",
};

export function algorithm(name: string | null): string {
  if (name === null) return "No limit";
  return (Object.hasOwn(ALGORITHMS, name) && ALGORITHMS[name]) || sentence(name.replaceAll("_", " "));
}

/** `without-budget` becomes `Without budget`. */
export const variant = (name: string): string => sentence(name.replaceAll("-", " "));

/** How a run is called within its scenario. */
export function runName(run: { algorithm: string | null; adaptation: boolean; variant: string | null }): string {
  if (run.variant !== null) return variant(run.variant);
  if (run.algorithm === null) return "No limit (baseline)";
  return `${algorithm(run.algorithm)}, adaptation ${run.adaptation ? "on" : "off"}`;
}

export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** 1 run, 2 runs */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
