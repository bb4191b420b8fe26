// The page that the binary carries is committed, so that a build needs Rust alone. It must be the one that its sources make.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");

test("the committed page is what its sources are bundled into", () => {
  const same = read("bundled.html") === read("dist/report.html");
  assert.ok(same, "bundled.html is not what `npm run build` makes: run `make report-page` and commit bundled.html");
});
