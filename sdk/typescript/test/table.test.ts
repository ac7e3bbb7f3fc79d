// What a service with the middleware answers, on every framework and store: the table of the layer's own behaviour.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { join } from "node:path";

import type { IdempotencyOptions } from "hapax/express";

import { FRAMEWORKS, type Answered, type App, type Asked, type Framework } from "./apps.js";
import { onEachStore, PACKAGE, type Server } from "./server.js";

/** A service that counts how often it ran, path by path. */
class Counting {
  readonly runs = new Map<string, number>();
  readonly #waiting = new Map<string, () => void>();

  readonly serve = async (asked: Asked): Promise<Answered> => {
    const [path = ""] = asked.path.split("?");
    const run = (this.runs.get(path) ?? 0) + 1;
    this.runs.set(path, run);
    const json = (status: number, value: unknown, headers: Record<string, string | string[]> = {}): Answered => ({
      status,
      headers: { "content-type": "application/json; charset=utf-8", ...headers },
      chunks: [Buffer.from(JSON.stringify(value))],
    });
    if (path.startsWith("/bytes")) {
      return { status: 200, headers: { "content-type": "application/octet-stream" }, chunks: [Buffer.from(asked.body as Buffer).reverse()] };
    }
    if (path.startsWith("/streamed")) {
      const chunks = ["één ", "two\n", "𝄞"].map((text) => Buffer.from(text));
      return { status: 200, headers: { "content-type": "text/plain; charset=utf-8" }, chunks };
    }
    if (path.startsWith("/nothing")) return { status: 204, chunks: [] };
    if (path.startsWith("/fails-first") && run === 1) return json(503, { run });
    const denies = /^\/denies-first-(401|403)/.exec(path);
    if (denies !== null && run === 1) return json(Number(denies[1]), { run });
    if (path.startsWith("/throws-first") && run === 1) throw new Error("thrown on purpose");
    if (path.startsWith("/refuses")) return json(422, { run });
    if (path.startsWith("/large")) {
      return { status: 200, headers: { "content-type": "text/plain" }, chunks: [Buffer.alloc(3000, "a"), Buffer.alloc(3000, "b")] };
    }
    if (path.startsWith("/waits")) await new Promise<void>((resolve) => this.#waiting.set(path, resolve));
    const headers = { location: `${path}/${run}`, etag: `"${run}"`, "set-cookie": ["session=secret", "b=2"], "x-other": "1" };
    return json(201, { run, asked: asked.body ?? null }, headers);
  };

  runsOf(path: string): number {
    return this.runs.get(path) ?? 0;
  }

  /** Waits until the handler of a path has begun; what is returned lets it go on. */
  async begun(path: string): Promise<() => void> {
    for (let tries = 0; ; tries += 1) {
      const goOn = this.#waiting.get(path);
      if (goOn !== undefined) return goOn;
      if (tries > 1000) throw new Error("the handler did not begin");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

interface Ask {
  readonly key?: string;
  readonly method?: string;
  readonly body?: BodyInit;
  readonly type?: string;
  readonly headers?: Record<string, string>;
}

async function ask(app: App, path: string, { key, method = "POST", body, type = "application/json", headers }: Ask = {}) {
  const init: RequestInit = { method, headers: { ...headers } };
  if (key !== undefined) (init.headers as Record<string, string>)["idempotency-key"] = key;
  if (body !== undefined) {
    init.body = body;
    (init.headers as Record<string, string>)["content-type"] = type;
  }
  const response = await fetch(app.url + path, init);
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, json: () => JSON.parse(bytes.toString()) as Record<string, any> };
}

const isReplay = (headers: Headers): boolean =>
  headers.get("x-idempotency-replay") === "true" && headers.get("idempotency-replayed") === "true";

onEachStore("a service with the middleware", (server) => {
  for (const [name, framework] of Object.entries(FRAMEWORKS)) {
    describe(`on ${name}`, { concurrency: 6 }, () => table(name, framework, server));
  }
});

function table(name: string, framework: Framework, server: () => Server): void {
  let service: Counting;
  let app: App;
  const quiet: IdempotencyOptions = { onError: () => undefined };
  before(async () => {
    service = new Counting();
    app = await framework(service.serve, { client: server().client(), maxResponseBytes: 4096, ...quiet });
  });
  after(async () => {
    await app.close();
  });

  test("a fresh key runs the handler, and the same request again gets its answer byte for byte", async () => {
    const path = `/pay-${randomUUID()}`;
    const send = { key: `"k-${randomUUID()}"`, body: '{ "amount": 1000, "note": "é" }' };
    const first = await ask(app, path, send);
    assert.equal(first.status, 201);
    assert.deepEqual(first.json(), { run: 1, asked: { amount: 1000, note: "é" } });
    assert.deepEqual(first.headers.getSetCookie(), ["session=secret", "b=2"]);
    assert.equal(isReplay(first.headers), false);

    const again = await ask(app, path, { ...send, body: '{"note":"\\u00e9","amount":1000.0}' });
    assert.equal(again.status, 201);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(isReplay(again.headers), true);
    for (const header of ["content-type", "location", "etag"]) {
      assert.equal(again.headers.get(header), first.headers.get(header), header);
    }
    assert.deepEqual(again.headers.getSetCookie(), []);
    assert.equal(again.headers.get("x-other"), null);
    assert.equal(service.runsOf(path), 1);
  });

  test("another body under the same key is a conflict that says how they differ", async () => {
    const path = `/pay-${randomUUID()}`;
    const key = randomUUID();
    await ask(app, path, { key, body: '{"amount":1000}' });
    const other = await ask(app, path, { key, body: '{"amount":9900}' });
    assert.equal(other.status, 409);
    assert.equal(other.headers.get("x-idempotency-conflict"), "body-mismatch");
    assert.equal(other.headers.get("retry-after"), null);
    const { error, trace_id } = other.json();
    assert.equal(error.code, "IDEMPOTENCY_CONFLICT");
    assert.equal(error.details.original_key, key);
    assert.deepEqual(error.details.diff_summary, ["amount: '1000' → '9900'"]);
    assert.match(trace_id, /^[0-9a-f]{32}$/);
    assert.equal(other.headers.get("x-trace-id"), trace_id);
    assert.equal(service.runsOf(path), 1);

    const problem = await ask(app, path, { key, body: '{"amount":1}', headers: { accept: "application/problem+json" } });
    assert.equal(problem.headers.get("content-type"), "application/problem+json");
    assert.equal(problem.json()["code"], "IDEMPOTENCY_CONFLICT");
    assert.equal(problem.json()["type"], "urn:hapax:error:IDEMPOTENCY_CONFLICT");
    const failure = { code: "IDEMPOTENCY_CONFLICT", message: problem.json()["detail"], type: "idempotency_error" };
    assert.deepEqual(problem.json()["error"], failure);
  });

  test("a request that is running elsewhere is told so, and its answer is there afterwards", async () => {
    const path = `/waits-${randomUUID()}`;
    const send = { key: randomUUID(), body: "{}" };
    const first = ask(app, path, send);
    const goOn = await service.begun(path);
    const second = await ask(app, path, send);
    assert.equal(second.status, 409);
    assert.equal(second.json()["error"].code, "IDEMPOTENCY_IN_PROGRESS");
    assert.equal(second.headers.get("retry-after"), "1");
    goOn();
    const done = await first;
    assert.equal(done.status, 201);
    const third = await ask(app, path, send);
    assert.deepEqual(third.bytes, done.bytes);
    assert.equal(isReplay(third.headers), true);
    assert.equal(service.runsOf(path), 1);
  });

  test("with waitMs a request waits for the answer of the one that runs", async () => {
    const patient = await framework(service.serve, { client: server().client(), waitMs: 10_000, ...quiet });
    try {
      const path = `/waits-${randomUUID()}`;
      const send = { key: randomUUID(), body: "{}" };
      const first = ask(patient, path, send);
      const goOn = await service.begun(path);
      const second = ask(patient, path, send);
      goOn();
      assert.deepEqual((await second).bytes, (await first).bytes);
      assert.equal(isReplay((await second).headers), true);
      assert.equal(service.runsOf(path), 1);
    } finally {
      await patient.close();
    }
  });

  test("bodies that are no text go both ways unharmed", async () => {
    const path = `/bytes-${randomUUID()}`;
    const bytes = Buffer.concat([Buffer.from([0xff, 0xfe, 0x00, 0x0d, 0x0a]), randomBytes(2048)]);
    const send = { key: randomUUID(), body: bytes as unknown as BodyInit, type: "application/octet-stream" };
    const first = await ask(app, path, send);
    assert.equal(first.status, 200);
    assert.deepEqual(first.bytes, Buffer.from(bytes).reverse());
    const again = await ask(app, path, send);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(again.headers.get("content-type"), "application/octet-stream");
    assert.equal(isReplay(again.headers), true);
    const other = await ask(app, path, { ...send, body: Buffer.from([1]) as unknown as BodyInit });
    assert.equal(other.status, 409);
    assert.equal(service.runsOf(path), 1);
  });

  test("an answer in several chunks, and one without a body, are replayed as they were", async () => {
    const path = `/streamed-${randomUUID()}`;
    const key = randomUUID();
    const first = await ask(app, path, { key, body: "{}" });
    assert.equal(first.bytes.toString(), "één two\n𝄞");
    const again = await ask(app, path, { key, body: "{}" });
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(isReplay(again.headers), true);
    assert.equal(service.runsOf(path), 1);

    const gone = `/nothing-${randomUUID()}`;
    for (const expected of [false, true]) {
      const answer = await ask(app, gone, { key, method: "DELETE" });
      assert.equal(answer.status, 204);
      assert.equal(answer.bytes.length, 0);
      assert.equal(isReplay(answer.headers), expected);
    }
    assert.equal(service.runsOf(gone), 1);
  });

  test("an answer that says try again, and an exception, give the key back", async () => {
    const credentials = [401, 403].map((status) => [`/denies-first-${status}-${randomUUID()}`, status] as const);
    const cases = [[`/fails-first-${randomUUID()}`, 503], [`/throws-first-${randomUUID()}`, 500], ...credentials] as const;
    for (const [path, status] of cases) {
      const send = { key: randomUUID(), body: "{}" };
      assert.equal((await ask(app, path, send)).status, status);
      const second = await ask(app, path, send);
      assert.equal(second.status, 201, path);
      assert.equal(isReplay(second.headers), false);
      assert.equal(isReplay((await ask(app, path, send)).headers), true);
      assert.equal(service.runsOf(path), 2);
    }
  });

  test("a refusal by the handler is its answer and is kept", async () => {
    const path = `/refuses-${randomUUID()}`;
    const send = { key: randomUUID(), body: "{}" };
    const first = await ask(app, path, send);
    const again = await ask(app, path, send);
    assert.equal(again.status, 422);
    assert.deepEqual(again.bytes, first.bytes);
    assert.equal(isReplay(again.headers), true);
  });

  test("an answer that is too large to keep goes out unharmed, and a retry is told that it happened", async () => {
    const path = `/large-${randomUUID()}`;
    const send = { key: randomUUID(), body: "{}" };
    const first = await ask(app, path, send);
    assert.equal(first.status, 200);
    assert.equal(first.bytes.toString(), "a".repeat(3000) + "b".repeat(3000));
    const again = await ask(app, path, send);
    assert.equal(again.status, 409);
    assert.equal(again.json()["error"].code, "IDEMPOTENCY_IN_DOUBT");
    assert.equal(again.json()["error"].details.reason, "response_not_stored");
    assert.equal(isReplay(again.headers), false);
    assert.equal(service.runsOf(path), 1);
  });

  test("requests without a key and methods that change nothing pass untouched", async () => {
    const path = `/pay-${randomUUID()}`;
    for (const run of [1, 2]) {
      const answer = await ask(app, path, { body: "{}" });
      assert.equal(answer.json()["run"], run);
    }
    assert.equal((await ask(app, path, { method: "GET", key: "k" })).json()["run"], 3);
    assert.equal((await ask(app, path, { method: "GET", key: "k" })).json()["run"], 4);
  });

  test("what is no key is refused, and a body over the limit too", async () => {
    const path = `/pay-${randomUUID()}`;
    const bad = await ask(app, path, { key: "two words", body: "{}" });
    assert.equal(bad.status, 400);
    assert.equal(bad.json()["error"].code, "idempotency_key_invalid");
    const large = { key: randomUUID(), body: Buffer.alloc(1024 * 1024 + 1) as unknown as BodyInit, type: "application/octet-stream" };
    const tooLarge = await ask(app, path, large);
    assert.equal(tooLarge.status, 413);
    assert.equal(tooLarge.json()["error"].code, "payload_too_large");
    assert.equal(service.runsOf(path), 0);
  });

  test("required refuses a request without a key, derive makes one of its body", async () => {
    const strict = await framework(service.serve, { client: server().client(), required: true, ...quiet });
    const deriving = await framework(service.serve, { client: server().client(), derive: true, ...quiet });
    try {
      const path = `/pay-${randomUUID()}`;
      const refused = await ask(strict, path, { body: "{}" });
      assert.equal(refused.status, 400);
      assert.equal(refused.json()["error"].code, "idempotency_key_required");
      assert.equal(service.runsOf(path), 0);
      await ask(deriving, path, { body: '{"a":1}' });
      assert.equal(isReplay((await ask(deriving, path, { body: '{"a":1.0}' })).headers), true);
      assert.equal(isReplay((await ask(deriving, path, { body: '{"a":2}' })).headers), false);
      assert.equal(service.runsOf(path), 2);
    } finally {
      await strict.close();
      await deriving.close();
    }
  });

  test("one principal's key is not another's", async () => {
    const principal: IdempotencyOptions["principal"] = (request) => request.header("authorization");
    const mine = await framework(service.serve, { client: server().client(), principal, ...quiet });
    try {
      const path = `/pay-${randomUUID()}`;
      const send = { key: "order-7", body: "{}" };
      const ann = await ask(mine, path, { ...send, headers: { authorization: "ann" } });
      const bob = await ask(mine, path, { ...send, headers: { authorization: "bob" } });
      assert.deepEqual([ann.json()["run"], bob.json()["run"]], [1, 2]);
      const again = await ask(mine, path, { ...send, key: '"order-7"', headers: { authorization: "ann" } });
      assert.equal(isReplay(again.headers), true);
      assert.equal(again.json()["run"], 1);
      const other = await ask(mine, path, { ...send, body: "[]", headers: { authorization: "bob" } });
      assert.equal(other.json()["error"].details.original_key, "order-7");
    } finally {
      await mine.close();
    }
  });

  test("two callers with equal bodies are two requests", async () => {
    const principal: IdempotencyOptions["principal"] = (request) => request.header("x-user");
    const mine = await framework(service.serve, { client: server().client(), derive: true, principal, ...quiet });
    try {
      const path = `/pay-${randomUUID()}`;
      const runOf = async (headers: Record<string, string>) => (await ask(mine, path, { body: "{}", headers })).json()["run"];
      const [ann, bob] = [{ "x-user": "ann" }, { "x-user": "bob", cookie: "theme=dark" }];
      assert.deepEqual([await runOf(ann), await runOf(bob), await runOf(ann), await runOf(bob)], [1, 2, 1, 2]);
      const [one, two] = [{ authorization: "one" }, { authorization: "two" }];
      assert.deepEqual([await runOf(one), await runOf(two), await runOf(one)], [3, 4, 3]);
      assert.deepEqual([await runOf({}), await runOf({})], [5, 5]);
      const refused = await ask(mine, path, { body: "{}", headers: { cookie: "sid=ann" } });
      assert.equal(refused.status, 400);
      assert.equal(refused.json()["error"].code, "principal_required");
      assert.equal(refused.json()["error"].details.setting, "principal");
      const keyed = await ask(mine, path, { key: randomUUID(), body: "{}", headers: { cookie: "sid=ann" } });
      assert.equal(keyed.status, 201);
    } finally {
      await mine.close();
    }
  });

  test("an expired key runs as new and says so", async () => {
    const brief = await framework(service.serve, { client: server().client(), ttlSeconds: 1, ...quiet });
    try {
      const path = `/pay-${randomUUID()}`;
      const send = { key: randomUUID(), body: "{}" };
      await ask(brief, path, send);
      await new Promise((resolve) => setTimeout(resolve, 1100));
      const again = await ask(brief, path, send);
      assert.equal(again.headers.get("x-idempotency-expired"), "true");
      assert.equal(again.json()["run"], 2);
    } finally {
      await brief.close();
    }
  });

  test("while hapax does not answer nothing runs, unless the service says that it may", async () => {
    const nobody = server().client({ baseUrl: "http://127.0.0.1:9", retry: { attempts: 1 } });
    const careful = await framework(service.serve, { client: nobody, ...quiet });
    const open = await framework(service.serve, { client: nobody, failOpen: true, ...quiet });
    try {
      const path = `/pay-${randomUUID()}`;
      const refused = await ask(careful, path, { key: "k", body: "{}" });
      assert.equal(refused.status, 503);
      assert.equal(refused.json()["error"].code, "store_unavailable");
      assert.equal(refused.headers.get("retry-after"), "1");
      assert.equal(service.runsOf(path), 0);
      assert.equal((await ask(open, path, { key: "k", body: "{}" })).status, 201);
    } finally {
      await careful.close();
      await open.close();
    }
  });

  test("a lease is renewed while its handler runs", async () => {
    const brief = await framework(service.serve, { client: server().client(), leaseSeconds: 1, ...quiet });
    try {
      const path = `/waits-${randomUUID()}`;
      const send = { key: randomUUID(), body: "{}" };
      const first = ask(brief, path, send);
      const goOn = await service.begun(path);
      await new Promise((resolve) => setTimeout(resolve, 1600));
      const second = await ask(brief, path, send);
      assert.equal(second.json()["error"]?.code, "IDEMPOTENCY_IN_PROGRESS");
      goOn();
      assert.equal((await first).status, 201);
      assert.equal(service.runsOf(path), 1);
    } finally {
      await brief.close();
    }
  });

  test("a caller that goes away does not stop the handler, and its retry gets the answer", async () => {
    const path = `/waits-${randomUUID()}`;
    const key = randomUUID();
    const { hostname, port } = new URL(app.url);
    const socket = connect(Number(port), hostname);
    socket.write(`POST ${path} HTTP/1.1\r\nHost: ${hostname}\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`);
    const goOn = await service.begun(path);
    socket.destroy();
    await new Promise((resolve) => setTimeout(resolve, 50));
    goOn();
    const send = { key, body: "{}" };
    let answer = await ask(app, path, send);
    for (let tries = 0; answer.status === 409 && tries < 100; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      answer = await ask(app, path, send);
    }
    assert.equal(answer.status, 201);
    assert.equal(isReplay(answer.headers), true);
    assert.equal(service.runsOf(path), 1);
  });

  describe("a process that dies inside its handler", () => {
    const die = async (path: string, send: Ask): Promise<void> => {
      const env = { ...process.env, HAPAX_URL: server().url, HAPAX_TOKEN: server().token };
      const child = spawn(process.execPath, [join(PACKAGE, "dist-test/dying-app.js"), name, "1"], {
        env,
        stdio: ["ignore", "pipe", "inherit"],
      });
      const ended = new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
      const lines = createInterface({ input: child.stdout });
      const url = await new Promise<string>((resolve) => lines.once("line", resolve));
      await assert.rejects(ask({ url, close: () => Promise.resolve() }, path, send));
      assert.equal(await ended, "SIGKILL");
    };

    test("leaves its key taken for the time of the lease, then the request runs again", async () => {
      const path = `/pay-${randomUUID()}`;
      const send = { key: randomUUID(), body: "{}" };
      await die(path, send);
      const patient = await framework(service.serve, { client: server().client(), waitMs: 10_000, ...quiet });
      try {
        const again = await ask(patient, path, send);
        assert.equal(again.status, 201);
        assert.equal(isReplay(again.headers), false);
        assert.equal(isReplay((await ask(patient, path, send)).headers), true);
        assert.equal(service.runsOf(path), 1);
      } finally {
        await patient.close();
      }
    });

    test("leaves its key in doubt where the service holds such keys", async () => {
      const path = `/pay-${randomUUID()}`;
      const send = { key: randomUUID(), body: "{}" };
      await die(path, send);
      const holding = await framework(service.serve, { client: server().client(), waitMs: 10_000, onLost: "hold", ...quiet });
      try {
        const again = await ask(holding, path, send);
        assert.equal(again.status, 409);
        assert.equal(again.json()["error"].code, "IDEMPOTENCY_IN_DOUBT");
        assert.equal(service.runsOf(path), 0);
      } finally {
        await holding.close();
      }
    });
  });
}
