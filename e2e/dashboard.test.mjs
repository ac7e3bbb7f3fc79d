// The dashboard in Chromium, against a real server: one with tokens and data, one without either.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, afterEach, before, test } from "node:test";
import { audit, openBrowser, openPage } from "./browser.mjs";
import { pages } from "./pages.mjs";
import { PLANTED, PLANTED_KEY, client, seed } from "./seed.mjs";
import { startServer } from "./server.mjs";

const TOKEN = "e2e-owner-token-0123456789abcdef0123456789";
const WEIGHT_MAX = 300_000;

let browser;
// A server with tokens and data, one that asks for no token, and one that has no data.
let closed;
let open;
let blank;
let ask;
let made;
let there;
// The page of the owner, which most tests share, and the one of the server that asks for no token.
let owner;
let local;

before(async () => {
  [browser, closed, open, blank] = await Promise.all([
    openBrowser(),
    startServer({ token: TOKEN }),
    startServer(),
    startServer(),
  ]);
  ask = client(closed.base, TOKEN);
  [made, there] = await Promise.all([ask, client(open.base)].map((one) => seed(one, { mbox: "archive.mbox" })));
  owner = await openPage(browser, closed.base);
  await signIn(owner, "/ui/keys", TOKEN);
  await main(owner.page).getByText("booking-7f3a").waitFor();
  local = await openPage(browser, open.base);
});

after(async () => {
  await browser?.close();
  await Promise.all([closed?.stop(), open?.stop(), blank?.stop()]);
});

// Whatever a test looked at: no error in the console, no refusal by the policy, no other host.
afterEach(() => {
  for (const one of [owner, local]) {
    const faults = one?.faults.splice(0) ?? [];
    assert.deepEqual(faults, []);
  }
});

const main = (page) => page.locator("main");
const visit = async ({ page }, base, path, text) => {
  await page.goto(base + path);
  await main(page).getByText(text).filter({ visible: true }).first().waitFor();
  await page.locator("main .loading").first().waitFor({ state: "hidden" });
};
const asOwner = (path, text) => visit(owner, closed.base, path, text);
const signIn = async (one, path, token) => {
  await one.page.goto(closed.base + path);
  await one.page.getByLabel("Token").fill(token);
  await one.page.getByRole("button", { name: "Sign in" }).click();
  await one.page.locator("nav").waitFor({ state: "attached" });
  // A browser notes every 401 by itself, and the question who is signed in is answered with one.
  one.forgive(/status of 401 .*\/session$/);
};
// What axe finds in light, and what contrast it finds wanting in dark: the other rules do not look at colours.
const look = async (page) => {
  const light = await audit(page);
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await audit(page, ["color-contrast"]);
  await page.emulateMedia({ colorScheme: "light" });
  return [...light, ...dark.map((line) => `dark: ${line}`)];
};
const toasted = (page, text) => page.locator(".toast", { hasText: text }).last().waitFor();

test("a wrong token is refused with its code, the right one leads to the page that was asked for", async () => {
  const one = await openPage(browser, closed.base);
  const { page } = one;
  await page.goto(`${closed.base}/ui/keys?state=in_doubt`);
  await page.getByLabel("Token").fill("hpx_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  const refusal = page.locator(".problem");
  await refusal.waitFor();
  assert.match(await refusal.innerText(), /unauthorized \(401\)/);
  assert.match(await refusal.innerText(), /trace [0-9a-f]{32}/);
  assert.equal(await refusal.getByRole("link").getAttribute("href"), "/docs/errors/unauthorized");
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await main(page).getByText("doubt-3").waitFor();
  const [cookie] = await one.context.cookies();
  assert.deepEqual(
    [cookie.name, cookie.httpOnly, cookie.sameSite, cookie.path],
    ["hapax_session", true, "Strict", "/"],
  );
  assert.ok(!cookie.value.includes(TOKEN));
  one.forgive(/status of 401 .*\/session$/);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("the page comes with its policy, and a cookie alone changes nothing", async () => {
  const { headers } = await fetch(`${closed.base}/ui/keys`);
  const policy = headers.get("content-security-policy");
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]) {
    assert.ok(policy.split("; ").includes(part), `${part} is not in ${policy}`);
  }
  assert.equal(headers.get("x-content-type-options"), "nosniff");
  assert.equal(headers.get("referrer-policy"), "no-referrer");
  await asOwner("/ui/keys", "booking-7f3a");
  const answer = await owner.page.evaluate(async (id) => {
    const response = await fetch(`/v1/keys/${id}`, { method: "DELETE" });
    return [response.status, (await response.json()).error.details.reason];
  }, made.held);
  assert.deepEqual(answer, [403, "csrf"]);
  await ask("GET", `/v1/keys/${made.held}`);
  owner.forgive(/status of 403 .*\/v1\/keys\//);
});

test("the first load is light", async () => {
  const one = await openPage(browser, open.base);
  const { page, sizes } = one;
  await page.goto(`${open.base}/`);
  await main(page).getByText("Dead letters").waitFor();
  await page.locator(".uplot canvas").first().waitFor();
  const weight = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  assert.ok(sizes.size > 10, `only ${sizes.size} files were weighed`);
  assert.ok(weight < WEIGHT_MAX, `${weight} bytes`);
  console.log(`first load: ${sizes.size} files, ${weight} bytes uncompressed`);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("empty pages teach a command that works", async () => {
  const one = await openPage(browser, blank.base, { viewport: { width: 360, height: 740 } });
  const { page } = one;
  for (const path of ["keys", "jobs", "receipts", "snapshots", "entries", "batches", "imports"]) {
    await page.goto(`${blank.base}/ui/${path}`);
    const command = await main(page).locator(".empty .command code").innerText();
    assert.ok(command.includes(blank.base), command);
    assert.ok(
      (await page.evaluate(() => document.documentElement.scrollWidth)) <= 360,
      `${path} is wider than a phone`,
    );
    execFileSync("bash", ["-euo", "pipefail", "-c", command.replaceAll("curl ", "curl -fsS ")], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    await page.reload();
    await main(page).locator("tbody tr").first().waitFor();
  }
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("every page loads without tokens where the server asks for none", async () => {
  for (const [, path, text] of pages(there)) await visit(local, open.base, path, text);
  assert.equal(await local.page.getByRole("button", { name: "Sign out" }).count(), 0);
});

// One visit per page, since a page is the slow part: it loads by its address, fits a phone, and axe finds nothing serious.
test("every page", async (group) => {
  const { page } = owner;
  for (const [name, path, text] of pages(made)) {
    await group.test(`${name} loads by its address, fits a phone, and holds for axe in light and dark`, async () => {
      await asOwner(path, text);
      assert.equal(await main(page).locator("h1").count(), 1);
      assert.match(await page.title(), / · hapax$/);
      await page.setViewportSize({ width: 360, height: 740 });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, "wider than a phone");
      await page.setViewportSize({ width: 1280, height: 860 });
      assert.deepEqual(await look(page), []);
    });
  }
});

test("dialogs and the sign-in hold for axe in light and dark", async () => {
  const one = await openPage(browser, closed.base);
  await one.page.goto(closed.base);
  await one.page.getByLabel("Token").waitFor();
  assert.deepEqual(await look(one.page), []);
  await signIn(one, `/ui/keys/${made["doubt-3"]}`, TOKEN);
  await one.page.getByRole("button", { name: "Settle…" }).click();
  assert.deepEqual(await look(one.page), []);
  await one.page.keyboard.press("Escape");
  await one.page.keyboard.press("?");
  await one.page.getByRole("dialog").waitFor();
  assert.deepEqual(await look(one.page), []);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("pages lead to each other, and back goes back", async () => {
  const { page } = owner;
  await asOwner("/ui/audit?action=idempotency_conflict", "idempotency conflict");
  await page.getByRole("link", { name: "booking-7f3a" }).first().click();
  await main(page).getByText("Conflicts (1)").waitFor();
  await page.goBack();
  await main(page).getByRole("heading", { name: "Audit" }).waitFor();
  await page.goto(`${closed.base}/ui/nowhere`);
  await main(page).getByText("Nothing is here").waitFor();
});

test("the dashboard leads to the reference, that to the errors, and each of them back", async () => {
  const { page } = owner;
  await asOwner("/ui/keys", "booking-7f3a");
  await page.locator("header.top").getByRole("link", { name: "API reference" }).click();
  await page.getByRole("heading", { name: "hapax" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/docs");
  await page.locator("#index a").first().waitFor();
  await page.getByRole("link", { name: "Errors", exact: true }).click();
  await page.getByRole("heading", { name: "Errors", level: 1 }).waitFor();
  await page.getByRole("link", { name: "lease_lost" }).click();
  await page.getByRole("heading", { name: "lease_lost", level: 1 }).waitFor();
  assert.deepEqual(await look(page), []);
  await page.setViewportSize({ width: 360, height: 740 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, "wider than a phone");
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.getByRole("link", { name: "All errors" }).click();
  await page.getByRole("link", { name: "lease_lost" }).waitFor();
  await page.getByRole("link", { name: "Dashboard", exact: true }).click();
  await main(page).getByRole("heading", { name: "Overview" }).waitFor();
  // What is refused on a page leads there too.
  await page.goto(`${closed.base}/ui/keys/00000000-0000-0000-0000-000000000000`);
  const problem = page.locator(".problem").getByRole("link");
  assert.equal(await problem.getAttribute("href"), "/docs/errors/not_found");
  await problem.click();
  await page.getByRole("heading", { name: "not_found", level: 1 }).waitFor();
  owner.forgive(/status of 404 .*\/v1\/keys\//);
});

test("figures move while the page stands", async () => {
  const { page } = owner;
  await asOwner("/ui/overview", "Requests");
  await page.locator(".status.live").waitFor();
  await page.locator(".uplot canvas").first().waitFor();
  await page.evaluate(() => (window.e2eStood = true));
  const value = page.locator(".card", { hasText: "Requests" }).locator(".value");
  const end = Date.now() + 12_000;
  let seen = await value.innerText();
  while (seen === "0/s" && Date.now() < end) {
    await ask("POST", "/v1/echo", { n: 1 }, { "Idempotency-Key": "live" });
    seen = await value.innerText();
  }
  assert.notEqual(seen, "0/s");
  assert.equal(await page.evaluate(() => window.e2eStood), true);
});

test("a key that comes while the list is open appears in it", async () => {
  const { page } = owner;
  await asOwner("/ui/keys?q=arrives-", "No key matches");
  await ask("POST", "/v1/echo", { n: 1 }, { "Idempotency-Key": "arrives-later" });
  await main(page).getByText("arrives-later").waitFor();
});

test("keys are found by their start, their route and their state", async () => {
  const { page } = owner;
  await asOwner("/ui/keys", "booking-7f3a");
  await page.getByLabel("Key starts with").fill("order-001");
  await page.keyboard.press("Enter");
  await main(page).getByText("10 rows, all there are").waitFor();
  assert.match(page.url(), /\/ui\/keys\?q=order-001$/);
  await page.goto(`${closed.base}/ui/keys?route=POST:bookings-hold`);
  await main(page).getByText("1 row").waitFor();
  await page.getByLabel("Route").fill("");
  await page.getByLabel("State").selectOption("held");
  await main(page).getByText("held-now").waitFor();
  assert.equal(await main(page).getByText("booking-7f3a").count(), 0);
});

test("a refused request stands beside the recorded one, without being pasted", async () => {
  const { page } = owner;
  await asOwner(`/ui/keys/${made.conflict}`, "Conflicts (1)");
  const rows = page.locator("table.refused tbody tr");
  const told = await rows.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.innerText)));
  assert.deepEqual(told, [
    ["nights", "3", "changed"],
    ["extras[1]", "absent", "added"],
  ]);
});

test("a conflict is shown side by side", async () => {
  const { page } = owner;
  await asOwner(`/ui/keys/${made.conflict}`, "Conflicts (1)");
  await page.getByLabel("The other body").fill(
    JSON.stringify({
      room: 12,
      nights: 4,
      guest: { name: "Ada", note: PLANTED },
      extras: ["breakfast", "late checkout"],
    }),
  );
  await page.getByRole("button", { name: "Compare side by side" }).click();
  const changed = page.locator(".diff tr.change", { hasText: "nights" });
  await changed.waitFor();
  assert.equal(await changed.locator("del").innerText(), "3");
  assert.equal(await changed.locator("ins").innerText(), "4");
  await page.locator(".diff tr.more", { hasText: "late checkout" }).waitFor();
  assert.equal(await page.locator(".changes:not(.refused) tbody tr").count(), 2);
});

test("an integer that a double cannot hold keeps its digits, and a conflict in the last one is seen", async () => {
  const { page } = owner;
  const response = await fetch(`${closed.base}/v1/echo`, {
    method: "POST",
    headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json", "Idempotency-Key": "digits" },
    body: '{"account":9007199254740993}',
  });
  assert.equal(response.status, 200);
  const { items } = await ask("GET", "/v1/keys?q=digits");
  await asOwner(`/ui/keys/${items[0].id}`, "9007199254740993");
  await page.getByText("Compare the request with another body").click();
  await page.getByLabel("The other body").fill('{"account":9007199254740992}');
  await page.getByRole("button", { name: "Compare side by side" }).click();
  const changed = page.locator(".diff tr.change");
  await changed.waitFor();
  assert.deepEqual([await changed.locator("del").innerText(), await changed.locator("ins").innerText()], ["3", "2"]);
  assert.equal(await page.locator(".changes:not(.refused) tbody th").innerText(), "account");
});

test("a key is deleted after a word of warning, and not before", async () => {
  const { page } = owner;
  await asOwner(`/ui/keys/${made.removable}`, "to-delete");
  await page.getByRole("button", { name: "Delete…" }).click();
  const dialog = page.getByRole("dialog");
  assert.match(await dialog.innerText(), /The next caller with this key runs the request again/);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await ask("GET", `/v1/keys/${made.removable}`);
  await page.getByRole("button", { name: "Delete…" }).click();
  await dialog.getByLabel("It may run again").check();
  await dialog.getByRole("button", { name: "Delete the key" }).click();
  await toasted(page, "Key deleted");
  await ask("GET", `/v1/keys/${made.removable}`, undefined, {}, [404]);
  await asOwner(`/ui/audit?action=key_deleted`, "to-delete");
});

test("a key in doubt is settled, another released; what is not JSON is refused in place", async () => {
  const { page } = owner;
  await asOwner(`/ui/keys/${made["doubt-1"]}`, "In doubt");
  await page.getByRole("button", { name: "Settle…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Status").fill("201");
  await dialog.getByLabel("Body").fill("{refund}");
  await dialog.getByText("The body is not JSON").first().waitFor();
  assert.equal(await dialog.getByRole("button", { name: "Settle" }).isDisabled(), true);
  await dialog.getByLabel("Body").fill('{"refund":"r-1"}');
  await dialog.getByRole("button", { name: "Settle" }).click();
  await toasted(page, "Key settled");
  const settled = await ask("GET", `/v1/keys/${made["doubt-1"]}`);
  assert.deepEqual([settled.state, settled.status, settled.response.body], ["settled", 201, { refund: "r-1" }]);

  await asOwner(`/ui/keys/${made["doubt-2"]}`, "In doubt");
  await page.getByRole("button", { name: "Release…" }).click();
  await page.getByRole("dialog").getByRole("checkbox").check();
  await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await toasted(page, "Key released");
  const again = await ask("POST", "/v1/keys/claim", {
    key: "doubt-2",
    method: "POST",
    path: "/api/v1/refunds",
    body: { refund: "doubt-2", amount: 1200 },
  });
  assert.equal(again.action, "process");
});

test("the content of a key is erased and the key stays", async () => {
  const { page } = owner;
  const claimed = await ask("POST", "/v1/keys/claim", {
    key: "to-erase",
    method: "POST",
    path: "/api/v1/orders",
    body: { drink: "tea" },
  });
  await ask("POST", `/v1/keys/${claimed.id}/complete`, { token: claimed.token, status: 200, body: {} });
  await asOwner(`/ui/keys/${claimed.id}`, "tea");
  await page.getByRole("button", { name: "Erase…" }).click();
  await page.getByRole("dialog").getByRole("checkbox").check();
  await page.getByRole("dialog").getByRole("button", { name: "Erase" }).click();
  await toasted(page, "Content erased");
  assert.equal((await ask("GET", `/v1/keys/${claimed.id}`)).state, "erased");
  await main(page).locator(".head .badge", { hasText: "erased" }).waitFor();
  assert.equal(await main(page).getByText("tea").count(), 0);
});

test("a page that is fresh again stays where it was", async () => {
  const { page } = owner;
  const { job_id } = await ask("POST", "/v1/jobs", {
    kind: "still",
    work_id: "still",
    artifact_id: "a",
    canonical_url: "https://example.com/still",
    payload: { text: Array.from({ length: 40 }, (_, line) => `line ${line}`) },
  });
  await asOwner(`/ui/jobs/${job_id}`, "line 39");
  await page.setViewportSize({ width: 1280, height: 400 });
  await page.getByRole("region", { name: "Payload" }).focus();
  await page.evaluate(() => window.scrollTo(0, 200));
  await ask("POST", "/v1/jobs/lease", { owner: "worker-still", kinds: ["still"], ttl_s: 60 });
  await main(page).getByText("worker-still").waitFor();
  assert.equal(await page.evaluate(() => window.scrollY), 200);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Payload");
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("a dead job is retried", async () => {
  const { page } = owner;
  await asOwner("/ui/jobs?state=DEAD", "paper-to-revive");
  await page.getByRole("link", { name: "paper-to-revive" }).click();
  await page.getByRole("button", { name: "Retry…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await toasted(page, "Job planned again");
  assert.equal((await ask("GET", `/v1/jobs/${made.revivable}`)).state, "PLANNED");
  await main(page).locator(".head .badge", { hasText: "PLANNED" }).waitFor();
});

test("jobs are found by id, leases count down, and a plan shows how far it is", async () => {
  const { page } = owner;
  await asOwner("/ui/jobs?q=paper-leased", "paper-leased");
  const left = main(page).locator("time[data-shows=countdown]").first();
  const first = await left.innerText();
  await page.waitForFunction(
    (text) => document.querySelector("time[data-shows=countdown]").textContent !== text,
    first,
  );
  await asOwner(`/ui/jobs?q=${made.leased}`, "paper-leased");
  await asOwner(`/ui/jobs/${made.download}`, "Plan: download");
  assert.match(await page.locator("svg.plan").getAttribute("aria-label"), /HEAD: failed/);
  assert.equal(await page.locator("svg.plan .state-failed .name").textContent(), "HEAD");
});

test("an operation in doubt is resolved by an owner", async () => {
  const { page } = owner;
  await asOwner(`/ui/jobs/${made.resolvable}`, "Resolve…");
  await page.getByRole("button", { name: "Resolve…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: "It happened" }).check();
  await dialog.getByLabel("Result (JSON)").fill('{"paid":true}');
  await dialog.getByRole("button", { name: "Record the result" }).click();
  await toasted(page, "Operation resolved");
  const op = await ask("GET", "/v1/ops/op-pay-2");
  assert.deepEqual([op.state, op.result], ["done", { paid: true }]);
});

test("a policy is edited", async () => {
  const { page } = owner;
  await asOwner("/ui/entries/policies", "telegram_link_v1");
  await page.getByRole("button", { name: "Edit telegram_link_v1" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("On a duplicate").selectOption("update");
  await dialog.getByLabel("Fields that an update writes").fill("title, author");
  await dialog.getByRole("button", { name: "Save" }).click();
  await toasted(page, "Policy saved");
  const policy = (await ask("GET", "/v1/policies")).items.find((one) => one.policy_key === "telegram_link_v1");
  assert.deepEqual(
    [policy.conflict_action, policy.update_fields, policy.enabled],
    ["update", ["title", "author"], true],
  );
  await page.getByRole("button", { name: "Edit telegram_link_v1" }).click();
  await dialog.getByLabel("Fields that an update writes").fill("no_such_column");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByText("schema_validation_failed", { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  owner.forgive(/status of 400 .*\/v1\/policies\//);
});

test("a question is answered and its receipt goes on", async () => {
  const { page } = owner;
  await asOwner("/ui/receipts", "What should be done with this?");
  await main(page).locator(`a[href$="${made.answerable}"]`, { hasText: "What should be done" }).click();
  await page.getByRole("button", { name: "make a task" }).click();
  await toasted(page, "Answered");
  await main(page).locator(".head .badge", { hasText: "planned" }).waitFor();
  assert.equal((await ask("GET", `/v1/receipts/${made.answerable}`)).status, "planned");
});

test("any two snapshots are compared", async () => {
  const { page } = owner;
  await asOwner("/ui/snapshots?search=latin", "Latin I, revised");
  await page.getByRole("link", { name: "latin-1" }).click();
  await page.locator(".diff tr.change", { hasText: "teacher" }).waitFor();
  const oldest = await page.locator("select[name=from] option").last().getAttribute("value");
  await page.locator("select[name=from]").selectOption(oldest);
  await page.locator(".diff tr.change", { hasText: "credits" }).waitFor();
  assert.match(page.url(), new RegExp(`from=${oldest}`));
});

test("entries are found by their words, and an update shows what it replaced", async () => {
  const { page } = owner;
  await asOwner("/ui/entries?q=postman", "postman");
  await page.getByRole("link", { name: "postman" }).first().click();
  const changed = page.locator(".diff tr.change", { hasText: "capture_text" });
  await changed.waitFor();
  assert.equal(await changed.locator("ins").innerText(), ", and rang twice");
});

test("the test mode is switched on and off", async () => {
  const { page } = owner;
  for (const [button, said, mode] of [
    ["Turn on…", "Test mode is on", true],
    ["Turn off…", "Test mode is off", false],
  ]) {
    await asOwner("/ui/settings", "Test mode");
    await page.getByRole("button", { name: button }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: button.slice(0, -1) })
      .click();
    await toasted(page, said);
    assert.deepEqual(await ask("GET", "/db/test-mode"), [{ is_test_mode: mode }]);
  }
});

test("dark follows the system, and a choice outlasts the page", async () => {
  const one = await openPage(browser, open.base, { colorScheme: "dark" });
  const paper = () => one.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const isDark = async () => Number(/\d+/.exec(await paper())[0]) < 60;
  await visit(one, open.base, "/ui/keys", "Keys");
  assert.ok(await isDark());
  await one.page.getByRole("button", { name: "Light colours" }).click();
  assert.ok(!(await isDark()));
  await one.page.reload();
  await main(one.page).getByRole("heading", { name: "Keys" }).waitFor();
  assert.ok(!(await isDark()));
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("times change their zone", async () => {
  const one = await openPage(browser, open.base, { timezoneId: "Asia/Kolkata" });
  await visit(one, open.base, "/ui/keys", "booking-7f3a");
  const title = () => one.page.locator("main time").first().getAttribute("title");
  assert.match(await title(), /UTC\+05:30$/);
  await one.page.getByRole("button", { name: "local time" }).click();
  assert.match(await title(), / UTC$/);
  await one.page.reload();
  await one.page.locator("main time").first().waitFor();
  assert.match(await title(), / UTC$/);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("everything can be done by keyboard: go, search, walk, open, decide, close", async () => {
  const { page } = owner;
  const doomed = await ask("POST", "/v1/keys/claim", {
    key: "by-keyboard",
    method: "POST",
    path: "/api/v1/orders",
    body: {},
  });
  const { keyboard } = page;
  await asOwner("/ui/overview", "Requests");
  await keyboard.press("Shift+Tab");
  for (
    let index = 0;
    index < 40 && !(await page.locator(".skip").evaluate((one) => one === document.activeElement));
    index += 1
  )
    await keyboard.press("Shift+Tab");
  await keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await keyboard.press("?");
  await page.getByRole("dialog").getByText("next and previous row").waitFor();
  await keyboard.press("Escape");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await keyboard.press("g");
  await keyboard.press("k");
  await main(page).getByRole("heading", { name: "Keys" }).waitFor();
  await main(page).getByText("by-keyboard").waitFor();
  await keyboard.press("/");
  await keyboard.type("by-key");
  await keyboard.press("Enter");
  await main(page).getByText("1 row").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "by-keyboard");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(outline, "solid");
  await keyboard.press("Enter");
  await page.getByRole("button", { name: "Delete…" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  for (let index = 0; index < 20 && (await focused()) !== "Delete…"; index += 1) await keyboard.press("Tab");
  await keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await keyboard.press("Space");
  for (let index = 0; index < 5 && (await focused()) !== "Delete the key"; index += 1) await keyboard.press("Tab");
  await keyboard.press("Enter");
  await toasted(page, "Key deleted");
  await ask("GET", `/v1/keys/${doomed.id}`, undefined, {}, [404]);
});

test("on a phone the menu opens, leads and closes", async () => {
  const one = await openPage(browser, open.base, { viewport: { width: 360, height: 740 } });
  await visit(one, open.base, "/ui/keys", "booking-7f3a");
  const nav = one.page.locator("nav");
  assert.equal(await nav.isVisible(), false);
  await one.page.getByRole("button", { name: "Menu" }).click();
  await one.page.getByRole("link", { name: "Jobs" }).click();
  await main(one.page).getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(await nav.isVisible(), false);
  await one.page.getByRole("button", { name: "Menu" }).click();
  await one.page.keyboard.press("Escape");
  assert.equal(await nav.isVisible(), false);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("markup that people wrote is shown as text", async () => {
  const { page } = owner;
  for (const [path, text] of [
    ["/ui/keys", PLANTED_KEY],
    [`/ui/keys/${made.planted}`, PLANTED_KEY],
    [`/ui/keys/${made.planted}`, PLANTED.replaceAll('"', "")],
    [`/ui/keys/${made.conflict}`, PLANTED.replaceAll('"', '\\"')],
    [`/ui/receipts/${made.receipt}`, PLANTED],
    ["/ui/snapshots/courses/latin-1", PLANTED.replaceAll('"', '\\"')],
    ["/ui/entries?q=note", PLANTED],
    [`/ui/entries/${made.entry}`, PLANTED],
    ["/ui/entries?source=email-batch", PLANTED],
    [`/ui/jobs/${made.dead}`, PLANTED.replaceAll('"', '\\"')],
    [`/ui/batches/${made.batch}`, PLANTED.replaceAll('"', '\\"')],
    ["/ui/audit", "idempotency"],
  ]) {
    await asOwner(path, text);
    assert.equal(await page.locator("img").count(), 0, path);
    assert.notEqual(await page.title(), "planted", path);
  }
  const note = (await ask("GET", "/v1/entries?source=note")).items[0];
  await asOwner(`/ui/entries/${note.entry_id}`, PLANTED.replaceAll('"', '\\"'));
  assert.equal(await page.locator("img").count(), 0);
});

test("a viewer sees no button that would be refused, and a revoked token ends the session", async () => {
  const viewer = JSON.parse(
    closed.run("token", "create", "--tenant", "00000000-0000-0000-0000-000000000000", "--role", "viewer", "--json"),
  );
  const one = await openPage(browser, closed.base);
  await signIn(one, `/ui/keys/${made["doubt-3"]}`, viewer.token);
  await main(one.page).getByText("An owner can settle or release it.").waitFor();
  const buttons = ["Delete…", "Settle…", "Release…", "Retry…", "Resolve…", "Replay…", "Turn on…", "Turn off…"];
  const none = async () => {
    for (const name of buttons)
      assert.equal(
        await one.page.getByRole("button", { name, exact: true }).count(),
        0,
        `${name} on ${one.page.url()}`,
      );
    assert.equal(await one.page.getByRole("button", { name: /^Edit / }).count(), 0);
  };
  await none();
  for (const [path, text] of [
    [`/ui/jobs/${made.download}`, "Plan: download"],
    [`/ui/receipts/${made.receipt}`, "Timeline"],
    ["/ui/entries/policies", "telegram_thought_v1"],
    ["/ui/settings", "Test mode"],
  ]) {
    await visit(one, closed.base, path, text);
    await none();
  }
  closed.run("token", "revoke", viewer.id);
  const end = Date.now() + 10_000;
  while ((await one.page.getByLabel("Token").count()) === 0) {
    assert.ok(Date.now() < end, "the session outlived its token");
    await one.page.getByRole("link", { name: "Keys" }).click();
    await one.page.waitForTimeout(300);
  }
  await one.page.getByText("The session has ended").waitFor();
  one.forgive(/status of 401 /);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("signing out ends the session in the browser", async () => {
  const one = await openPage(browser, closed.base);
  await signIn(one, "/ui/settings", TOKEN);
  await main(one.page).getByRole("button", { name: "Sign out" }).click();
  await one.page.getByText("You are signed out.").waitFor();
  assert.deepEqual(await one.context.cookies(), []);
  await one.page.goto(`${closed.base}/ui/keys`);
  await one.page.getByLabel("Token").waitFor();
  one.forgive(/status of 401 .*\/session$/);
  assert.deepEqual(one.faults, []);
  await one.close();
});

test("Back after another sign-in shows nothing of the session before", async () => {
  const other = JSON.parse(
    closed.run("token", "create", "--tenant", "7d5b3a52-3c3e-4b61-9a56-0d7f1a7b6f10", "--role", "viewer", "--json"),
  );
  const one = await openPage(browser, closed.base);
  await signIn(one, "/ui/keys", TOKEN);
  await one.page.getByRole("link", { name: "booking-7f3a" }).click();
  await main(one.page).getByText("Conflicts (1)").waitFor();
  await one.page.getByRole("button", { name: "Sign out" }).first().click();
  await one.page.getByLabel("Token").fill(other.token);
  await one.page.getByRole("button", { name: "Sign in" }).click();
  await one.page.locator("nav").waitFor({ state: "attached" });
  // The list never comes, so only what was kept could be shown.
  await one.page.route("**/v1/keys*", () => undefined);
  await one.page.goBack();
  await main(one.page).getByRole("heading", { name: "Keys" }).waitFor();
  assert.equal(await one.page.getByText("booking-7f3a").count(), 0);
  await one.close();
});

test("a server that goes away and comes back is told on the page", async () => {
  const one = await openPage(browser, blank.base);
  await visit(one, blank.base, "/ui/overview", "Requests");
  await one.page.locator(".status.live").waitFor();
  const { home, base } = blank;
  await blank.stop({ keep: true });
  await one.page.locator(".status.waiting", { hasText: "Not connected" }).waitFor();
  blank = await startServer({ folder: home, listen: new URL(base).host });
  await one.page.locator(".status.live").waitFor();
  await one.close();
});
