/** What a page shows, whatever its data are of: parts in their order, and where its links lead. */
import { el, type Child } from "./dom";

export interface Page {
  title: string;
  header: HTMLElement;
  contents: HTMLElement;
  sections: Child[];
  /** Draws what needs to be in the page. */
  start(): void;
  /** Brings the reader to what an address names, if that is more than an element of that id. */
  open(anchor: string): boolean;
}

export function show(app: HTMLElement, page: Page): void {
  document.title = page.title;
  app.replaceChildren(page.header, page.contents, el("main", {}, page.sections), el("footer", {}, "One file, nothing is loaded from anywhere. Charts by uPlot."));
  page.start();

  const follow = () => {
    const anchor = location.hash.slice(1);
    if (anchor !== "" && !page.open(anchor)) document.getElementById(anchor)?.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  // A link to where the reader already is changes no hash.
  app.addEventListener("click", (event) => {
    const link = (event.target as Element).closest("a");
    if (link && link.hash !== "" && link.hash === location.hash) follow();
  });
  // Where a link leads counts more than where a reload left off.
  if (location.hash.length > 1) history.scrollRestoration = "manual";
  follow();
}
