/** Light or dark: the system's, unless the reader chose; paper is always light. */
import { el } from "./dom";

const KEY = "tidegate-report-theme"; // as in report.html
const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const dark = matchMedia("(prefers-color-scheme: dark)");
const print = matchMedia("print");
const watchers: ((printing: boolean) => void)[] = [];
let choice: Choice = stored();
let printing = false;

/** Calls `watcher` whenever colours may have changed or the page goes to or from paper. */
export function onLook(watcher: (printing: boolean) => void): void {
  watchers.push(watcher);
}

export function themeSwitch(): HTMLElement {
  const option = (name: Choice) =>
    el("label", {}, el("input", { type: "radio", name: "theme", value: name, checked: name === choice, onchange: () => choose(name) }), el("span", {}, name));
  return el("div", { class: "theme control", role: "radiogroup", "aria-label": "Theme" }, CHOICES.map(option));
}

export function followTheme(): void {
  dark.addEventListener("change", apply);
  const paper = (on: boolean) => () => {
    printing = on;
    apply();
  };
  addEventListener("beforeprint", paper(true));
  addEventListener("afterprint", paper(false));
  print.addEventListener("change", (event) => paper(event.matches)());
  apply();
}

function choose(name: Choice): void {
  choice = name;
  try {
    if (name === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, name);
  } catch {
    // A browser that keeps nothing still switches.
  }
  apply();
}

function apply(): void {
  const isDark = !printing && (choice === "dark" || (choice === "system" && dark.matches));
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  document.documentElement.toggleAttribute("data-paper", printing);
  for (const watcher of watchers) watcher(printing);
}

function stored(): Choice {
  try {
    return CHOICES.find((name) => name === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system";
  }
}
