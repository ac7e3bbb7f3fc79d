// Handlers of the web platform, and a hapax that goes silent in the middle.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { idempotent, type IdempotencyOptions } from "hapax/fetch";

import { onEachStore, type Server } from "./server.js";

const request = (path: string, key: string, init: RequestInit = {}): Request =>
  new Request(`http://shop.example${path}`, { method: "POST", body: "{}", ...init, headers: { "idempotency-key": key, "content-type": "application/json" } });

const replayed = (response: Response): boolean => response.headers.get("idempotency-replayed") === "true";

onEachStore("a fetch handler", (server: () => Server) => {
  /** A client whose calls to `tail` are spoilt by `spoil`. */
  const spoilt = (tail: string, spoil: (call: () => Promise<Response>) => Promise<Response>) => {
    const wrapped = (async (url: string, init: RequestInit) => {
      const call = (): Promise<Response> => fetch(url, init);
      return url.endsWith(tail) ? await spoil(call) : await call();
    }) as unknown as typeof fetch;
    return server().client({ fetch: wrapped, retry: { attempts: 2, baseMs: 1 } });
  };
  const counting = (options: IdempotencyOptions) => {
    const seen = { runs: 0 };
    const handler = idempotent(
      async (asked, suffix: string) => Response.json({ run: (seen.runs += 1), asked: await asked.json(), suffix }),
      { onError: () => undefined, ...options },
    );
    return { handler, seen };
  };

  test("a record whose confirmation got lost is made once, and the caller gets its answer", async () => {
    let isLost = false;
    const client = spoilt("/complete", async (call) => {
      const response = await call();
      if (isLost) return response;
      isLost = true;
      throw new TypeError("the answer got lost");
    });
    const { handler, seen } = counting({ client });
    const [path, key] = [`/pay-${randomUUID()}`, randomUUID()];
    const first = await handler(request(path, key), "s");
    assert.deepEqual(await first.json(), { run: 1, asked: {}, suffix: "s" });
    assert.equal(isLost, true);
    assert.ok(replayed(await handler(request(path, key), "s")));
    assert.equal(seen.runs, 1);
  });

  test("an answer that cannot be recorded is not given, unless the service fails open", async () => {
    for (const failOpen of [false, true]) {
      const client = spoilt("/complete", () => Promise.reject(new TypeError("gone")));
      const { handler, seen } = counting({ client, failOpen, leaseSeconds: 1 });
      const [path, key] = [`/pay-${randomUUID()}`, randomUUID()];
      const answer = await handler(request(path, key), "s");
      assert.equal(answer.status, failOpen ? 200 : 503);
      if (failOpen) continue;
      const { error } = (await answer.json()) as { error: { code: string; details: { reason: string } } };
      assert.deepEqual([error.code, error.details.reason], ["store_unavailable", "outcome_unknown"]);
      const again = await handler(request(path, key), "s");
      assert.equal(((await again.json()) as { error: { code: string } }).error.code, "IDEMPOTENCY_IN_PROGRESS");
      assert.equal(seen.runs, 1);
    }
  });

  test("a key that could not be given back is free when its lease is over", async () => {
    const client = spoilt("/release", () => Promise.reject(new TypeError("gone")));
    const told: string[] = [];
    let runs = 0;
    const handler = idempotent(() => new Response(null, { status: (runs += 1) === 1 ? 500 : 204 }), {
      client,
      leaseSeconds: 1,
      waitMs: 5000,
      onError: (_error, doing) => told.push(doing),
    });
    const [path, key] = [`/pay-${randomUUID()}`, randomUUID()];
    assert.equal((await handler(request(path, key))).status, 500);
    assert.equal(told.length, 1);
    assert.equal((await handler(request(path, key))).status, 204);
    assert.equal(runs, 2);
  });

  test("the caller's signal does not reach the handler", async () => {
    const stop = new AbortController();
    const handler = idempotent(
      async (asked) => {
        stop.abort();
        await new Promise((resolve) => setTimeout(resolve, 20));
        return Response.json({ aborted: asked.signal.aborted });
      },
      { client: server().client() },
    );
    const answer = await handler(request(`/pay-${randomUUID()}`, randomUUID(), { signal: stop.signal }));
    assert.deepEqual(await answer.json(), { aborted: false });
  });

  test("a wrong token is this service's fault, not its caller's", async () => {
    const told: unknown[] = [];
    const handler = idempotent(() => new Response(), { client: server().client({ token: "wrong" }), onError: (error) => told.push(error) });
    const answer = await handler(request("/pay", randomUUID()));
    assert.equal(answer.status, 503);
    assert.match(String(told[0]), /HapaxError/);
    assert.doesNotMatch(await answer.text(), /unauthorized/);
  });

  test("settled by hand, a key answers what the operator said, as it was said", async () => {
    const client = server().client();
    const { handler } = counting({ client, ttlSeconds: 60 });
    const [path, key] = [`/pay-${randomUUID()}`, randomUUID()];
    const claim = await client.keys.claim({ key, method: "POST", path, body: {} });
    assert.equal(claim.action, "process");
    if (claim.action !== "process") return;
    await client.keys.complete(claim.id, { token: claim.token, status: 200, body: { big: 12345678901234567890n } });
    const answer = await handler(request(path, key), "s");
    assert.equal(await answer.text(), '{"big":12345678901234567890}');
  });
});
