// Chromium, and pages that remember everything that must not happen: console errors, refusals of the policy, other hosts.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.E2E_MODULES, "/"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export function openBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

// A page in a context of its own. `faults` fills up; `forgive` takes what a test expects.
export async function openPage(browser, base, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    colorScheme: "light",
    reducedMotion: "reduce",
    ...options,
  });
  context.setDefaultTimeout(10_000);
  const page = await context.newPage();
  const faults = [];
  const sizes = new Map();
  await page.exposeBinding("e2eViolation", (_, text) => faults.push(`policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      window.e2eViolation(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      faults.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${base}/`) && !url.startsWith("data:")) faults.push(`other host: ${url}`);
  });
  page.on("response", async (response) => {
    if (!response.url().startsWith(`${base}/ui`) && response.url() !== `${base}/`) return;
    try {
      sizes.set(response.url(), (await response.body()).length);
    } catch {
      // A response whose page went away has no body to weigh.
    }
  });
  const forgive = (pattern) => {
    for (let index = faults.length - 1; index >= 0; index -= 1)
      if (pattern.test(faults[index])) faults.splice(index, 1);
  };
  return { context, page, faults, sizes, forgive, close: () => context.close() };
}

// What axe finds that is serious or critical, as lines; by all of its rules, or by those that are named.
export async function audit(page, rules) {
  // The page's policy forbids foreign scripts, so axe comes by the debugger's way.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const options = { resultTypes: ["violations"], preload: false, iframes: false, ...(rules ? { runOnly: rules } : {}) };
  const found = await page.evaluate((all) => window.axe.run(document, all), options);
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(
        (node) => `${id}: ${node.target.join(" ")} ${node.failureSummary?.split("\n").slice(1, 2).join(" ").trim()}`,
      ),
    );
}
