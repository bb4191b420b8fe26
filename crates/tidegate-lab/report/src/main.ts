/** Reads the data in this file and shows them. */
import "./style.css";
import { readReport } from "./data";
import { el } from "./dom";
import { object } from "./json";
import { masthead } from "./masthead";
import { show } from "./page";
import { readReplay } from "./replay/data";
import { replayPage } from "./replay/page";
import { reportPage } from "./report";
import { followTheme } from "./theme";

const app = document.getElementById("app") ?? document.body;
const json = document.getElementById("data")?.textContent?.trim() ?? "";

followTheme();

/** What stands in the template where the data belong begins like a comment, which no JSON does. */
if (json === "" || json.startsWith("/*")) {
  nothing("There is no data in this report.", "This is the empty template of Tidegate's lab. The lab puts the results of its experiments into it.");
} else {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch (error) {
    nothing("The data in this report can't be read.", String(error));
  }
  if (parsed !== undefined) show(app, object(parsed).kind === "replay" ? replayPage(readReplay(parsed)) : reportPage(readReport(parsed)));
}

function nothing(title: string, text: string): void {
  app.replaceChildren(el("header", { class: "top" }, masthead("Tidegate lab report", null), el("h1", { class: "verdict skipped" }, title), el("p", {}, text)));
}
