// Answers of hapax that get lost on the wire, while something runs longer than a third of its lease.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { idempotent as idempotentFunction, type Hapax } from "hapax";
import { idempotent } from "hapax/fetch";

import { onEachStore, type Server } from "./server.js";

const LEASE_SECONDS = 1;
/** A third of the lease is over, so at least one renewal was answered before the end. */
const RUN_MS = 600;
const BYTES_MAX = 1000;

/** What went over the wire, and which answers never arrive: the first complete's, and renewals' if told so. */
class Wire {
  readonly seen: Array<{ readonly verb: string; readonly status: number }> = [];
  readonly #losesRenewals: boolean;

  constructor(losesRenewals: boolean) {
    this.#losesRenewals = losesRenewals;
  }

  client(server: Server): Hapax {
    return server.client({ fetch: this.#fetch, retry: { attempts: 3, baseMs: 5, capMs: 10 } });
  }

  readonly #fetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    const verb = new URL(response.url).pathname.split("/").at(-1)!;
    this.seen.push({ verb, status: response.status });
    const isFirstComplete = verb === "complete" && this.statuses("complete").length === 1;
    if (!isFirstComplete && !(verb === "renew" && this.#losesRenewals)) return response;
    await response.arrayBuffer();
    throw new TypeError("the answer got lost");
  };

  statuses(verb: string): number[] {
    return this.seen.filter((one) => one.verb === verb).map((one) => one.status);
  }

  /**
   * With the token of the last renewal the second complete is known as the first. Without it the second is refused, and
   * a claim finds what is recorded.
   */
  check(): void {
    assert.ok(this.statuses("renew").length >= 1);
    assert.deepEqual(this.statuses("complete"), this.#losesRenewals ? [200, 409] : [200, 200]);
    assert.equal(this.statuses("claim").length, this.#losesRenewals ? 2 : 1);
  }
}

onEachStore("answers that get lost", (server) => {
  for (const losesRenewals of [false, true]) {
    const lost = losesRenewals ? "those of the complete and of renewals" : "that of the complete";

    for (const size of [10, 2 * BYTES_MAX]) {
      test(`a handler runs once and ${size > BYTES_MAX ? "that it did" : "its answer"} is recorded: lost is ${lost}`, async () => {
        const wire = new Wire(losesRenewals);
        let runs = 0;
        const handler = idempotent(
          async () => {
            runs += 1;
            await sleep(RUN_MS);
            return new Response("x".repeat(size), { status: 201 });
          },
          { client: wire.client(server()), leaseSeconds: LEASE_SECONDS, maxResponseBytes: BYTES_MAX, onError: () => undefined },
        );
        const path = `http://shop.example/pay-${randomUUID()}`;
        const ask = (): Promise<Response> => handler(new Request(path, { method: "POST", headers: { "idempotency-key": "k" } }));
        const first = await ask();
        assert.deepEqual([first.status, (await first.text()).length], [201, size]);
        wire.check();
        const again = await ask();
        if (size > BYTES_MAX) {
          assert.equal(again.status, 409);
          const { error } = (await again.json()) as { error: { code: string; details: { reason: string } } };
          assert.deepEqual([error.code, error.details.reason], ["IDEMPOTENCY_IN_DOUBT", "response_not_stored"]);
        } else {
          assert.deepEqual([again.status, again.headers.get("idempotency-replayed")], [201, "true"]);
        }
        assert.equal(runs, 1);
      });
    }

    test(`a function runs once: lost is ${lost}`, async () => {
      const wire = new Wire(losesRenewals);
      let runs = 0;
      const options = { name: `pay-${randomUUID()}`, leaseSeconds: LEASE_SECONDS, onError: () => undefined };
      const pay = idempotentFunction(wire.client(server()), options, async (order: string) => {
        runs += 1;
        await sleep(RUN_MS);
        return { order };
      });
      assert.deepEqual(await pay("o-1"), { order: "o-1" });
      wire.check();
      assert.deepEqual(await pay("o-1"), { order: "o-1" });
      assert.equal(runs, 1);
    });
  }

  test("a key is given back under the token of its last renewal", async () => {
    const client = server().client();
    const request = { method: "POST", path: `/pay-${randomUUID()}`, key: "k" };
    const claim = await client.keys.claim(request);
    assert.ok(claim.action === "process");
    const { token } = await client.keys.renew(claim.id, claim.token);
    assert.notEqual(token, claim.token);
    assert.equal((await client.keys.release(claim.id, token)).state, "released");
    assert.equal((await client.keys.claim(request)).action, "process");
  });
});
