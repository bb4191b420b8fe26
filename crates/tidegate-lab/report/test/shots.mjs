// Pictures to look at, in shots/: light, dark, phone and paper. Of the samples, or of REPORT=path and REPLAY=path.
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "./browser.mjs";

const url = (path) => pathToFileURL(resolve(path)).href;
mkdirSync("shots", { recursive: true });
const browser = await launch();
for (const [name, width, colorScheme] of [["light", 1280, "light"], ["dark", 1280, "dark"], ["phone", 390, "light"]]) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  page.on("console", (message) => console.log(name, message.text()));
  page.on("pageerror", (error) => console.log(name, error));
  await page.goto(url(process.env.REPORT ?? "dist/sample.html"));
  const slider = page.locator(".cursor input").nth(1);
  if (await slider.count()) await slider.fill("33");
  await page.screenshot({ path: `shots/${name}-top.png` });
  // It would lie across the pictures of what is taller than the window.
  await page.locator(".contents").evaluateAll((list) => list.forEach((one) => { one.hidden = true; }));
  const scenarios = page.locator("section.scenario");
  for (let i = 0; i < Math.min(4, await scenarios.count()); i += 1) await scenarios.nth(i).screenshot({ path: `shots/${name}-${i}.png` });
  if (name === "phone") await page.screenshot({ path: "shots/phone-all.png", fullPage: true });
  if (name === "light") await page.locator("main > section").last().screenshot({ path: "shots/light-end.png" });
  if (name === "dark") await page.pdf({ path: "shots/paper.pdf", preferCSSPageSize: true, printBackground: false });
  await page.goto(url(process.env.REPLAY ?? "dist/replay-sample.html"));
  const moments = page.locator(".cursor input");
  if (await moments.count()) await moments.fill("57");
  await page.screenshot({ path: `shots/replay-${name}-top.png` });
  await page.locator(".contents").evaluateAll((list) => list.forEach((one) => { one.hidden = true; }));
  await page.screenshot({ path: `shots/replay-${name}-all.png`, fullPage: true });
  if (name === "dark") {
    await page.pdf({ path: "shots/replay-paper.pdf", preferCSSPageSize: true, printBackground: false });
    // As wide as A4 without its margins.
    await page.setViewportSize({ width: 703, height: 900 });
    await page.emulateMedia({ media: "print" });
    await page.screenshot({ path: "shots/replay-paper.png", fullPage: true });
  }
  await page.close();
}
await browser.close();
