/** One policy in full: its limits, its routes and the clients that it would have rejected most. */
import { el, foreign, scrolling, table, type Child, type Head } from "../dom";
import * as format from "../format";
import type { Num } from "../json";
import type { Limit, Numbers, Policy } from "./data";

/** Rows of a table that stand on the page at once. */
const ROWS = 20;

export function policyView(policy: Policy): HTMLElement {
  return el(
    "section",
    { class: "policy", id: policy.anchor, "aria-labelledby": `${policy.anchor}-title` },
    el("h2", { id: `${policy.anchor}-title` }, foreign(policy.name)),
    part("Limits", "limits", "It has no limits.", LIMITS, policy.limits.map(limit)),
    part("Routes", "routes", "No route was requested.", ROUTES, policy.routes.map((route) => [foreign(route.name), format.count(route.requests), format.count(route.refused), share(route.refused, route.requests)])),
    part(
      (policy.clientsRefused ?? 0) > policy.clients.length ? `Most rejected clients, ${format.count(policy.clients.length)} of ${policy.clientsAreExact ? "" : "at least "}${format.count(policy.clientsRefused)}` : "Most rejected clients",
      "clients",
      policy.totals.refused === 0 ? "No client would have been rejected." : "It is not recorded which clients would have been rejected.",
      CLIENTS,
      policy.clients.map((client) => [foreign(client.client), format.count(client.requests), format.count(client.refused), share(client.refused, client.requests), foreign(client.limit, 60), stamp(client.first), stamp(client.last)]),
    ),
  );
}

const LIMITS: Head[] = [{ name: "Limit" }, { name: "Algorithm" }, { name: "Numbers" }, { name: "Key" }, { name: "Asked", number: true }, { name: "Rejected", number: true }, { name: "Share", number: true }];
const ROUTES: Head[] = [{ name: "Route" }, { name: "Requests", number: true }, { name: "Rejected", number: true }, { name: "Share", number: true }];
const CLIENTS: Head[] = [...ROUTES.map((head, i) => (i === 0 ? { name: "Client" } : head)), { name: "Limit" }, { name: "First (UTC)", number: true }, { name: "Last (UTC)", number: true }];

function part(title: string, look: string, none: string, heads: Head[], rows: Child[][]): Child {
  return [el("h3", {}, title), rows.length === 0 ? el("p", { class: "lead" }, none) : scrolling(title, table(heads, rows, { class: look }), ROWS)];
}

const limit = (one: Limit): Child[] => [
  [foreign(one.name, 60), one.isWatching && el("span", { class: "mode", title: "It rejects nothing, and counts what it would have rejected" }, "dry run")],
  one.algorithm && foreign(format.algorithm(one.algorithm), 40),
  settings(one.numbers),
  foreign(one.key, 60),
  format.count(one.asked),
  format.count(one.refused),
  share(one.refused, one.asked),
];

/** What a limit is set to; `other` is what it is compared with, so that changes stand out. */
export function settings(numbers: Numbers, other?: Numbers): Child {
  const before = new Map(other);
  return numbers.map(([name, value], i) => [i > 0 && ", ", el("span", { class: "setting" }, foreign(name, 40), " ", el(other && before.get(name) !== value ? "b" : "span", {}, foreign(value, 40)))]);
}

/** A share as a number and as a bar. */
export function share(part: Num, whole: Num): HTMLElement {
  const known = part !== null && whole !== null && whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;
  return el("span", { class: "share", "--share": known }, format.share(part, whole));
}

const stamp = (seconds: Num): string => (seconds === null ? format.UNKNOWN : `${format.day(seconds)} ${format.clockSeconds(seconds)}`);
