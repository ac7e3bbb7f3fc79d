// Every call of the client is an operation of spec/openapi.json. The types of what is sent and answered: openapi-types.ts.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";

import { Hapax } from "hapax";

import { NOT_OFFERED, type Called } from "./openapi-types.js";
import { PACKAGE } from "./server.js";

interface Parameter {
  readonly in: string;
  readonly name: string;
}

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: unknown;
}

const FENCE = { owner: "me", epoch: 3 };
const PLAN = { work_id: "w", artifact_id: "a", canonical_url: "u" };

/** The method of the client that calls an operation, and a call of it. */
const CALLS: { readonly [N in keyof Called]: readonly [method: string, call: (client: Hapax) => Promise<unknown>] } = {
  claim_key: ["keys.claim", (client) => client.keys.claim({ method: "POST", path: "/pay", key: "k", principal: "ann", body: 1 })],
  complete_key: ["keys.complete", (client) => client.keys.complete("i", { token: "t", status: 200, stored: false })],
  renew_key: ["keys.renew", (client) => client.keys.renew("i", "t")],
  release_key: ["keys.release", (client) => client.keys.release("i", "t")],
  list_keys: ["keys.list", (client) => client.keys.list({ route: "POST:pay", state: "held", limit: 2 }).page("c")],
  get_key: ["keys.get", (client) => client.keys.get("i")],
  delete_key: ["keys.delete", (client) => client.keys.delete("i")],
  settle_key: ["keys.settle", (client) => client.keys.settle("i", { release: true })],
  list_audit: ["audit", (client) => client.audit({ action: "key_settled", key_id: "i", limit: 2 }).page("c")],
  send_intent: ["intents.submit", (client) => client.intents.submit({ kind: "intent" })],
  get_receipt: ["intents.receipt", (client) => client.intents.receipt("r")],
  get_intent: ["intents.intent", (client) => client.intents.intent("i")],
  list_receipts: ["intents.receipts", (client) => client.intents.receipts({ status: "failed", limit: 2 }).page("c")],
  replay_receipt: ["intents.replay", (client) => client.intents.replay("r")],
  list_clarifications: ["intents.clarifications", (client) => client.intents.clarifications({ status: "open", limit: 2 }).page("c")],
  answer_clarification: ["intents.answer", (client) => client.intents.answer("c", { choice_id: "1" })],
  ingest_snapshot: ["snapshots.ingest", (client) => client.snapshots.ingest({ n: 1 })],
  ingest_snapshots: ["snapshots.ingestBatch", (client) => client.snapshots.ingestBatch([{ n: 1 }])],
  list_entities: ["snapshots.list", (client) => client.snapshots.list({ search: "s", limit: 2 }).page("c")],
  get_entity: ["snapshots.get", (client) => client.snapshots.get("e")],
  list_snapshots: ["snapshots.history", (client) => client.snapshots.history("e", "courses", { limit: 2 }).page("c")],
  get_snapshot: ["snapshots.snapshot", (client) => client.snapshots.snapshot("e", "s")],
  normalize_telegram: ["entries.normalizeTelegram", (client) => client.entries.normalizeTelegram({ text: "t" })],
  normalize_email: ["entries.normalizeEmail", (client) => client.entries.normalizeEmail({ raw_text: "t", from: "f", subject: "s" })],
  normalize_webpage: ["entries.normalizeWebpage", (client) => client.entries.normalizeWebpage({ text: "t" })],
  insert_entries: ["entries.insert", (client) => client.entries.insert({ source: "web" })],
  update_entries: ["entries.update", (client) => client.entries.update({ entry_id: 1, title: "T" })],
  read_last: ["entries.readLast", (client) => client.entries.readLast({ limit: 1 })],
  read_find: ["entries.readFind", (client) => client.entries.readFind({ q: "word" })],
  read_continue: ["entries.readContinue", (client) => client.entries.readContinue({ q: "word" })],
  read_pull: ["entries.readPull", (client) => client.entries.readPull(1)],
  get_test_mode: ["entries.testMode", (client) => client.entries.testMode()],
  set_test_mode: ["entries.setTestMode", (client) => client.entries.setTestMode(true)],
  toggle_test_mode: ["entries.toggleTestMode", (client) => client.entries.toggleTestMode()],
  list_policies: ["entries.policies", (client) => client.entries.policies("pkm")],
  set_policy: ["entries.setPolicy", (client) => client.entries.setPolicy("p", { enabled: true }, "pkm")],
  import_mbox: ["entries.importMbox", (client) => client.entries.importMbox({ mbox_path: "a.mbox" })],
  get_import: ["entries.importStatus", (client) => client.entries.importStatus("i")],
  enrich_text: ["entries.enrichT1", (client) => client.entries.enrichT1({ clean_text: "t" })],
  enrich_batch: ["entries.enrichT1Batch", (client) => client.entries.enrichT1Batch({ items: [{ entry_id: 1 }] })],
  list_batches: ["entries.enrichBatches", (client) => client.entries.enrichBatches({ schema: "pkm", include_terminal: true, limit: 2 }).page("c")],
  get_batch: ["entries.enrichStatus", (client) => client.entries.enrichStatus("b", true)],
  get_config: ["entries.config", (client) => client.entries.config()],
  plan_job: ["jobs.plan", (client) => client.jobs.plan(PLAN)],
  plan_jobs: ["jobs.planBatch", (client) => client.jobs.planBatch([PLAN])],
  lease_jobs: ["jobs.lease", (client) => client.jobs.lease({ owner: "me" })],
  renew_job: ["jobs.renew", (client) => client.jobs.renew("j", FENCE)],
  release_job: ["jobs.release", (client) => client.jobs.release("j", FENCE)],
  advance_job: ["jobs.advance", (client) => client.jobs.advance("j", { ...FENCE, to_state: "INDEXED" })],
  fail_job: ["jobs.fail", (client) => client.jobs.fail("j", { ...FENCE, error: "why" })],
  settle_jobs: ["jobs.settle", (client) => client.jobs.settle([{ ...FENCE, job_id: "j", to_state: "INDEXED" }])],
  count_jobs: ["jobs.stats", (client) => client.jobs.stats()],
  list_jobs: ["jobs.list", (client) => client.jobs.list({ state: "LEASED", kind: "k", work_id: "w", held: true, limit: 2 }).page("c")],
  get_job: ["jobs.get", (client) => client.jobs.get("j")],
  retry_job: ["jobs.retry", (client) => client.jobs.retry("j")],
  begin_op: ["ops.begin", (client) => client.ops.begin({ ...FENCE, job_id: "j", kind: "K" })],
  complete_op: ["ops.complete", (client) => client.ops.complete("o", { ...FENCE, token: "t", result: 1 })],
  fail_op: ["ops.fail", (client) => client.ops.fail("o", { ...FENCE, token: "t", error: "why" })],
  resolve_op: ["ops.resolve", (client) => client.ops.resolve("o", { ...FENCE, retry: true })],
  get_op: ["ops.get", (client) => client.ops.get("o")],
  reconcile: ["reconcile", (client) => client.reconcile({ dry_run: true })],
  get_stats: ["stats", (client) => client.stats()],
  get_health: ["health", (client) => client.health()],
  get_version: ["version", (client) => client.version()],
};

async function operations(): Promise<Map<string, { method: string; path: string; operation: Operation }>> {
  const document = JSON.parse(await readFile(join(PACKAGE, "../../spec/openapi.json"), "utf8")) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const found = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([verb, operation]) => ({ method: verb.toUpperCase(), path, operation })),
  );
  return new Map(found.map((one) => [one.operation.operationId, one]));
}

/** A client whose requests are kept and answered with nothing much. */
function recording(seen: Request[]): Hapax {
  return new Hapax({
    baseUrl: "http://hapax.example",
    token: "t",
    fetch: (url, init) => {
      seen.push(new Request(url, init));
      return Promise.resolve(Response.json({ items: [], jobs: [], next_cursor: null }));
    },
  });
}

function pathPattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`);
}

for (const [name, [method, call]] of Object.entries(CALLS)) {
  test(`${method} calls ${name} of the document`, async () => {
    const told = (await operations()).get(name);
    assert.ok(told, "the document has no such operation");
    const seen: Request[] = [];
    await call(recording(seen));
    const [request] = seen;
    assert.ok(request);
    const url = new URL(request.url);
    assert.equal(request.method, told.method);
    assert.match(url.pathname, pathPattern(told.path));
    const named = (told.operation.parameters ?? []).map((one) => `${one.in} ${one.name.toLowerCase()}`);
    for (const query of url.searchParams.keys()) assert.ok(named.includes(`query ${query}`), `no query ${query}`);
    if (request.headers.has("idempotency-key")) assert.ok(named.includes("header idempotency-key"));
    assert.equal((await request.text()) !== "", told.operation.requestBody !== undefined);
  });
}

test("every method of the client is tried, and every operation of the document is called or left out for a reason", async () => {
  const client = recording([]);
  const methodsOf = (group: object): string[] =>
    Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(group) as object))
      .filter(([name, property]) => !["constructor", "checkToken"].includes(name) && typeof property.value === "function")
      .map(([name]) => name);
  const groups = Object.entries(client) as Array<[string, object]>;
  const methods = [...methodsOf(client), ...groups.flatMap(([group, object]) => methodsOf(object).map((name) => `${group}.${name}`))];
  assert.deepEqual(methods.sort(), Object.values(CALLS).map(([method]) => method).sort());
  const known = [...Object.keys(CALLS), ...Object.keys(NOT_OFFERED)];
  assert.deepEqual(known.sort(), [...(await operations()).keys()].sort());
});
