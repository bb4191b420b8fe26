/** The top of a replay: what the policy would have done, in one sentence. */
import { el, facts, foreign, type Child } from "../dom";
import * as format from "../format";
import type { Num } from "../json";
import { masthead } from "../masthead";
import type { Log, Policy, Replay } from "./data";
import { moment } from "./lines";

/** From this share of lines on that can't be read, the figures are in doubt. */
const DOUBTFUL = 0.01;
/** Files that are named; more are counted. */
const FILES = 3;

export function header(replay: Replay): HTMLElement {
  const { log } = replay;
  const empty = replay.policies.length === 0 || requests(replay) === 0;
  return el(
    "header",
    { class: "top" },
    masthead("Tidegate lab replay", "tidegate-replay.json"),
    el("h1", { class: `verdict ${empty ? "invalid" : "replay"}`, id: "verdict" }, el("bdi", {}, sentence(replay))),
    isDoubtful(log) && el("p", { class: "warning" }, `${format.share(log.badLines, log.lines)} of the log's lines can't be read: these figures are for the rest. `, el("a", { href: "#log" }, "Why they can't")),
    facts([
      ["Log", files(log.files)],
      ["Format", log.format && foreign(log.format)],
      ["From", log.from !== null && format.unixDate(log.from)],
      ["Until", log.until !== null && format.unixDate(log.until)],
      ["Made", replay.createdAt !== null && foreign(format.date(replay.createdAt))],
      ["Tidegate", replay.tidegate && foreign(replay.tidegate)],
    ]),
  );
}

/** "gateway.yaml would have rejected 1,234 of 123,400 requests (1 %), from 7 clients; the worst 10 minutes began Tue 14 Nov 09:10 UTC." */
export function sentence(replay: Replay): string {
  const total = requests(replay);
  const [only, ...others] = replay.policies;
  if (only === undefined) return "No policy was replayed.";
  if (total === 0) return "The log has no requests, so there was nothing to replay.";
  const all = total === null ? "the log's requests" : `${format.count(total)} ${total === 1 ? "request" : "requests"}`;
  if (others.length > 0) return `Of ${all}, ${replay.policies.map((policy, i) => `${shortName(policy)} ${i === 0 ? "would have rejected " : ""}${amount(policy, total)}`).join(", ")}.`;
  const { refused, watched } = only.totals;
  const watching = watched !== null && watched > 0 ? `; limits in a dry run would have rejected ${format.count(watched)}` : "";
  if (refused === 0) return `${shortName(only)} would have rejected none of ${all}${watching}.`;
  if (refused === null) return `It is not known how many of ${all} ${shortName(only)} would have rejected${watching}.`;
  const part = total === null ? "" : ` (${format.share(refused, total)})`;
  return `${shortName(only)} would have rejected ${format.count(refused)} of ${all}${part}${from(only)}${worst(only, replay)}${watching}.`;
}

/** Every policy is asked about the same requests. */
export const requests = (replay: Replay): Num => replay.policies[0]?.totals.requests ?? replay.log.requests;

const shortName = (policy: Policy): string => format.clip(policy.name, 60);

/** none, or 1,234 (1 %) */
function amount(policy: Policy, total: Num): string {
  const { refused } = policy.totals;
  if (refused === null) return "an unknown number";
  return refused === 0 ? "none" : `${format.count(refused)}${total === null ? "" : ` (${format.share(refused, total)})`}`;
}

function from({ clientsRefused, clientsAreExact }: Policy): string {
  return clientsRefused === null ? "" : `, from ${clientsAreExact ? "" : "at least "}${format.plural(clientsRefused, "client")}`;
}

function worst(policy: Policy, { rows }: Replay): string {
  return policy.worst === null || rows.time === null ? "" : `; the worst ${format.span(rows.time.step)} began ${moment(policy.worst.at, rows.time.step)} UTC`;
}

const isDoubtful = ({ badLines, lines }: Log): boolean => badLines !== null && lines !== null && badLines > 0 && badLines >= lines * DOUBTFUL;

function files(all: string[]): Child {
  const named = all.slice(0, FILES).flatMap((file, i): Child[] => [i > 0 && ", ", foreign(file)]);
  return all.length === 0 ? null : [...named, all.length > FILES && ` and ${format.count(all.length - FILES)} more`];
}
