// Draws the pages of a server with data into the folder that is named.

import { openBrowser, openPage } from "./browser.mjs";
import { pages } from "./pages.mjs";
import { client, seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

const [folder] = process.argv.slice(2);
const FIGURES_MS = 60_000;
// Pages whose point is below the first screen.
const TALL = { key: 1180, overview: 1080, snapshot: 1080, entry: 1000, job: 1000, receipt: 1000 };

const [browser, server, closed] = await Promise.all([
  openBrowser(),
  startServer(),
  startServer({ token: "screenshots-0123456789abcdef0123456789" }),
]);
try {
  const ask = client(server.base);
  // Somebody has to watch for figures to be kept, and somebody to ask for them to move.
  const watch = new AbortController();
  const stream = fetch(`${server.base}/v1/live`, { signal: watch.signal });
  const made = await seed(ask, { mbox: "archive.mbox" });
  let over = false;
  const traffic = (async () => {
    for (let round = 0; !over; round += 1) {
      const calls = 6 + Math.round(5 * Math.sin(round / 40));
      for (let call = 0; call < calls; call += 1)
        await ask("POST", "/v1/echo", { call }, { "Idempotency-Key": `call-${call}` });
      if (round % 15 === 0)
        await ask("POST", "/v1/keys/claim", {
          key: "order-0001",
          method: "POST",
          path: "/api/v1/orders",
          body: { order: 1, total: round },
        });
      await new Promise((done) => setTimeout(done, 150));
    }
  })();
  // If drawing fails, that is the error to see, and not that its server stopped.
  traffic.catch(() => undefined);
  await new Promise((done) => setTimeout(done, FIGURES_MS));
  for (const colorScheme of ["light", "dark"]) {
    const stranger = await openPage(browser, closed.base, { colorScheme });
    await stranger.page.goto(closed.base);
    await stranger.page.getByLabel("Token").waitFor();
    await stranger.page.screenshot({ path: `${folder}/sign-in-${colorScheme}.png` });
    await stranger.close();
    const { page, close } = await openPage(browser, server.base, { colorScheme });
    for (const [name, path, text] of pages(made)) {
      await page.goto(server.base + path);
      await page.locator("main").getByText(text).filter({ visible: true }).first().waitFor();
      await page.locator("main .loading").first().waitFor({ state: "hidden" });
      if (name === "overview") await page.locator(".uplot canvas").last().waitFor();
      if (name === "key") {
        await page
          .getByLabel("The other body")
          .fill(
            JSON.stringify({ room: 12, nights: 4, guest: { name: "Ada" }, extras: ["breakfast", "late checkout"] }),
          );
        await page.getByRole("button", { name: "Compare side by side" }).click();
        await page.locator(".diff tr.change").first().waitFor();
      }
      // What is drawn from figures needs a frame.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      await page.screenshot({
        path: `${folder}/${name}-${colorScheme}.png`,
        fullPage: true,
        clip: { x: 0, y: 0, width: 1280, height: TALL[name] ?? 860 },
      });
      if (name === "key-in-doubt") {
        await page.getByRole("button", { name: "Settle…" }).click();
        await page.getByRole("dialog").getByLabel("Status").fill("201");
        await page.getByRole("dialog").getByLabel("Body").fill('{"refund": "r-1", "amount": 1200}');
        await page.screenshot({ path: `${folder}/settle-${colorScheme}.png` });
      }
      if (name === "job-in-doubt") {
        await page.getByRole("button", { name: "Resolve…" }).click();
        await page.getByRole("radio", { name: /did not happen/ }).check();
        await page.screenshot({ path: `${folder}/resolve-${colorScheme}.png` });
      }
    }
    await close();
  }
  const { page } = await openPage(browser, server.base, { viewport: { width: 360, height: 740 } });
  await page.goto(`${server.base}/ui/keys`);
  await page.locator("main tbody tr").first().waitFor();
  await page.screenshot({ path: `${folder}/phone-light.png` });
  over = true;
  await traffic;
  watch.abort();
  await stream.catch(() => undefined);
} finally {
  await browser.close();
  await Promise.all([server.stop(), closed.stop()]);
}
