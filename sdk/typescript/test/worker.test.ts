// The worker, effects and the artifact functions against a real server.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { HapaxError, type Hapax, type JobState } from "hapax";
import * as artifacts from "hapax/artifacts";
import { EffectError, job, LeaseLost, runEffect, Worker, type HeldJob, type WorkerOptions } from "hapax/worker";

import { onEachStore, type Server } from "./server.js";

const newKind = (): string => `k${randomUUID().slice(0, 8)}`;

async function plan(client: Hapax, kind: string, work = "w"): Promise<string> {
  const planned = await client.jobs.plan({ kind, work_id: work, artifact_id: "a", canonical_url: "https://example.org/", max_attempts: 2 });
  return planned.job_id;
}

/** Waits until the job is in one of these states. */
async function reached(client: Hapax, jobId: string, ...states: JobState[]): Promise<JobState> {
  for (let tries = 0; tries < 400; tries += 1) {
    const { state } = await client.jobs.get(jobId);
    if (states.includes(state)) return state;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`the job did not come to ${states.join(" or ")}`);
}

async function working(client: Hapax, options: WorkerOptions, body: (worker: Worker) => Promise<void>): Promise<void> {
  const worker = new Worker(client, { pollMs: 20, ttlSeconds: 30, stopMs: 200, onError: () => undefined, ...options });
  const running = worker.run();
  try {
    await body(worker);
  } finally {
    await worker.stop();
    await running;
  }
}

onEachStore("jobs", (server: () => Server) => {
  test("a worker runs each job once, and its result is the job's", async () => {
    const client = server().client();
    const kind = newKind();
    const ids = await Promise.all(["1", "2", "3", "4"].map((work) => plan(client, kind, work)));
    const seen: string[] = [];
    const handler = (held: HeldJob): unknown => {
      seen.push(held.job.work_id);
      return { done: held.job.work_id };
    };
    await working(client, { jobs: [job(kind, handler)], concurrency: 3 }, async () => {
      for (const id of ids) await reached(client, id, "INDEXED");
    });
    assert.deepEqual(seen.sort(), ["1", "2", "3", "4"]);
    assert.deepEqual((await client.jobs.get(ids[0]!)).result, { done: "1" });
  });

  test("a handler that throws fails its attempt, and for good if it says so", async () => {
    const client = server().client();
    const [kind, fatal] = [newKind(), newKind()];
    const [first, second] = [await plan(client, kind), await plan(client, fatal)];
    const jobs = [
      job(kind, () => Promise.reject(new Error("not today"))),
      job(fatal, () => Promise.reject(Object.assign(new Error("never"), { retryable: false }))),
    ];
    await working(client, { jobs, concurrency: 2 }, async () => {
      await reached(client, first, "FAILED", "DEAD");
      await reached(client, second, "DEAD");
    });
    assert.equal((await client.jobs.get(first)).error, "not today");
    assert.equal((await client.jobs.get(second)).error, "never");
  });

  test("an effect runs once; another attempt gets what it recorded", async () => {
    const client = server().client();
    const kind = newKind();
    const id = await plan(client, kind);
    let calls = 0;
    const pay = (opKey: string): unknown => ({ call: (calls += 1), opKey });
    const [first] = await client.jobs.lease({ owner: "first", kinds: [kind] });
    await runEffect(client, first!, "PAY", { amount: 5 }, pay, { advanceTo: "FINALIZED" });
    await client.jobs.release(id, { owner: "first", epoch: first!.epoch });
    const handler = async (held: HeldJob): Promise<unknown> => {
      assert.equal(held.state, "FINALIZED");
      return await held.runEffect("PAY", { amount: 5 }, pay, { advanceTo: "FINALIZED" });
    };
    await working(client, { jobs: [job(kind, handler)] }, async () => {
      await reached(client, id, "INDEXED");
    });
    const done = await client.jobs.get(id);
    assert.deepEqual([calls, done.attempts], [1, 2]);
    assert.deepEqual(done.result, { call: 1, opKey: done.ops[0]?.op_key });
  });

  test("a lost lease aborts its handler, and nothing is written under it any more", async () => {
    const client = server().client();
    const kind = newKind();
    const id = await plan(client, kind);
    let late: unknown;
    const handler = async (held: HeldJob): Promise<void> => {
      // Somebody takes the job: it is given back behind this worker's back, and leased again.
      await client.jobs.release(id, { owner: held.job.owner!, epoch: held.job.epoch });
      await client.jobs.lease({ owner: "thief", kinds: [kind], ttl_s: 60 });
      // A renewal may have found it out already.
      if (!held.signal.aborted) await new Promise((resolve) => held.signal.addEventListener("abort", resolve, { once: true }));
      late = await held.advance("FINALIZED").catch((error: unknown) => error);
      throw new Error("too late");
    };
    await working(client, { jobs: [job(kind, handler)], ttlSeconds: 0.6 }, async () => {
      for (let tries = 0; late === undefined && tries < 200; tries += 1) await new Promise((resolve) => setTimeout(resolve, 25));
    });
    assert.ok(late instanceof LeaseLost);
    const { state, owner, failures } = await client.jobs.get(id);
    assert.deepEqual([state, owner, failures], ["LEASED", "thief", 0]);
  });

  test("a lease is kept while its handler works longer than it lasts", async () => {
    const client = server().client();
    const kind = newKind();
    const id = await plan(client, kind);
    const handler = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 4000));
    // Renewed each half second: a machine with much to do may miss two of three.
    await working(client, { jobs: [job(kind, handler)], ttlSeconds: 1.5, concurrency: 2 }, async () => {
      await reached(client, id, "INDEXED");
    });
    assert.equal((await client.jobs.get(id)).attempts, 1);
  });

  test("a step whose answer got lost is found to have been made", async () => {
    let lost = 0;
    const forgetful = (async (url: string, init: RequestInit) => {
      const response = await fetch(url, init);
      if (!url.endsWith("/advance")) return response;
      lost += 1;
      throw new TypeError("the answer got lost");
    }) as unknown as typeof fetch;
    const client = server().client({ fetch: forgetful });
    const kind = newKind();
    const id = await plan(client, kind);
    await working(client, { jobs: [job(kind, () => ({ ok: true }))] }, async () => {
      await reached(client, id, "INDEXED");
    });
    const { failures, result } = await client.jobs.get(id);
    assert.deepEqual([failures, result, lost], [0, { ok: true }, 2]);
  });

  test("a stop waits for what runs, and gives back what does not end", async () => {
    const client = server().client();
    const kind = newKind();
    const id = await plan(client, kind);
    let isAborted = false;
    const handler = (held: HeldJob): Promise<void> =>
      new Promise(() => held.signal.addEventListener("abort", () => (isAborted = true), { once: true }));
    await working(client, { jobs: [job(kind, handler)], stopMs: 50 }, async () => {
      await reached(client, id, "LEASED");
    });
    assert.ok(isAborted);
    const [again] = await client.jobs.lease({ owner: "next", kinds: [kind] });
    assert.equal(again?.job_id, id);
  });

  test("an effect that has no result says why", async () => {
    const client = server().client();
    const kind = newKind();
    await plan(client, kind);
    const [held] = await client.jobs.lease({ owner: "o", kinds: [kind], ttl_s: 30 });
    const run = (fn: () => unknown): Promise<unknown> => runEffect(client, held!, "CALL", { n: 1 }, fn);
    const inside = run(async () => {
      await assert.rejects(run(() => 2), (error) => error instanceof EffectError && error.action === "in_progress" && error.retryable);
      throw Object.assign(new Error("for good"), { retryable: false });
    });
    await assert.rejects(inside, /for good/);
    await assert.rejects(run(() => 3), (error) => error instanceof EffectError && error.action === "failed" && !error.retryable);
    const begun = await client.ops.begin({ job_id: held!.job_id, owner: "o", epoch: held!.epoch, kind: "DIE", context: {} });
    await client.jobs.release(held!.job_id, { owner: "o", epoch: held!.epoch });
    const [next] = await client.jobs.lease({ owner: "p", kinds: [kind] });
    await assert.rejects(runEffect(client, next!, "DIE", {}, () => 4), (error) => error instanceof EffectError && error.action === "in_doubt");
    await client.ops.resolve(begun.op_key, { result: { found: true } });
    assert.deepEqual(await runEffect(client, next!, "DIE", {}, () => 5), { found: true });
  });

  test("the artifact functions plan, lease, advance, run effects and clean up by their old names", async () => {
    const client = server().client();
    const kind = newKind();
    const asked = { workId: "w-1", artifactId: "a-1", canonicalUrl: "https://example.org/p.pdf", kind };
    const jobId = await artifacts.planJobIfAbsent(client, asked);
    assert.equal(await artifacts.planJobIfAbsent(client, asked), jobId);
    const leased = await artifacts.leaseNextJob(client, { owner: "worker-1", kinds: [kind] });
    assert.equal(leased?.job_id, jobId);
    assert.equal(await artifacts.leaseNextJob(client, { owner: "worker-2", kinds: [kind] }), null);
    assert.equal(await artifacts.renewLease(client, { jobId, owner: "worker-1" }), true);
    assert.equal(await artifacts.renewLease(client, { jobId, owner: "worker-2" }), false);
    await artifacts.leaseNextJob(client, { owner: "worker-1", kinds: [kind] });
    const holder = { jobId, owner: "worker-1", epoch: leased!.epoch };
    await artifacts.advanceState(client, { ...holder, toState: "HEAD_DONE", allowedFrom: ["LEASED"] });
    const denied = artifacts.advanceState(client, { ...holder, toState: "FINALIZED", allowedFrom: ["HEAD_DONE"] });
    await assert.rejects(denied, (error: HapaxError) => error.code === "state_transition_denied");
    const opkey = artifacts.opKey("HEAD", jobId, { url: asked.canonicalUrl });
    let runs = 0;
    const effect = { ...holder, kind: "HEAD", opkey, effectFn: () => ({ code: "OK", run: (runs += 1) }) };
    const result = await artifacts.runEffect(client, effect);
    assert.deepEqual(await artifacts.runEffect(client, effect), result);
    assert.equal(runs, 1);
    assert.deepEqual(await artifacts.getEffectResult(client, { opkey }), result);
    assert.equal(await artifacts.getEffectResult(client, { opkey: artifacts.opKey("HEAD", jobId) }), null);
    assert.equal(await artifacts.getCurrentState(client, { jobId }), "HEAD_DONE");
    assert.equal(await artifacts.releaseLease(client, holder), true);
    assert.equal(typeof (await artifacts.cleanupStaleLeases(client)), "number");
    assert.equal(typeof (await artifacts.cleanupStaleOps(client)), "number");
    assert.equal((await artifacts.reconcileJobs(client, { dryRun: true })).dry_run, true);
    assert.match(artifacts.jobKey(asked), /^[0-9a-f]{64}$/);
  });
});
