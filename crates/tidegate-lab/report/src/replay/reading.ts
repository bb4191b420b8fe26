/** The end of a replay: what its figures mean, and what a log can't tell. */
import { el } from "../dom";

const TERMS: [name: string, about: string][] = [
  ["Replay", "The log's requests were put to the policy at the times that the log tells. Nothing was sent anywhere."],
  ["What it can't tell", "Clients that are refused ask again, or stay away. The log's requests are taken as they came."],
  ["Refused", "Requests that the policy would have answered itself instead of passing them on."],
  ["Only watched", "Requests that were admitted, but which a limit that only watches (dry_run) would have refused."],
  ["Without a key", "Refused because the key of a limit could not be built from what the log tells."],
  ["Without a route", "Requests that no route of the policy takes."],
  ["Delayed", "Requests that a limit would have let wait before it let them through."],
  ["Asked, refused", "How many requests came to a limit, and how many of them it would have refused."],
];

export function reading(): HTMLElement {
  return el("section", { "aria-labelledby": "reading" }, el("h2", { id: "reading" }, "How to read the figures"), el("dl", { class: "terms" }, TERMS.map(([name, about]) => el("div", {}, el("dt", {}, name), el("dd", {}, about)))));
}
