/** A text to be taken elsewhere, with a button that copies it. Where a browser gives no clipboard, the text is selected instead. */
import { el } from "./dom";

export function copyable(text: string, label: string): HTMLElement {
  const code = el("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
  const said = el("output", {}, "");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      getSelection()?.selectAllChildren(code);
      said.textContent = "It is selected; copy it with Ctrl+C or ⌘C.";
    }
  };
  return el("div", { class: "copyable" }, el("p", { class: "control" }, el("button", { type: "button", class: "small", onclick: () => void copy() }, `Copy ${label}`), said), code);
}
