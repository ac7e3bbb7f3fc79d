// What is said at the start and at the end: a token that nobody set, a worker's first line, and Ctrl-C.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import Fastify from "fastify";

import { Hapax, HapaxError, type HapaxOptions } from "hapax";
import { idempotency as forExpress } from "hapax/express";
import { idempotency as forFastify } from "hapax/fastify";
import { idempotent } from "hapax/fetch";
import { idempotency as forHono } from "hapax/hono";
import { job, Worker } from "hapax/worker";

import { onEachStore, PACKAGE, type Server } from "./server.js";

// What a developer's own shell has set is no part of these tests.
delete process.env["HAPAX_TOKEN"];

const nobody = (options: HapaxOptions = {}): Hapax => new Hapax({ baseUrl: "http://127.0.0.1:9", ...options });
const isNotSet = (error: unknown): boolean =>
  error instanceof HapaxError && error.code === "unauthorized" && error.status === 401 && error.message.startsWith("HAPAX_TOKEN is not set;");

test("a middleware without a token does not start", async () => {
  for (const options of [{}, { client: nobody() }]) {
    assert.throws(() => forExpress(options), isNotSet);
    assert.throws(() => forHono(options), isNotSet);
    assert.throws(() => idempotent(() => new Response(), options), isNotSet);
    await assert.rejects(async () => await Fastify().register(forFastify, options), isNotSet);
  }
  // An empty token is said on purpose, for a server that asks for none.
  forExpress({ client: nobody({ token: "" }) });
});

test("a variable that is set and empty is a token that is not set", () => {
  process.env["HAPAX_TOKEN"] = "";
  try {
    assert.throws(() => forExpress({}), isNotSet);
    process.env["HAPAX_TOKEN"] = "t";
    forExpress({});
  } finally {
    delete process.env["HAPAX_TOKEN"];
  }
});

test("a worker without a token does not start, and sends nothing", async () => {
  let sent = 0;
  const fetch = (() => Promise.reject(new Error(`sent ${(sent += 1)}`))) as unknown as typeof globalThis.fetch;
  const worker = new Worker(nobody({ fetch }), { jobs: [job("k", () => null)], onSay: () => assert.fail("it started") });
  await assert.rejects(worker.run(), isNotSet);
  assert.equal(sent, 0);
});

/** A worker of its own process, and what it has said. */
class Waiting {
  readonly child: ChildProcess;
  readonly lines: string[] = [];
  readonly #ended: Promise<unknown[]>;

  constructor(server: Server, kind: string, goesOnMs: number) {
    const env = { ...process.env, HAPAX_URL: server.url, HAPAX_TOKEN: server.token };
    this.child = spawn(process.execPath, [join(PACKAGE, "dist-test/waiting-worker.js"), kind, String(goesOnMs)], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    process.once("exit", () => this.child.kill("SIGKILL"));
    this.#ended = once(this.child, "close");
    for (const input of [this.child.stdout!, this.child.stderr!]) createInterface({ input }).on("line", (line) => this.lines.push(line));
  }

  async saying(pattern: RegExp): Promise<string> {
    for (let tries = 0; tries < 800; tries += 1) {
      const found = this.lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`it did not say ${pattern}; it said ${this.lines.join("\n")}`);
  }

  interrupt(): void {
    this.child.kill("SIGINT");
  }

  async end(): Promise<unknown[]> {
    return await this.#ended;
  }
}

onEachStore("starting and ending", (server: () => Server) => {
  test("a refused call without a token says which variable to set, one with another token does not", async () => {
    await assert.rejects(new Hapax({ baseUrl: server().url }).stats(), isNotSet);
    const other = server().client({ token: "nobody's" });
    await assert.rejects(other.stats(), (error: HapaxError) => error.status === 401 && !error.message.includes("HAPAX_TOKEN"));
  });

  test("Ctrl-C ends a worker that waits", async () => {
    const kind = `k${randomUUID().slice(0, 8)}`;
    const worker = new Waiting(server(), kind, 0);
    const first = await worker.saying(/^hapax worker: /);
    assert.equal(first, `hapax worker: jobs of the kinds ${kind} from ${server().url}, 1 at once; Ctrl-C ends it`);
    worker.interrupt();
    assert.deepEqual(await worker.end(), [0, null]);
    assert.deepEqual(worker.lines.slice(1), ["hapax worker: stopping: what runs comes to its end; Ctrl-C again to stop now", "ended"]);
  });

  test("Ctrl-C lets what runs come to its end, and a second one does not", async () => {
    const client = server().client();
    for (const [goesOnMs, presses, end, state] of [
      [500, 1, [0, null], "INDEXED"],
      [600_000, 2, [null, "SIGINT"], "LEASED"],
    ] as const) {
      const kind = `k${randomUUID().slice(0, 8)}`;
      const { job_id: id } = await client.jobs.plan({ kind, work_id: "w", artifact_id: "a", canonical_url: "u" });
      const worker = new Waiting(server(), kind, goesOnMs);
      await worker.saying(/^began$/);
      worker.interrupt();
      if (presses === 2) {
        await worker.saying(/ stopping: /);
        worker.interrupt();
      }
      assert.deepEqual(await worker.end(), end, worker.lines.join("\n"));
      assert.equal((await client.jobs.get(id)).state, state);
    }
  });
});
