/** The end of a replay: what its figures mean, and what a log can't show. */
import { el } from "../dom";

const TERMS: [name: string, about: string][] = [
  ["Replay", "The policy judged the log's requests at their recorded times. Nothing was sent anywhere."],
  ["What it can't show", "Rejected clients try again, or stay away. The log's requests are taken as they came."],
  ["Rejected", "Requests to which the policy would have responded itself instead of passing them on."],
  ["Rejected in a dry run only", "Requests that were admitted, but which a limit in a dry run (dry_run) would have rejected."],
  ["Without a key", "Rejected because the key of a limit could not be built from what the log records."],
  ["Without a route", "Requests that no route of the policy takes."],
  ["Delayed", "Requests that a limit would have delayed before it admitted them."],
  ["Asked, rejected", "How many requests came to a limit, and how many of them it would have rejected."],
];

export function reading(): HTMLElement {
  return el("section", { "aria-labelledby": "reading" }, el("h2", { id: "reading" }, "How to read the figures"), el("dl", { class: "terms" }, TERMS.map(([name, about]) => el("div", {}, el("dt", {}, name), el("dd", {}, about)))));
}
