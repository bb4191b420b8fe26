/** The policies side by side, where two of them decide differently, and what a reader must know about each. */
import { el, foreign, scrolling, spoken, table, type Child } from "../dom";
import * as format from "../format";
import type { Num } from "../json";
import type { Differences, Policy, Replay } from "./data";
import { moment } from "./lines";

type Figure = [name: string, value: (policy: Policy) => Child];

/** `show` brings the reader to a moment in the charts. */
export function comparison(replay: Replay, show: (seconds: number) => void): HTMLElement {
  const { policies, rows } = replay;
  const title = policies.length > 1 ? "The policies side by side" : "What it would have done";
  const count = (name: string, key: keyof Policy["totals"]): Figure => [name, ({ totals }) => format.count(totals[key])];
  const figures: Figure[] = [
    count("Requests", "requests"),
    count("Admitted", "admitted"),
    count("Rejected", "refused"),
    ["Share rejected", ({ totals }) => format.share(totals.refused, totals.requests)],
    ["Clients rejected", ({ clientsRefused, clientsAreExact }) => (clientsRefused === null ? format.UNKNOWN : `${clientsAreExact ? "" : "at least "}${format.count(clientsRefused)}`)],
    [`Rejected in the worst ${rows.time ? format.span(rows.time.step) : "row"}`, ({ worst }) => (worst === null ? format.UNKNOWN : `${format.count(worst.refused)} of ${format.count(worst.offered)}`)],
    ["which began (UTC)", ({ worst }) => (worst === null || rows.time === null ? format.UNKNOWN : when(worst.at, moment(worst.at, rows.time.step), show))],
    count("Rejected in a dry run only", "watched"),
    count("Without a key", "lacking"),
    count("Without a route", "noRoute"),
    count("Delayed", "delayed"),
    ["Longest wait", ({ totals }) => format.duration(totals.longestWait)],
  ];
  const heads = [{ name: spoken("Figure") as Child }, ...policies.map((policy) => ({ name: policies.length > 1 ? el("a", { href: `#${policy.anchor}` }, foreign(policy.name, 60)) : foreign(policy.name, 60), number: true }))];
  return el(
    "section",
    { "aria-labelledby": "comparison" },
    el("h2", { id: "comparison" }, title),
    el("div", { class: "beside" }, scrolling(title, table(heads, figures.map(([name, value]) => [name, ...policies.map(value)]), { class: "policies" })), replay.differences && differences(replay.differences, policies)),
    notes(policies),
  );
}

function when(at: number, text: string, show: (seconds: number) => void): HTMLElement {
  return el("button", { type: "button", class: "when", title: "Show this moment in the charts", onclick: () => show(at) }, text);
}

function differences(of: Differences, policies: Policy[]): HTMLElement {
  const [first, second] = policies.map((policy) => format.clip(policy.name, 40));
  const all = Object.values(of).reduce<Num>((sum, value) => (sum === null || value === null ? null : sum + value), 0);
  const differ = of.onlyFirstRefuses === null || of.onlySecondRefuses === null ? null : of.onlyFirstRefuses + of.onlySecondRefuses;
  const cell = (value: Num, look: string) => el("td", { class: `number ${look}` }, el("b", {}, format.count(value)), " ", el("small", {}, format.share(value, all)));
  return el(
    "div",
    { class: "differences" },
    el("h3", {}, "Where they differ"),
    el("p", { class: "lead" }, differ === 0 ? "They decide the same on every request." : `They decide differently on ${format.count(differ)} requests (${format.share(differ, all)}).`),
    scrolling(
      "Where they differ",
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col" }, el("bdi", {}, second), " admits"), el("th", { scope: "col" }, el("bdi", {}, second), " rejects"))),
        el(
          "tbody",
          {},
          el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, first), " admits"), cell(of.bothAdmit, "same"), cell(of.onlySecondRefuses, "differs")),
          el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, first), " rejects"), cell(of.onlyFirstRefuses, "differs"), cell(of.bothRefuse, "same")),
        ),
      ),
    ),
  );
}

function notes(policies: Policy[]): Child {
  const all = policies.flatMap((policy) => policy.notes.map((note) => ({ policy, note })));
  if (all.length === 0) return null;
  const whose = (policy: Policy) => policies.length > 1 && [el("b", {}, foreign(policy.name, 60)), ": "];
  return [el("h3", {}, "Notes"), el("ul", { class: "notes" }, all.map(({ policy, note }) => el("li", {}, whose(policy), foreign(note, 600))))];
}
