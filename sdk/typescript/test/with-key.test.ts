// Sending under a key: which answers are final, how long is waited, and what is stored when. No test waits for real.

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";

import { fetchWithKey, fingerprint, HapaxError, Unavailable, uuidV7, WebStorageKeys, withIdempotencyKey, type Send, type WithKeyOptions } from "hapax";
import { FileKeys } from "hapax/node";

/** Time that passes only by waiting. */
class Time {
  at = Date.parse("2026-01-01T00:00:00Z");
  readonly waits: number[] = [];
  readonly options: Pick<WithKeyOptions, "now" | "sleep" | "random"> = {
    now: () => this.at,
    sleep: (ms) => {
      this.waits.push(ms);
      this.at += ms;
      return Promise.resolve();
    },
    random: () => 0.5,
  };
}

const refused = (status: number, code: string, headers: Record<string, string> = {}, details: unknown = {}): Response =>
  Response.json({ error: { code, message: "m", details }, trace_id: "t" }, { status, headers });

/** Answers one after the other, and notes the keys. */
function answering(...answers: Array<Response | Error>): { send: Send; keys: string[] } {
  const keys: string[] = [];
  const send: Send = (key, attempt) => {
    assert.equal(attempt, keys.length + 1);
    keys.push(key);
    const answer = answers[keys.length - 1];
    if (answer === undefined) return Promise.reject(new Error("asked too often"));
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { send, keys };
}

describe("withIdempotencyKey", () => {
  test("sends again under the same key until there is an answer to keep", async () => {
    const time = new Time();
    const { send, keys } = answering(
      new TypeError("fetch failed"),
      refused(503, "store_unavailable"),
      refused(429, "rate_limited"),
      refused(409, "IDEMPOTENCY_IN_PROGRESS"),
      Response.json({ id: 7, big: 1 }, { status: 201, headers: { "idempotency-replayed": "true" } }),
    );
    const result = await withIdempotencyKey<{ id: number }>(send, time.options);
    assert.equal(result.data?.id, 7);
    assert.deepEqual([result.status, result.replayed, result.error, result.conflict, result.attempts], [201, true, null, null, 5]);
    assert.equal(new Set(keys).size, 1);
    assert.equal(result.key, keys[0]);
    assert.match(keys[0]!, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(time.waits, [100, 200, 400, 800]);
  });

  test("never sends again after a refusal that stays, and never in doubt", async () => {
    for (const [status, code] of [[400, "bad_json"], [404, "not_found"], [409, "lease_lost"], [409, "IDEMPOTENCY_IN_DOUBT"], [422, "no"]] as const) {
      const { send, keys } = answering(refused(status, code));
      const result = await withIdempotencyKey(send, new Time().options);
      assert.ok(result.error instanceof HapaxError);
      assert.deepEqual([result.error.code, result.error.status, result.error.traceId, keys.length], [code, status, "t", 1]);
      assert.equal(result.data, null);
    }
  });

  test("waits as long as Retry-After asks, in seconds or until a date, and a random part longer", async () => {
    const time = new Time();
    const date = new Date(time.at).toUTCString();
    const later = new Date(time.at + 7000).toUTCString();
    const { send } = answering(
      refused(503, "store_unavailable", { "retry-after": "3" }),
      refused(503, "store_unavailable", { "retry-after": later, date }),
      refused(503, "store_unavailable", { "retry-after": "soon" }),
      Response.json(1),
    );
    await withIdempotencyKey(send, time.options);
    assert.deepEqual(time.waits, [3100, 7100, 400]);
  });

  test("does not wait beyond the deadline, and says what it knows then", async () => {
    const time = new Time();
    const { send, keys } = answering(refused(503, "store_unavailable", { "retry-after": "120" }), Response.json(1));
    const result = await withIdempotencyKey(send, { ...time.options, deadlineMs: 60_000 });
    assert.deepEqual([result.status, keys.length, time.waits.length], [503, 1, 0]);
  });

  test("a sender that never answers is given up at the deadline", async () => {
    const result = await withIdempotencyKey(() => new Promise(() => undefined), { deadlineMs: 30, retry: { attempts: 1 } });
    assert.ok(result.error instanceof Unavailable);
    assert.equal(result.status, null);
  });

  test("a caller can stop it", async () => {
    const stop = new AbortController();
    const { send, keys } = answering(new Error("no network"), Response.json(1));
    const sleep = (): Promise<void> => Promise.resolve(stop.abort());
    const result = await withIdempotencyKey(send, { ...new Time().options, sleep, signal: stop.signal });
    assert.ok(result.error instanceof Unavailable);
    assert.equal(keys.length, 1);
  });

  test("tries no more than it was told", async () => {
    const { send, keys } = answering(new Error("1"), new Error("2"), new Error("3"));
    const result = await withIdempotencyKey(send, { ...new Time().options, retry: { attempts: 2 } });
    assert.ok(result.error instanceof Unavailable);
    assert.equal(keys.length, 2);
  });

  test("takes the key that is given, or makes it of the payload", async () => {
    const given = answering(Response.json(1));
    await withIdempotencyKey(given.send, { key: "order-7" });
    assert.deepEqual(given.keys, ["order-7"]);
    const derived = answering(Response.json(1));
    await withIdempotencyKey(derived.send, { derive: { b: 1, a: 2 } });
    assert.deepEqual(derived.keys, [fingerprint({ a: 2, b: 1 })]);
    await assert.rejects(withIdempotencyKey(given.send, { key: "two words" }), /1 to 255/);
  });

  test("a refusal in any form is read", async () => {
    const problem = Response.json({ type: "x", title: "Gone", status: 410, detail: "why", code: "erased" }, { status: 410 });
    const { error } = await withIdempotencyKey(answering(problem).send);
    assert.deepEqual([(error as HapaxError).code, error?.message], ["erased", "why"]);
    const page = await withIdempotencyKey(answering(new Response("<h1>no</h1>", { status: 404 })).send);
    assert.equal((page.error as HapaxError).code, "http_404");
  });

  test("an integer that no double equals arrives whole", async () => {
    const body = new Response('{"id":9007199254740993}', { headers: { "content-type": "application/json" } });
    const { data } = await withIdempotencyKey<{ id: bigint }>(answering(body).send);
    assert.equal(data?.id, 9007199254740993n);
  });
});

describe("a conflict", () => {
  const conflict = (): Response => refused(409, "IDEMPOTENCY_CONFLICT", {}, { diff_summary: ["a: '1' → '2'"] });

  test("fails with its details unless told otherwise", async () => {
    const { send, keys } = answering(conflict());
    const result = await withIdempotencyKey(send, { key: "k" });
    assert.deepEqual(result.conflict?.diff_summary, ["a: '1' → '2'"]);
    assert.equal(keys.length, 1);
  });

  test("is sent once more under a new key where that is wanted, and not twice", async () => {
    const { send, keys } = answering(conflict(), conflict());
    const result = await withIdempotencyKey(send, { key: "k", onConflict: "retry_with_new_key" });
    assert.equal(keys.length, 2);
    assert.notEqual(keys[1], "k");
    assert.ok(result.conflict);
    const good = answering(conflict(), Response.json({ ok: true }));
    assert.equal((await withIdempotencyKey(good.send, { key: "k", onConflict: "retry_with_new_key" })).conflict, null);
  });

  test("can be judged by the caller", async () => {
    const { send, keys } = answering(conflict(), Response.json(1));
    await withIdempotencyKey(send, { key: "k", onConflict: (seen) => (seen.diff_summary?.length === 1 ? { key: "k2" } : "fail") });
    assert.deepEqual(keys, ["k", "k2"]);
  });
});

describe("a stored key", () => {
  const inFolder = async (body: (folder: string) => Promise<void>): Promise<void> => {
    const folder = await mkdtemp(join(tmpdir(), "hapax-keys-"));
    try {
      await body(join(folder, "keys"));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };

  test("is on disk before the first send, is sent again by the next process, and goes when the matter is settled", async () => {
    await inFolder(async (folder) => {
      const store = new FileKeys(folder);
      const name = "order/7 é";
      let sent = "";
      const dies: Send = async (key) => {
        assert.equal(await new FileKeys(folder).load(name), key);
        sent = key;
        throw new Error("the network is gone");
      };
      await withIdempotencyKey(dies, { ...new Time().options, store, name, retry: { attempts: 1 } });
      const { send, keys } = answering(Response.json(1));
      await withIdempotencyKey(send, { store: new FileKeys(folder), name });
      assert.deepEqual(keys, [sent]);
      assert.equal(await store.load(name), null);
      assert.deepEqual(await readdir(folder), []);
    });
  });

  test("stays in doubt, after a conflict and while the credential is refused, and goes with a refusal that settles the matter", async () => {
    await inFolder(async (folder) => {
      const store = new FileKeys(folder);
      for (const [code, status, stays] of [["IDEMPOTENCY_IN_DOUBT", 409, true], ["IDEMPOTENCY_CONFLICT", 409, true], ["unauthorized", 401, true], ["forbidden", 403, true], ["bad_json", 400, false]] as const) {
        const { send, keys } = answering(refused(status, code));
        await withIdempotencyKey(send, { store, name: code });
        assert.equal(await store.load(code), stays ? keys[0] : null, code);
      }
    });
  });

  test("that cannot be saved is not sent", async () => {
    const { send, keys } = answering(Response.json(1));
    const full = { load: () => null, clear: () => undefined, save: () => { throw new Error("the disk is full"); } };
    await assert.rejects(withIdempotencyKey(send, { store: full, name: "n" }), /disk is full/);
    assert.equal(keys.length, 0);
    await assert.rejects(withIdempotencyKey(send, { store: full }), /name/);
  });

  test("can live in web storage", async () => {
    const items = new Map<string, string>();
    const storage = {
      getItem: (name: string) => items.get(name) ?? null,
      setItem: (name: string, value: string) => void items.set(name, value),
      removeItem: (name: string) => void items.delete(name),
    };
    const store = new WebStorageKeys(storage);
    const lost = answering(new Error("gone"));
    await withIdempotencyKey(lost.send, { store, name: "cart", retry: { attempts: 1 } });
    assert.equal(items.get("hapax:cart"), lost.keys[0]);
    const again = answering(Response.json(1));
    await withIdempotencyKey(again.send, { store, name: "cart" });
    assert.deepEqual(again.keys, lost.keys);
    assert.equal(items.size, 0);
  });
});

test("fetchWithKey sends JSON and the header", async () => {
  const seen: Array<[string, unknown, unknown]> = [];
  const fake = (async (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    seen.push([url, headers.get("idempotency-key"), [headers.get("content-type"), init.method, init.body]]);
    return Response.json({ ok: true });
  }) as unknown as typeof fetch;
  const { data } = await fetchWithKey<{ ok: boolean }>("http://x/pay", { json: { n: 10n } }, { key: "k", fetch: fake });
  assert.equal(data?.ok, true);
  assert.deepEqual(seen, [["http://x/pay", "k", ["application/json", "POST", '{"n":10}']]]);
});

test("UUIDv7 carries its time and sorts by it", () => {
  assert.match(uuidV7(Date.parse("2026-01-01T00:00:00Z")), /^019b76da-a800-7/);
  assert.ok(uuidV7(1_000) < uuidV7(2_000));
});
