// Builds dist/site: index.html and one script. usage: node scripts/page.mjs
import { copyFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
mkdirSync(at("dist/site"), { recursive: true });
copyFileSync(at("page/index.html"), at("dist/site/index.html"));
await build({
  entryPoints: [at("page/page.ts")],
  outfile: at("dist/site/verify.js"),
  bundle: true,
  format: "iife", // a module would not load from file://
  target: "es2022",
  minify: true,
  legalComments: "inline",
  logLevel: "warning",
});
