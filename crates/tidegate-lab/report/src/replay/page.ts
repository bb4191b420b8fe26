/** The page of a replay: what policies would have done to a log's requests. */
import { charts } from "../charts";
import { contents } from "../contents";
import { el } from "../dom";
import * as format from "../format";
import type { Page } from "../page";
import { comparison } from "./comparison";
import { FORMAT, type Replay } from "./data";
import { timeline } from "./lines";
import { logView } from "./log";
import { policyView } from "./policy";
import { reading } from "./reading";
import { suggestionView } from "./suggestion";
import { header, sentence } from "./verdict";

export function replayPage(replay: Replay): Page {
  const { policies, suggestion } = replay;
  const drawing = charts(timeline(replay), { at: null, zoom: null });
  const time = el("section", { "aria-labelledby": "time" }, el("h2", { id: "time" }, "Over time, in UTC"), el("p", { class: "lead" }, "What would have been rejected is the gap between offered and admitted. Drag over a chart to look closer."), drawing.element);
  const show = (seconds: number) => {
    drawing.show(seconds);
    time.scrollIntoView();
  };
  return {
    title: `Tidegate lab: ${sentence(replay)}`,
    header: header(replay),
    contents: contents([
      ...(policies.length > 0 ? [{ anchor: "comparison", name: policies.length > 1 ? "Side by side" : "Figures" }] : []),
      { anchor: "log", name: "The log" },
      { anchor: "time", name: "Over time" },
      ...policies.map(({ anchor, name }) => ({ anchor, name: format.clip(name, 30) })),
      ...(suggestion ? [{ anchor: "suggestion", name: "Suggestion" }] : []),
      { anchor: "reading", name: "Reading the figures" },
    ]),
    sections: [
      replay.format !== FORMAT && el("p", { class: "warning" }, `The data’s format is “${replay.format}”; this page was made for “${FORMAT}” and may show them wrongly.`),
      policies.length > 0 && comparison(replay, show),
      logView(replay.log),
      time,
      policies.map(policyView),
      suggestion && suggestionView(suggestion),
      reading(),
    ],
    start: () => drawing.start(),
    open: () => false,
  };
}
