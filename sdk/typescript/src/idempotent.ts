// A function that is run once per key, for code that no web framework calls.

import type { Hapax } from "./client.js";
import { parseJson, toJson } from "./canonical/index.js";
import { refusalOf } from "./errors.js";
import { Gate } from "./gate/gate.js";
import { setupOf, type IdempotencyOptions } from "./gate/options.js";

/**
 * The function, run once per key while its record lasts: a second call with the same arguments gets the recorded result,
 * another call with the same key is refused. The result must be JSON. An error gives the key back and is thrown.
 *
 * ```ts
 * const pay = idempotent(hapax, { name: "pay", key: (order) => order.id }, async (order: Order) => charge(order));
 * ```
 *
 * @throws HapaxError IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_IN_DOUBT; store_unavailable
 */
export function idempotent<Args extends unknown[], T>(
  client: Hapax,
  options: Omit<IdempotencyOptions, "client" | "required" | "derive" | "only" | "principal"> & {
    /** What is done; keys of other names do not meet. */
    readonly name: string;
    /** Left out, the arguments are the key. */
    readonly key?: (...args: Args) => string;
  },
  fn: (...args: Args) => T | Promise<T>,
): (...args: Args) => Promise<T> {
  const gate = new Gate(setupOf({ ...options, client, derive: true }));
  const path = `/functions/${encodeURIComponent(options.name)}`;
  return async (...args) => {
    const key = options.key?.(...args);
    const headers: Readonly<Record<string, string | undefined>> = { "idempotency-key": key, "content-type": "application/json" };
    const incoming = { method: "POST", path, header: (name: string) => headers[name] };
    const verdict = await gate.admit(incoming, new TextEncoder().encode(toJson(args)));
    if (verdict.kind === "answer") {
      const { status, body } = verdict.answer;
      const value = parseJson(body, 160);
      if (status >= 400) throw refusalOf(status, value, new Headers(), null);
      return value as T;
    }
    if (verdict.kind === "pass") return await fn(...args);
    let text: string;
    try {
      text = toJson((await fn(...args)) ?? null);
    } catch (error) {
      await verdict.run.abandon();
      throw error;
    }
    const body = new TextEncoder().encode(text);
    const instead = await verdict.run.settle({ status: 200, headers: [["content-type", "application/json"]], body });
    const value = parseJson(instead?.body ?? body, 160);
    if (instead !== null && instead.status >= 400) throw refusalOf(instead.status, value, new Headers(), null);
    return value as T;
  };
}
