/** The line above the verdict: what this is, its data to keep, the theme. */
import { el } from "./dom";
import { themeSwitch } from "./theme";

/** `file` is the name under which the data are kept; without one there are none to keep. */
export function masthead(brand: string, file: string | null): HTMLElement {
  return el("div", { class: "masthead" }, el("p", { class: "brand" }, brand), file !== null && download(file), themeSwitch());
}

/** The data as they are in this file, to be kept or read by a program. */
function download(file: string): HTMLElement {
  const json = document.getElementById("data")?.textContent ?? "";
  const url = URL.createObjectURL(new Blob([json], { type: "application/json" }));
  return el("a", { class: "control", id: "download", href: url, download: file }, "Download the data (JSON)");
}
