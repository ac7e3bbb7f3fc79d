// The client against a real server: each group of calls does what it says, and refusals arrive as errors.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { canonical, fingerprint, Hapax, HapaxError, idempotent, Unavailable, type Claim, type Receipt } from "hapax";

import { onEachStore, type Server } from "./server.js";

type Granted = Extract<Claim, { action: "process" }>;

const refusedWith = (code: string) => (error: unknown) => error instanceof HapaxError && error.code === code;

onEachStore("the client", (server: () => Server) => {
  const claimed = async (client: Hapax, path: string, key: string): Promise<Granted> => {
    const claim = await client.keys.claim({ key, method: "POST", path, body: { amount: 1 } });
    assert.equal(claim.action, "process");
    return claim as Granted;
  };

  test("claims, renews and completes a key, and replays what was recorded as it was given", async () => {
    const client = server().client();
    const path = `/pay-${randomUUID()}`;
    const claim = await claimed(client, path, "k");
    assert.equal(claim.key, "k");
    assert.equal(claim.route_pattern, `POST:${path.slice(1)}`);
    const body = { big: 9007199254740993n, ratio: 1.5 };
    const completion = { token: claim.token, status: 201, headers: { location: "/pay/1", "set-cookie": "s=1" }, body };
    assert.deepEqual(await client.keys.complete(claim.id, completion), { id: claim.id, state: "settled", replayed: false });
    assert.equal((await client.keys.complete(claim.id, completion)).replayed, true);

    const again = await client.keys.claim({ key: "k", method: "POST", path, body: { amount: 1 } });
    assert.equal(again.action, "replay");
    if (again.action !== "replay") return;
    assert.deepEqual(again.response.body, body);
    assert.equal(again.raw, '{"big":9007199254740993,"ratio":1.5}');
    assert.deepEqual(again.response.headers, { location: "/pay/1" });

    const other = await client.keys.claim({ key: "k", method: "POST", path, body: { amount: 2 } });
    assert.equal(other.action, "conflict");
    if (other.action === "conflict") assert.deepEqual(other.conflict.diff_summary, ["amount: '1' → '2'"]);
    await assert.rejects(client.keys.renew(claim.id, claim.token), refusedWith("lease_lost"));
  });

  test("releases, lists, shows, settles and deletes keys", async () => {
    const client = server().client();
    const path = `/pay-${randomUUID()}`;
    const route = `POST:${path.slice(1)}`;
    const first = await claimed(client, path, "a");
    assert.ok((await client.keys.renew(first.id, first.token)).lease_expires_at >= first.lease_expires_at);
    assert.equal((await client.keys.release(first.id, first.token)).state, "released");
    const again = await claimed(client, path, "a");
    await client.keys.complete(again.id, { token: again.token, status: 200, body_base64: "/wAB" });
    for (const key of ["b", "c"]) {
      const { id, token } = await claimed(client, path, key);
      await client.keys.complete(id, { token, status: 204 });
    }
    const listed: string[] = [];
    for await (const row of client.keys.list({ route, limit: 1 })) listed.push(row.key);
    assert.deepEqual(listed.sort(), ["a", "b", "c"]);
    assert.equal((await client.keys.list({ route }).all(2)).length, 2);
    const whole = await client.keys.get(again.id);
    assert.equal(whole.state, "settled");
    assert.equal(whole.response?.body_base64, "/wAB");
    assert.equal((await client.keys.delete(again.id)).deleted, true);
    await assert.rejects(client.keys.get(again.id), refusedWith("not_found"));
    await assert.rejects(client.keys.settle(again.id, { release: true }), refusedWith("not_found"));
  });

  test("plans a job once and fences what its holder says", async () => {
    const client = server().client();
    const kind = `k${randomUUID().slice(0, 8)}`;
    const plan = { kind, work_id: "w-1", artifact_id: "a-1", canonical_url: "https://example.org/1", payload: { n: 9007199254740993n } };
    const planned = await client.jobs.plan(plan);
    assert.deepEqual([planned.planned, planned.state], [true, "PLANNED"]);
    assert.equal((await client.jobs.plan(plan)).planned, false);
    const [job] = await client.jobs.lease({ owner: "o-1", kinds: [kind], ttl_s: 30 });
    assert.ok(job);
    assert.deepEqual(job.payload, { n: 9007199254740993n });
    const holder = { owner: "o-1", epoch: job.epoch };
    assert.equal((await client.jobs.renew(job.job_id, { ...holder, ttl_s: 60 })).state, "LEASED");
    await assert.rejects(client.jobs.advance(job.job_id, { ...holder, epoch: job.epoch + 1, to_state: "FINALIZED" }), refusedWith("lease_lost"));
    const denied = client.jobs.advance(job.job_id, { ...holder, to_state: "INDEXED" });
    await assert.rejects(denied, (error: HapaxError) => error.code === "state_transition_denied" && error.details["have"] === "LEASED");
    await client.jobs.release(job.job_id, holder);
    const [taken] = await client.jobs.lease({ owner: "o-2", kinds: [kind] });
    assert.equal(taken?.epoch, job.epoch + 1);
    const failed = await client.jobs.fail(job.job_id, { owner: "o-2", epoch: taken!.epoch, error: "no", retryable: false });
    assert.equal(failed.state, "DEAD");
    assert.deepEqual((await client.jobs.list({ kind }).all()).map((row) => row.job_id), [job.job_id]);
    assert.equal((await client.jobs.retry(job.job_id)).state, "PLANNED");
    assert.deepEqual((await client.jobs.get(job.job_id)).ops, []);
  });

  test("begins, completes, fails and resolves operations", async () => {
    const client = server().client();
    const kind = `k${randomUUID().slice(0, 8)}`;
    const { job_id } = await client.jobs.plan({ kind, work_id: "w", artifact_id: "a", canonical_url: "https://example.org/2" });
    const [job] = await client.jobs.lease({ owner: "o", kinds: [kind] });
    const fence = { owner: "o", epoch: job!.epoch };
    const begun = await client.ops.begin({ ...fence, job_id, kind: "CALL", context: { n: 1 } });
    assert.equal(begun.action, "execute");
    const repeated = await client.ops.begin({ ...fence, job_id, kind: "CALL", context: { n: 1 }, token: begun.token! });
    assert.equal(repeated.action, "execute", "the same runner may ask again after a lost answer");
    await client.ops.complete(begun.op_key, { ...fence, token: begun.token!, result: { id: 7 }, advance_to: "FINALIZED" });
    const replay = await client.ops.begin({ ...fence, job_id, kind: "CALL", context: { n: 1 } });
    assert.deepEqual([replay.action, replay.result], ["replay", { id: 7 }]);
    assert.equal((await client.jobs.get(job_id)).state, "FINALIZED");
    const other = await client.ops.begin({ ...fence, job_id, kind: "CALL", context: { n: 2 } });
    await client.ops.fail(other.op_key, { ...fence, token: other.token!, error: { why: "no" }, retryable: false });
    const failed = await client.ops.begin({ ...fence, job_id, kind: "CALL", context: { n: 2 } });
    assert.deepEqual([failed.action, failed.error], ["failed", { why: "no" }]);
    await assert.rejects(client.ops.resolve(begun.op_key, { result: 1 }), refusedWith("state_transition_denied"));
    assert.equal((await client.ops.get(begun.op_key)).state, "done");
  });

  test("submits an intent once, and answers its question", async () => {
    const client = server().client();
    const intent = { kind: "intent", source: "sdk", request_id: randomUUID(), confidence: 0.9, fields: { title: "Tea" } } as const;
    const first = await client.intents.submit(intent);
    const again = await client.intents.submit(intent);
    assert.deepEqual([again.receipt_id, first.replayed, again.replayed], [first.receipt_id, false, true]);
    await assert.rejects(client.intents.submit({ ...intent, fields: { title: "Milk" } }), refusedWith("IDEMPOTENCY_CONFLICT"));
    let receipt: Receipt = again;
    for (let tries = 0; receipt.status === "accepted" && tries < 200; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 25));
      receipt = await client.intents.receipt(first.receipt_id);
    }
    assert.equal(receipt.status, "needs_clarification");
    assert.deepEqual((await client.intents.intent(first.intent_id!)).packet, intent);
    const open = await client.intents.clarifications({ status: "open" }).all();
    const asked = open.find((one) => one.receipt_id === first.receipt_id);
    assert.ok(asked, JSON.stringify(open));
    const answered = await client.intents.answer(asked.id, { answer_text: "create_task" });
    assert.equal(answered.receipt_id, first.receipt_id);
    const listed = await client.intents.receipts().all(500);
    assert.ok(listed.some((one) => one.receipt_id === first.receipt_id));
    assert.equal((await client.intents.replay(first.receipt_id)).receipt_id, first.receipt_id);
  });

  test("ingests a payload once, with the digits it came with", async () => {
    const client = server().client();
    const id = randomUUID();
    const payload = { course: { id, name: "Tea" }, n: 9007199254740993n };
    const first = await client.snapshots.ingest(payload);
    const again = await client.snapshots.ingest({ rawJson: canonical(payload) });
    assert.deepEqual([first.idempotent, again.idempotent, again.snapshotId], [false, true, first.snapshotId]);
    const entity = await client.snapshots.get(id);
    assert.equal(entity.hash, fingerprint(payload));
    assert.deepEqual(entity.payload, payload);
    await client.snapshots.ingest({ course: { id, name: "Milk" } });
    const history = await client.snapshots.history(id, "courses", { limit: 1 }).all();
    assert.equal(history.length, 2);
    assert.deepEqual((await client.snapshots.snapshot(id, first.snapshotId)).payload, payload);
    const batch = await client.snapshots.ingestBatch([{ course: { id: randomUUID(), name: "A" } }, { nope: 1 }]);
    assert.deepEqual([batch.succeeded, batch.failed, batch.errors?.[0]?.error], [1, 1, "schema_validation_failed"]);
    assert.ok((await client.snapshots.list({ limit: 1 }).all()).length >= 2);
    await assert.rejects(client.snapshots.ingest({}, "no-such-collection"), refusedWith("not_found"));
  });

  test("normalises, inserts once and reads entries", async () => {
    const client = server().client();
    const word = `w${randomUUID().slice(0, 8)}`;
    const chat = { chat_id: Math.floor(Math.random() * 1e9), message_id: 2 };
    const entry = await client.entries.normalizeTelegram({ text: `a thought about ${word}`, source: chat });
    const [row] = await client.entries.insert(entry);
    assert.equal(row?.action, "inserted");
    const [again] = await client.entries.insert([entry]);
    assert.deepEqual([again?.entry_id, again?._batch_ok], [row.entry_id, true]);
    assert.notEqual(again?.action, "inserted");
    const [updated] = await client.entries.update({ entry_id: row.entry_id!, title: "T" }, { returning: ["entry_id", "title"] });
    assert.deepEqual([updated?.action, updated?.title], ["updated", "T"]);
    assert.equal((await client.entries.readFind({ q: word }))[0]?.entry_id, row.entry_id);
    assert.equal((await client.entries.readContinue({ q: word, limit: 1 }))[0]?.entry_id, row.entry_id);
    assert.ok((await client.entries.readLast({ limit: 5 })).length > 0);
    assert.equal((await client.entries.readPull(row.entry_id!)).title, "T");
    const mail = await client.entries.normalizeEmail({ raw_text: "Hello.", from: "a@example.org", subject: "Hi", source: { message_id: `<${word}@x>`, date: "2026-01-01T00:00:00Z" } });
    assert.equal(mail.content_type, "newsletter");
    const page = await client.entries.normalizeWebpage({ text: "A page.", url: "https://example.org/a?utm_source=x" });
    assert.equal(page.url_canonical, "https://example.org/a");
  });

  test("reads and sets policies, and tells what cannot be enriched or imported", async () => {
    const client = server().client();
    const policies = await client.entries.policies("pkm_test");
    assert.ok(policies.some((policy) => policy.policy_key === "telegram_link_v1"));
    const key = `sdk_${randomUUID().slice(0, 8)}`;
    assert.equal((await client.entries.setPolicy(key, { source: "sdk", content_type: "link", conflict_action: "skip" })).enabled, true);
    assert.equal(typeof (await client.entries.testMode()), "boolean");
    await assert.rejects(client.entries.enrichT1({ clean_text: "x" }), refusedWith("llm_not_configured"));
    await assert.rejects(client.entries.enrichT1Batch({ items: [{ clean_text: "x" }] }), refusedWith("llm_not_configured"));
    await assert.rejects(client.entries.importMbox({ mbox_path: "a.mbox" }), refusedWith("forbidden"));
    await assert.rejects(client.entries.importStatus(randomUUID()), refusedWith("not_found"));
    await assert.rejects(client.entries.enrichStatus(randomUUID()), refusedWith("not_found"));
    assert.ok(Array.isArray(await client.entries.enrichBatches({ include_terminal: true }).all()));
  });

  test("tells of health, figures, audit and reconciliation", async () => {
    const client = server().client();
    assert.equal((await client.health()).status, "ok");
    assert.ok((await client.stats()).total_requests >= 0);
    assert.equal((await client.reconcile({ dry_run: true })).dry_run, true);
    const path = `/pay-${randomUUID()}`;
    const { id, token } = await claimed(client, path, "a");
    await client.keys.complete(id, { token, status: 200 });
    await client.keys.delete(id);
    const rows = await client.audit({ key_id: id }).all();
    assert.ok(rows.some((row) => row.action === "key_deleted"), JSON.stringify(rows));
  });

  test("a wrong token and a wrong shape are refusals that never help to repeat", async () => {
    const stranger = server().client({ token: "nobody" });
    await assert.rejects(stranger.stats(), (error: HapaxError) => error.code === "unauthorized" && !error.retryable && error.traceId !== null);
    const refused = server().client().jobs.lease({ owner: "o", limit: 0 });
    await assert.rejects(refused, (error: HapaxError) => error.code === "schema_validation_failed" && Array.isArray(error.details["errors"]));
  });

  test("a function runs once per key, for equal arguments", async () => {
    let runs = 0;
    const pay = idempotent(server().client(), { name: `pay-${randomUUID()}`, key: (order: { id: string }) => order.id }, (order: { id: string; amount: number }) => {
      runs += 1;
      if (order.amount < 0) throw new Error("no");
      return { charged: order.amount, at: new Date(0) };
    });
    const first = await pay({ id: "o-1", amount: 5 });
    assert.deepEqual(first, { charged: 5, at: "1970-01-01T00:00:00.000Z" });
    assert.deepEqual(await pay({ amount: 5, id: "o-1" }), first);
    assert.equal(runs, 1);
    await assert.rejects(pay({ id: "o-1", amount: 6 }), refusedWith("IDEMPOTENCY_CONFLICT"));
    await assert.rejects(pay({ id: "o-2", amount: -1 }), /no/);
    await assert.rejects(pay({ id: "o-2", amount: -1 }), /no/);
    assert.equal(runs, 3);
  });
});

test("calls that are safe to repeat are repeated, and others only where nothing was done", async () => {
  const seen: string[] = [];
  const answers = [503, 429, 200];
  const server = createServer((request, response) => {
    seen.push(request.url ?? "");
    const status = answers[Math.min(seen.length, answers.length) - 1]!;
    response.writeHead(status, { "content-type": "application/json", "retry-after": "0" });
    response.end(JSON.stringify(status === 200 ? { jobs: [], status: "ok" } : { error: { code: "store_unavailable", message: "m", details: {} } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new Hapax({ baseUrl, token: "t", sleep: () => Promise.resolve() });
    assert.equal((await client.health()).status, "ok");
    assert.equal(seen.length, 3);
    seen.length = 0;
    await assert.rejects(client.jobs.lease({ owner: "o" }), refusedWith("store_unavailable"));
    assert.equal(seen.length, 1);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test("a receipt that failed downstream is an answer, and a page of a proxy with the same status is not", async () => {
  const answering = (body: BodyInit, type: string): Hapax =>
    new Hapax({
      baseUrl: "http://127.0.0.1:9",
      token: "t",
      retry: { attempts: 1 },
      fetch: () => Promise.resolve(new Response(body, { status: 502, headers: { "content-type": type } })),
    });
  const receipt = { receipt_id: "r", status: "failed", error: { code: "downstream_failed", message: "m" } };
  const submitted = await answering(JSON.stringify(receipt), "application/json").intents.submit({ kind: "intent" });
  assert.deepEqual([submitted.status, submitted.error?.code], ["failed", "downstream_failed"]);
  const refused = answering("<h1>Bad Gateway</h1>", "text/html").intents.submit({ kind: "intent" });
  await assert.rejects(refused, (error: HapaxError) => error.code === "http_502" && error.retryable);
});

test("a server that cannot be reached is Unavailable, and says where it was looked for", async () => {
  const client = new Hapax({ baseUrl: "http://127.0.0.1:9", token: "t", retry: { attempts: 2 }, sleep: () => Promise.resolve() });
  await assert.rejects(client.stats(), (error) => error instanceof Unavailable && error.message.includes("http://127.0.0.1:9"));
});
