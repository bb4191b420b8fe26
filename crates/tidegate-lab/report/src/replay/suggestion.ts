/** Numbers that would have rejected no more than a given share, and the configuration to take away. */
import { copyable } from "../copy";
import { el, foreign, scrolling, table, type Child, type Head } from "../dom";
import * as format from "../format";
import type { Suggestion } from "./data";
import { settings } from "./policy";

const HEADS: Head[] = [{ name: "Limit" }, { name: "Key" }, { name: "From" }, { name: "To" }, { name: "Asked", number: true }, { name: "Rejected", number: true }, { name: "Share", number: true }];

export function suggestionView(suggestion: Suggestion): HTMLElement {
  const rows = suggestion.limits.map((limit): Child[] => [
    foreign(limit.name, 60),
    foreign(limit.key, 60),
    settings(limit.from),
    ["→ ", settings(limit.to, limit.from)],
    format.count(limit.asked),
    format.count(limit.refused),
    format.percent(limit.share),
  ]);
  return el(
    "section",
    { "aria-labelledby": "suggestion" },
    el("h2", { id: "suggestion" }, "Suggestion"),
    el("p", { class: "lead" }, lead(suggestion)),
    rows.length === 0 ? el("p", { class: "lead" }, "No limit needs other numbers.") : scrolling("Suggestion", table(HEADS, rows, { class: "suggestion" })),
    suggestion.notes.length > 0 && el("ul", { class: "notes", "aria-label": "Before you use them" }, suggestion.notes.map((note) => el("li", {}, note))),
    suggestion.yaml !== "" && [el("p", { class: "lead" }, "All limits of the configuration, to replace its section:"), copyable(suggestion.yaml, "YAML")],
  );
}

function lead({ share, refusedShare }: Suggestion): string {
  const aim = share === null ? "Numbers for this log's traffic" : `About the least numbers of the same form under which at most ${format.percent(share)} of all requests are rejected`;
  return `${aim}${refusedShare === null ? "" : `: with them it would have been ${format.percent(refusedShare)}`}.`;
}
