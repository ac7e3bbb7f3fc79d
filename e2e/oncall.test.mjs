// What an engineer on call must not be talked into: decisions, lists that stand still, lost contact, and words that are true.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { audit, openBrowser, openPage } from "./browser.mjs";
import { client, seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

let browser;
let server;
let ask;
let made;
let one;
let page;
const main = () => page.locator("main");
const dialog = () => page.getByRole("dialog");
const sleep = (ms) => page.waitForTimeout(ms);

before(async () => {
  [browser, server] = await Promise.all([openBrowser(), startServer()]);
  ask = client(server.base);
  made = await seed(ask, { mbox: "archive.mbox" });
  one = await openPage(browser, server.base);
  page = one.page;
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

afterEach(async () => {
  const faults = one?.faults.splice(0) ?? [];
  assert.deepEqual(faults, []);
});

const visit = async (path, text) => {
  await page.mouse.move(2, 2);
  await page.goto(server.base + path);
  await main().getByText(text).filter({ visible: true }).first().waitFor();
  await page.locator("main .loading").first().waitFor({ state: "hidden" });
};
const button = (name) => dialog().getByRole("button", { name });
const claim = (body) => ask("POST", "/v1/keys/claim", { method: "POST", ...body });
const look = async () => {
  const light = await audit(page);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await audit(page, ["color-contrast"]);
  await page.emulateMedia({ colorScheme: "light" });
  return [...light, ...dark.map((line) => `dark: ${line}`)];
};
const red = (locator, part = "backgroundColor") =>
  locator.evaluate((element, name) => {
    const [r, g, b] = getComputedStyle(element)[name].match(/\d+/g).map(Number);
    return r > g + 60 && r > b + 60;
  }, part);

// ---- Decisions

test("settle has no status filled in, and Enter on the empty form records nothing", async () => {
  await visit(`/ui/keys/${made["doubt-1"]}`, "In doubt");
  await page.getByRole("button", { name: "Settle…" }).click();
  assert.equal(await dialog().getByLabel("Status").inputValue(), "");
  await dialog().getByLabel("Status").focus();
  await page.keyboard.press("Enter");
  await sleep(300);
  assert.equal(await button("Settle").isDisabled(), true);
  assert.equal(await dialog().count(), 1);
  await dialog().getByLabel("Status").fill("200");
  await page.keyboard.press("Enter");
  await sleep(300);
  assert.equal((await ask("GET", `/v1/keys/${made["doubt-1"]}`)).state, "in_doubt");
  await page.keyboard.press("Escape");
});

test("settle shows what the next caller will get before it is sent, and that is what it gets", async () => {
  await visit(`/ui/keys/${made["doubt-1"]}`, "In doubt");
  await page.getByRole("button", { name: "Settle…" }).click();
  const told = dialog().getByRole("status");
  await told.getByText("Still: 409 IDEMPOTENCY_IN_DOUBT.").waitFor();
  await dialog().getByLabel("Status").fill("201");
  await dialog().getByLabel("Body").fill("{refund}");
  await told.getByText("The body is not JSON").waitFor();
  assert.equal(await button("Settle").isDisabled(), true);
  await dialog().getByLabel("Body").fill('{"refund":"r-1"}');
  await told.getByText("The next caller with this key gets 201 with this body").waitFor();
  assert.match(await told.innerText(), /"refund": "r-1"/);
  assert.deepEqual(await look(), []);
  await button("Settle").click();
  await page.locator(".toast", { hasText: "Key settled" }).waitFor();
  const next = await claim({ key: "doubt-1", path: "/api/v1/refunds", body: { refund: "doubt-1", amount: 1200 } });
  assert.deepEqual([next.action, next.response.status, next.response.body], ["replay", 201, { refund: "r-1" }]);
});

test("an answer without a body is recorded only if somebody says that it has none", async () => {
  await visit(`/ui/keys/${made["doubt-3"]}`, "In doubt");
  await page.getByRole("button", { name: "Settle…" }).click();
  await dialog().getByLabel("Status").fill("204");
  assert.equal(await button("Settle").isDisabled(), true);
  await dialog().getByText("Type the body, or say that there is none.").first().waitFor();
  await dialog().getByLabel("The answer is empty").check();
  await dialog().getByText("gets 204 without a body").waitFor();
  assert.equal(await button("Settle").isDisabled(), false);
  await page.keyboard.press("Escape");
});

test("release warns in red and in words that the payment may happen twice, and needs a tick", async () => {
  await visit(`/ui/keys/${made["doubt-3"]}`, "In doubt");
  await page.getByRole("button", { name: "Release…" }).click();
  await dialog().getByText("runs the request again: the payment may happen twice").waitFor();
  assert.ok(await red(dialog().locator(".next"), "borderTopColor"));
  assert.equal(await button("Release").isDisabled(), true);
  await page.keyboard.press("Enter");
  await sleep(300);
  assert.equal((await ask("GET", `/v1/keys/${made["doubt-3"]}`)).state, "in_doubt");
  await dialog().getByRole("checkbox").check();
  assert.ok(await red(button("Release")));
  assert.deepEqual(await look(), []);
  await page.keyboard.press("Escape");
});

test("resolve offers three choices, none chosen, and nothing happens by Enter", async () => {
  await visit(`/ui/jobs/${made.doubtful}`, "Resolve…");
  await page.getByRole("button", { name: "Resolve…" }).click();
  const radios = dialog().getByRole("radio");
  assert.equal(await radios.count(), 3);
  assert.deepEqual(await radios.evaluateAll((all) => all.map((radio) => radio.checked)), [false, false, false]);
  await radios.first().focus();
  await page.keyboard.press("Enter");
  await sleep(300);
  assert.equal((await ask("GET", "/v1/ops/op-pay-1")).state, "in_doubt");
  assert.equal(await button("Resolve").isDisabled(), true);
  assert.deepEqual(await look(), []);
  await page.keyboard.press("Escape");
});

test("running an effect again is red, asks for its name, and says what the next worker does", async () => {
  await visit(`/ui/jobs/${made.doubtful}`, "Resolve…");
  await page.getByRole("button", { name: "Resolve…" }).click();
  await dialog()
    .getByRole("radio", { name: /It did not happen: run PAY again/ })
    .check();
  const run = button("Run PAY again");
  assert.equal(await run.isDisabled(), true);
  await dialog().getByText("The next worker with this job runs PAY again: the payment may happen twice.").waitFor();
  assert.ok(await red(dialog().locator(".next"), "borderTopColor"));
  await dialog().getByLabel("Type PAY to run it again").fill("pay");
  assert.equal(await run.isDisabled(), true);
  await dialog().getByLabel("Type PAY to run it again").fill("PAY");
  assert.equal(await run.isDisabled(), false);
  assert.ok(await red(run));
  assert.deepEqual(await look(), []);
  // Another choice takes the danger away again, and the name that was typed is not a result.
  await dialog()
    .getByRole("radio", { name: /It happened/ })
    .check();
  assert.equal(await button("Record the result").isDisabled(), true);
  await dialog().getByLabel("Result (JSON)").fill('{"paid":true}');
  await dialog().getByText("gets this result of PAY, and does not run it again").waitFor();
  assert.ok(!(await red(dialog().locator(".next"), "borderTopColor")));
  await page.keyboard.press("Escape");
  assert.equal((await ask("GET", "/v1/ops/op-pay-1")).state, "in_doubt");
});

test("a dialog keeps the focus inside, closes by Escape and gives the focus back", async () => {
  await visit(`/ui/jobs/${made.doubtful}`, "Resolve…");
  const opener = page.getByRole("button", { name: "Resolve…" });
  await opener.focus();
  await page.keyboard.press("Enter");
  await dialog().waitFor();
  for (let index = 0; index < 12; index += 1) {
    await page.keyboard.press("Tab");
    assert.ok(
      await page.evaluate(
        () => document.activeElement === document.body || document.activeElement.closest("dialog") !== null,
      ),
    );
  }
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Resolve…");
});

test("a dialog closes with the page that it is about", async () => {
  await visit(`/ui/keys/${made["doubt-3"]}`, "In doubt");
  await page.getByRole("button", { name: "Release…" }).click();
  await dialog().waitFor();
  await page.evaluate(() => document.querySelector("nav a[data-page=jobs]").click());
  await main().getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(await dialog().count(), 0);
});

test("every other dialog says what the next caller gets, and none is sent by Enter", async () => {
  const settled = await claim({ key: "answered", path: "/api/v1/orders", body: { a: 1 } });
  await ask("POST", `/v1/keys/${settled.id}/complete`, { token: settled.token, status: 201, body: {} });
  for (const [path, text, opener, told] of [
    [`/ui/keys/${settled.id}`, "Facts", "Delete…", /The next caller with this key runs the request again/],
    [`/ui/keys/${settled.id}`, "Facts", "Erase…", /The next caller with this key gets 410 erased/],
    [`/ui/keys/${made.held}`, "Facts", "Delete…", /The next caller with this key runs the request again/],
    [`/ui/jobs/${made.dead}`, "Facts", "Retry…", /The next worker gets this job/],
    ["/ui/settings", "Test mode", "Turn on…", /The next caller of any node/],
    ["/ui/entries/policies", "telegram_link_v1", "Edit telegram_link_v1", /The next duplicate/],
  ]) {
    await visit(path, text);
    await page.getByRole("button", { name: opener }).click();
    assert.match(await dialog().getByRole("status").innerText(), told, opener);
    await page.keyboard.press("Enter");
    await sleep(200);
    assert.equal(await page.locator(".toast").count(), 0, opener);
    await page.keyboard.press("Escape");
  }
  assert.equal((await ask("GET", `/v1/keys/${settled.id}`)).state, "settled");
  assert.equal((await ask("GET", `/v1/jobs/${made.dead}`)).state, "DEAD");
});

// ---- Words that are true

test("a key in doubt ends when somebody decides, and names no deadline", async () => {
  await visit("/ui/keys?state=in_doubt", "doubt-3");
  const row = page.locator("tbody tr", { hasText: "doubt-3" });
  await row.getByText("until somebody decides").waitFor();
  await visit(`/ui/keys/${made["doubt-3"]}`, "In doubt");
  const kept = page.locator(".facts > div", { hasText: "Kept until" });
  assert.match(await kept.innerText(), /until somebody decides/);
  assert.doesNotMatch(await page.getByLabel("Life of the key").innerText(), /Expires/);
});

test("a held key whose lease expired is not said to run", async () => {
  const lost = await claim({ key: "lost-lease", path: "/api/v1/orders", body: { a: 1 }, lease_seconds: 1 });
  await sleep(1500);
  await visit("/ui/keys?q=lost-lease", "lost-lease");
  const badge = page.locator("tbody tr", { hasText: "lost-lease" }).locator(".badge");
  assert.match(await badge.innerText(), /lease expired/);
  assert.doesNotMatch(await badge.getAttribute("class"), /busy/);
  await visit(`/ui/keys/${lost.id}`, "Response");
  assert.equal(await main().getByText("It still runs").count(), 0);
  await main().getByText("Nobody holds this key").waitFor();
});

test("a leased job that nobody holds is neither blue nor busy, and says so", async () => {
  const { job_id } = await ask("POST", "/v1/jobs", {
    kind: "left",
    work_id: "paper-left",
    artifact_id: "left",
    canonical_url: "https://example.com/left",
  });
  await ask("POST", "/v1/jobs/lease", { owner: "worker-z", kinds: ["left"], ttl_s: 1 });
  await sleep(1500);
  await visit("/ui/jobs?q=paper-left", "paper-left");
  const row = page.locator("tbody tr", { hasText: "paper-left" });
  assert.doesNotMatch(await row.locator(".badge").first().getAttribute("class"), /busy/);
  await row.getByText("nobody holds it").waitFor();
  await visit(`/ui/jobs/${job_id}`, "nobody holds it");
  await visit("/ui/jobs?q=paper-leased", "paper-leased");
  assert.match(await page.locator("tbody tr .badge").first().getAttribute("class"), /busy/);
});

test("an import whose batches are not done is not completed", async () => {
  await visit("/ui/imports", "archive.mbox");
  const badge = page.locator("tbody tr", { hasText: "archive.mbox" }).locator(".badge").first();
  await badge.getByText("enriching").waitFor();
  assert.doesNotMatch(await badge.getAttribute("class"), /good/);
  await main().getByText("1 batch not done").waitFor();
});

test("operations in doubt have a count, a list, a filter and a badge, as keys have", async () => {
  const doubtful = (await ask("GET", "/v1/ops?state=in_doubt")).items.length;
  assert.ok(doubtful >= 2);
  await visit("/ui/overview", "Operations in doubt");
  const card = page.locator(".card", { hasText: "Operations in doubt" });
  await card.locator(".value", { hasText: String(doubtful) }).waitFor();
  await card.click();
  await main().getByRole("heading", { name: "Jobs" }).waitFor();
  await page.locator("tbody tr", { hasText: "paper-in-doubt" }).getByText("PAY").waitFor();
  assert.equal(await page.locator("tbody tr").count(), doubtful);
  const tab = page.locator(".tabs a", { hasText: "Operations in doubt" });
  assert.equal(await tab.getAttribute("aria-current"), "true");
  assert.equal(await tab.locator("span").innerText(), String(doubtful));
  assert.deepEqual(await look(), []);
  await visit("/ui/jobs?q=paper-in-doubt", "paper-in-doubt");
  await page.locator("tbody tr .badge.warn", { hasText: "in doubt" }).waitFor();
  await page.getByRole("link", { name: "paper-in-doubt" }).click();
  await main().getByText("PAY in doubt until somebody decides").waitFor();
});

test("dead jobs show their error in the list", async () => {
  await visit("/ui/jobs?state=DEAD", "paper-dead");
  await page.locator("tbody tr", { hasText: "paper-dead" }).getByText("no such host").waitFor();
  await visit("/ui/jobs?q=paper-dead", "paper-dead");
  await page.locator("tbody tr", { hasText: "paper-dead" }).getByText("no such host").waitFor();
});

// ---- Lists that stand still

const keep = (name) => ask("POST", "/v1/echo", { n: 1 }, { "Idempotency-Key": name });
const firstRow = () => page.locator("tbody tr").first().locator("td").first().innerText();

test("new rows wait behind a count while somebody points at the list, and come when asked for", async () => {
  for (const name of ["still-1", "still-2", "still-3"]) await keep(name);
  await visit("/ui/keys?q=still-", "still-3");
  const target = page.locator("tbody tr", { hasText: "still-2" });
  await target.hover();
  const before = await target.boundingBox();
  const element = await target.elementHandle();
  for (let index = 0; index < 12; index += 1) await keep(`still-new-${index}`);
  const news = page.getByRole("button", { name: "12 new" });
  await news.waitFor();
  assert.deepEqual(await target.boundingBox(), before);
  assert.equal(await firstRow(), "still-3");
  assert.deepEqual(await look(), []);
  await news.click();
  await main().getByText("15 rows, all there are").waitFor();
  assert.equal(await firstRow(), "still-new-11");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "still-new-11");
  assert.ok(await element.evaluate((row) => row.isConnected), "the row was drawn anew");
});

test("new rows wait while a row has the focus, text is selected or details are open, and come by themselves after", async () => {
  for (const name of ["calm-1", "calm-2"]) await keep(name);
  await visit("/ui/keys?q=calm-", "calm-2");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("j");
  await keep("calm-3");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "calm-2");
  await page.evaluate(() => document.activeElement.blur());
  await main().getByText("3 rows, all there are").waitFor();
  await page.evaluate(() => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector("tbody tr td"));
    getSelection().addRange(range);
  });
  await keep("calm-4");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.evaluate(() => getSelection().toString()), "calm-3");
  await page.evaluate(() => getSelection().removeAllRanges());
  await main().getByText("4 rows, all there are").waitFor();
  // Details stay open in a row of the audit trail, while others come.
  await visit("/ui/audit?action=idempotency_conflict", "idempotency conflict");
  await page.locator("tbody summary").first().click();
  await page.mouse.move(2, 2);
  const conflict = { key: "audit-conflict", path: "/api/v1/orders", body: { a: 1 } };
  await claim(conflict);
  await claim({ ...conflict, body: { a: 2 } });
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.locator("tbody details[open]").count(), 1);
});

test("a row changes where it stands, and keeps its element", async () => {
  const claimed = await claim({ key: "changes-here", path: "/api/v1/orders", body: { a: 1 } });
  await visit("/ui/keys?q=changes-here", "changes-here");
  const row = page.locator("tbody tr", { hasText: "changes-here" });
  const element = await row.elementHandle();
  await row.hover();
  await ask("POST", `/v1/keys/${claimed.id}/complete`, { token: claimed.token, status: 201, body: {} });
  await row.getByText("settled").waitFor();
  assert.ok(await element.evaluate((one) => one.isConnected));
});

test("Back brings back the rows that were loaded, and how far down", async () => {
  await Promise.all(Array.from({ length: 120 }, (_, index) => keep(`deep-${String(index).padStart(3, "0")}`)));
  await visit("/ui/keys?q=deep-", "Show more");
  await page.getByRole("button", { name: "Show more" }).click();
  await page.locator("tbody tr").nth(99).waitFor();
  const row = page.locator("tbody tr").nth(80);
  await row.scrollIntoViewIfNeeded();
  const name = await row.locator("a.row-link").innerText();
  const top = await page.evaluate(() => window.scrollY);
  assert.ok(top > 500);
  await row.locator("a.row-link").click();
  await main().getByText("Facts").waitFor();
  await page.goBack();
  await page.locator("tbody tr").nth(99).waitFor();
  assert.equal(await page.locator("tbody tr").nth(80).locator("a.row-link").innerText(), name);
  await page.waitForFunction((was) => Math.abs(window.scrollY - was) < 3, top);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), name);
  // And it stays so when the list looks again.
  await keep("deep-999");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.evaluate(() => window.scrollY), top);
});

// ---- What repeats, and what has a name

test("a key with 200 conflicts tells them in one line", async () => {
  const order = { key: "storm", path: "/api/v1/orders", body: { order: 1, total: 0 } };
  const first = await claim(order);
  await ask("POST", `/v1/keys/${first.id}/complete`, { token: first.token, status: 201, body: {} });
  for (let round = 0; round < 21; round += 1)
    await Promise.all(
      Array.from({ length: 10 }, (_, index) => claim({ ...order, body: { order: 1, total: round * 10 + index + 1 } })),
    );
  await visit(`/ui/keys/${first.id}`, "Conflicts (200+)");
  const told = page.locator(".kind");
  assert.equal(await told.count(), 1);
  assert.match(await told.innerText(), /^200\+ conflicts, every [\d.]+ m?s, total changed/);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height < 2600, `${height} pixels`);
  await page
    .getByLabel("Life of the key")
    .getByText(/idempotency conflict, × 200\+, every/)
    .waitFor();
  assert.equal(await page.locator(".audit-rows li").count(), 1);
});

test("nothing can be sent while there is no contact, and the dialog says so", async () => {
  await visit(`/ui/keys/${made["doubt-3"]}`, "In doubt");
  await page.getByRole("button", { name: "Release…" }).click();
  await dialog().getByRole("checkbox").check();
  await page.route("**/db/test-mode", (route) => route.abort());
  await dialog()
    .getByText(/No contact since \d\d:\d\d:\d\d: nothing can be sent/)
    .waitFor();
  assert.equal(await button("Release").isDisabled(), true);
  await page.unroute("**/db/test-mode");
  await dialog().getByText("nothing can be sent").waitFor({ state: "detached" });
  assert.equal(await button("Release").isDisabled(), false);
  await page.keyboard.press("Escape");
  one.forgive(/ERR_FAILED/);
});

test("receipts show their sentence", async () => {
  await visit("/ui/receipts", "the usual, please");
  const row = page.locator("tbody tr", { hasText: "the usual, please" });
  assert.match(await row.locator("a.row-link").innerText(), /^the usual, please/);
  assert.match(await row.innerText(), new RegExp(made.question.slice(0, 13)));
});

// ---- Test mode and contact

test("the test mode is a banner on every page until it is off", async () => {
  await ask("POST", "/db/test-mode/set", { is_test_mode: true });
  try {
    for (const path of ["/ui/keys", "/ui/jobs", `/ui/receipts/${made.receipt}`, "/ui/overview", "/ui/nowhere"]) {
      await page.goto(server.base + path);
      await page.locator(".banner", { hasText: "Test mode" }).waitFor();
    }
    assert.deepEqual(await look(), []);
    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
    await page.setViewportSize({ width: 1280, height: 860 });
  } finally {
    await ask("POST", "/db/test-mode/set", { is_test_mode: false });
  }
  await page.locator(".banner", { hasText: "Test mode" }).waitFor({ state: "detached" });
});

test("one banner says since when there is no contact, ages stand still, and going on works or says why", async () => {
  await visit("/ui/keys?q=order-", "order-0023");
  await page.setViewportSize({ width: 1280, height: 600 });
  const first = page.locator("tbody tr").first();
  const stood = await first.boundingBox();
  const { home, base } = server;
  await server.stop({ keep: true });
  try {
    const banner = page.locator(".banner", { hasText: /No contact since \d\d:\d\d:\d\d/ });
    await banner.waitFor();
    assert.equal(await page.locator(".banner").count(), 1);
    const ages = () => page.locator("main tbody time").allInnerTexts();
    const aged = await ages();
    await sleep(3200);
    assert.deepEqual(await ages(), aged);
    assert.deepEqual(await first.boundingBox(), stood, "the banner moved the rows");
    assert.equal(await page.locator(".toast").count(), 0);
    assert.deepEqual(await look(), []);
    // Another page cannot be loaded, and says why; what was there is one step back.
    await page.getByRole("link", { name: "Batches" }).click();
    await main()
      .getByText(/no contact since \d\d:\d\d:\d\d/i)
      .waitFor();
    await banner.waitFor();
    await page.goBack();
    await main().getByText("order-0023").waitFor();
    await page.getByRole("link", { name: "Batches" }).click();
    await main()
      .getByText(/no contact since/i)
      .waitFor();
  } finally {
    server = await startServer({ folder: home, listen: new URL(base).host });
  }
  // It comes by itself.
  await main().getByRole("columnheader", { name: "Batch" }).waitFor();
  assert.equal(await page.locator(".banner").count(), 0);
  await page.setViewportSize({ width: 1280, height: 860 });
  one.forgive(/ERR_CONNECTION_REFUSED|Failed to load resource/);
});
