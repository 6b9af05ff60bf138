/** The page in a real browser, from file://, with files dropped as a hand would. */
import assert from "node:assert/strict";
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type Page } from "playwright-core";
import { writeTar } from "../fuzz/tar.js";
import { readVector } from "../fuzz/vectors.js";
import type { Bundle } from "../src/index.js";

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"];

function findChromium(): string | undefined {
  const dirs = (process.env["PATH"] ?? "").split(delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome"];
  return dirs.flatMap((dir) => names.map((name) => join(dir, name))).find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const executablePath = findChromium();

describe("page", { skip: executablePath === undefined && "chromium is not installed: the page is not tested" }, () => {
  const dir = mkdtempSync(join(tmpdir(), "verify-page-"));
  const requests: string[] = [];
  let browser: Browser;
  let page: Page;

  before(async () => {
    browser = await chromium.launch({ executablePath: executablePath ?? "", args: flags });
    page = await browser.newPage({ viewport: { width: 900, height: 1200 } });
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(pathToFileURL(join(import.meta.dirname, "../site/index.html")).href);
  });
  after(async () => {
    await browser?.close();
    rmSync(dir, { recursive: true });
  });

  function archive(vector: string): string {
    const path = join(dir, `${vector}.tar`);
    writeFileSync(path, writeTar(readVector(vector).files));
    return path;
  }

  function folder(bundle: Bundle): string {
    for (const [name, data] of bundle) {
      const path = join(dir, "bundle", name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, data);
    }
    return join(dir, "bundle");
  }

  async function dropped(...files: string[]): Promise<string> {
    await page.evaluate(() => document.getElementById("report")?.replaceChildren());
    const box = await page.locator("#drop").boundingBox();
    assert.ok(box);
    const cdp = await page.context().newCDPSession(page);
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"] as const) {
      await cdp.send("Input.dispatchDragEvent", { type, x: box.x + 20, y: box.y + 20, data });
    }
    return await page.locator("#summary").innerText();
  }

  async function states(): Promise<Record<string, string>> {
    const claims = await page.locator(".claim").evaluateAll((found) => found.map((e) => [(e as HTMLElement).dataset["claim"], (e as HTMLElement).dataset["state"]]));
    return Object.fromEntries(claims) as Record<string, string>;
  }

  async function screenshot(name: string): Promise<void> {
    const to = process.env["LIGHTWORK_SCREENSHOTS"];
    if (to !== undefined) await page.screenshot({ path: join(to, `${name}.png`), fullPage: true });
  }

  test("a valid archive", async () => {
    assert.match(await dropped(archive("valid")), /^Every required claim is proved/);
    const found = await states();
    assert.equal(Object.keys(found).length, 11);
    assert.equal(found["signature"], "proved");
    assert.equal(found["payee_pinned"], "not provable");
    await screenshot("valid");
  });

  test("pins verify again", async () => {
    await page.fill("#pins [name=payee]", readVector("valid").pins.payee ?? "");
    await page.locator("#pins [name=payee]").blur();
    await page.locator('.claim[data-claim=payee_pinned][data-state=proved]').waitFor();
    await page.selectOption("#pins [name=network]", "mainnet");
    await page.locator('.claim[data-claim=amount][data-state=failed]').waitFor();
    await page.selectOption("#pins [name=network]", "");
    await page.fill("#pins [name=payee]", "");
    await page.locator("#pins [name=payee]").blur();
  });

  test("a forged archive says why", async () => {
    assert.match(await dropped(archive("result_swapped")), /^A claim failed/);
    assert.equal((await states())["result"], "failed");
    await page.locator(".claim[data-claim=result]").locator("summary").click();
    assert.match(await page.locator(".claim[data-claim=result] ol").innerText(), /3\.6[\s\S]*failed/);
    await screenshot("forged");
  });

  test("a folder", async () => {
    assert.match(await dropped(folder(readVector("valid_sealed").files)), /^Every required claim is proved/);
  });

  test("something else is unusable", async () => {
    const path = join(dir, "other.tar");
    writeFileSync(path, "<img src=x onerror=alert(1)>".repeat(50));
    assert.match(await dropped(path), /^Unusable: tar/);
    await screenshot("unusable");
  });

  test("nothing was asked of a network", () => {
    assert.deepEqual(requests.filter((url) => !url.startsWith("file:")), []);
  });
});
