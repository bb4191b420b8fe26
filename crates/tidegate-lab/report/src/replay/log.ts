/** What the log is worth: how much of it could be read, how exact its times are, and what it lacks. */
import { el, foreign, scrolling, table, type Child } from "../dom";
import * as format from "../format";
import type { Log } from "./data";

export function logView(log: Log): HTMLElement {
  return el(
    "section",
    { "aria-labelledby": "log" },
    el("h2", { id: "log" }, "The log"),
    el("ul", { class: "plain" }, statements(log).map((statement) => el("li", {}, statement))),
    log.bad.length > 0 && [
      el("h3", {}, log.badLines === null || log.badLines > log.bad.length ? "The first lines that can't be read" : "Lines that can't be read"),
      scrolling("Lines that can't be read", table([{ name: "File" }, { name: "Line", number: true }, { name: "Reason" }], log.bad.map((one) => [foreign(one.file), format.count(one.line), foreign(one.reason, 300)]), { class: "bad" }), 20),
    ],
  );
}

function statements(log: Log): Child[] {
  const { lines, requests, badLines, late, odd } = log;
  const read = requests !== null && (lines === null ? `${format.plural(requests, "request")} were read.` : `${format.plural(requests, "request")} were read from ${format.plural(lines, "line")}.`);
  const bad = badLines === null ? "It is not known how many lines can't be read." : badLines === 0 ? "Every line could be read." : `${format.plural(badLines, "line")} can't be read${lines === null ? "" : ` (${format.share(badLines, lines)})`}.`;
  const order = late !== null && late > 0 && `${format.plural(late, "line is", "lines are")} further out of order than can be sorted, and judged where they stand.`;
  const strange = odd !== null && odd > 0 && `${format.plural(odd, "line is", "lines are")} left out: their times do not fit those around them.`;
  const without: Child = log.without.length > 0 && ["Left out on demand: ", log.without.map((one, i) => [i > 0 && ", ", `${one.requests === null ? "requests" : format.plural(one.requests, "request")} of `, el("b", {}, foreign(one.name, 60))]), "."];
  const exact = log.times === "seconds" ? "Its times are whole seconds" : log.times === "exact" && "Its times are exact";
  const times = exact && `${exact}${log.isSpread ? "; the requests of a second were spread evenly over it" : ""}.`;
  const lacks: Child = log.lacks.length > 0 && ["It does not record: ", log.lacks.map((one, i) => [i > 0 && ", ", el("b", {}, foreign(one, 60))]), "."];
  return [read, bad, without, order, strange, times, lacks].filter(Boolean);
}
