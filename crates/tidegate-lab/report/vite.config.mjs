import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

/** The one place in the template that the lab replaces by its JSON. */
const PLACEHOLDER = "/*TIDEGATE_REPORT*/";

/**
 * Puts script and style into the page itself, and a policy before them that lets nothing else run and nothing be loaded: whatever a
 * report's data holds, the browser refuses to execute it or to send anything anywhere.
 */
function inline() {
  return {
    name: "inline",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["report.html"];
      const scripts = Object.values(bundle).filter((file) => file.type === "chunk");
      const styles = Object.values(bundle).filter((file) => file.fileName.endsWith(".css"));
      if (scripts.length !== 1 || styles.length !== 1) this.error("expected one script and one style");
      // What stands inside <script> must not look like its end.
      const script = scripts[0].code.trim().replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
      const style = String(styles[0].source).trim();
      // uPlot's licence wants to go where its code goes.
      const licence = readFileSync(new URL("node_modules/uplot/LICENSE", import.meta.url), "utf8").trim();
      let html = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace("</head>", () => `<style>${style}</style>\n</head>`)
        .replace("</body>", () => `<!-- This page contains uPlot.\n${licence}\n-->\n<script type="module">${script}</script>\n</body>`);
      const hashes = (tag) =>
        [...html.matchAll(new RegExp(`<${tag}(?![^>]*json)[^>]*>([^]*?)</${tag}>`, "g"))]
          .map(([, text]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
          .join(" ");
      const policy = `default-src 'none'; script-src ${hashes("script")}; style-src ${hashes("style")}; img-src data:; base-uri 'none'; form-action 'none'`;
      html = html.replace('<meta charset="utf-8">', (charset) => `${charset}\n<meta http-equiv="Content-Security-Policy" content="${policy}">`);
      if (html.split(PLACEHOLDER).length !== 2) this.error("the placeholder must stand in the page exactly once");
      page.source = html;
      for (const file of [...scripts, ...styles]) delete bundle[file.fileName];
    },
  };
}

export default defineConfig({
  plugins: [inline()],
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 1_000_000,
    cssCodeSplit: false,
    reportCompressedSize: true,
    rollupOptions: { input: "report.html" },
  },
});
