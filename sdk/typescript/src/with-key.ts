// One request, sent as often as it takes, under one key. The other side must keep keys: hapax, or any API that does.

import { fingerprint, parseJson, toJson, type Json } from "./canonical/index.js";
import { HapaxError, isTransient, refusalOf, Unavailable } from "./errors.js";
import { backoffOf, clockwork, retryAfterMs, waitMs, type Backoff, type Clockwork, type RetryOptions } from "./retry.js";
import { uuidV7 } from "./uuid.js";

/** Where a key waits for its answer, under a name of yours such as `order-7`. */
export interface KeyStore {
  load(name: string): Promise<string | null> | string | null;
  save(name: string, key: string): Promise<void> | void;
  clear(name: string): Promise<void> | void;
}

/** What a 409 says of the two requests that met under one key. */
export interface Conflict {
  readonly differs?: readonly string[];
  readonly original_key?: string;
  readonly current_hash?: string | null;
  readonly original_hash?: string | null;
  readonly diff_summary?: readonly string[];
  readonly original_timestamp?: string;
  readonly retry_after?: number;
  readonly [name: string]: unknown;
}

/** What to do when the key stands for another request: give up, or send once more under a new key. */
export type OnConflict = "fail" | "retry_with_new_key" | ((conflict: Conflict) => OnConflictAnswer | Promise<OnConflictAnswer>);
export type OnConflictAnswer = "fail" | "retry_with_new_key" | { readonly key: string };

export interface WithKeyOptions extends Partial<Clockwork> {
  /** The key to send. Without it: from `derive`, else a new UUIDv7. */
  readonly key?: string;
  /** The payload whose fingerprint is the key. Two equal payloads are then one operation. */
  readonly derive?: unknown;
  /** Keeps the key before the first send, so that a process that died asks again under the same key. Needs `name`. */
  readonly store?: KeyStore;
  readonly name?: string;
  readonly retry?: RetryOptions;
  /** How long all tries may take together, in milliseconds (default 60 000). */
  readonly deadlineMs?: number;
  readonly onConflict?: OnConflict;
  /** Stops trying. What was sent may still take effect. */
  readonly signal?: AbortSignal;
}

/** What came of it. `error` is null for an answer below 400. */
export interface Result<T> {
  readonly data: T | null;
  readonly error: HapaxError | Unavailable | null;
  readonly status: number | null;
  readonly headers: Headers | null;
  /** The answer was recorded earlier. */
  readonly replayed: boolean;
  /** The 409's details, if the key stands for another request. */
  readonly conflict: Conflict | null;
  /** The key that was sent last. */
  readonly key: string;
  readonly attempts: number;
}

/** Sends once. `attempt` counts from 1; the signal ends with the deadline. */
export type Send = (key: string, attempt: number, signal: AbortSignal) => Promise<Response>;

/** Answers longer than this are not read. */
const BODY_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Sends until there is an answer to keep: tries again on network errors, 408, 425, 429, 5xx and
 * IDEMPOTENCY_IN_PROGRESS, and never on another refusal or on IDEMPOTENCY_IN_DOUBT.
 *
 * ```ts
 * const paid = await withIdempotencyKey<{ id: number }>(
 *   (key, _attempt, signal) => fetch(url, { method: "POST", headers: { "Idempotency-Key": key }, body, signal }),
 *   { store, name: "order-7" },
 * );
 * if (paid.conflict !== null) console.error("another request has this key", paid.conflict.diff_summary);
 * ```
 *
 * A key in the store is cleared when an answer came that settles the matter; after a conflict, doubt or silence it stays.
 *
 * @throws TypeError for a key that is none, and whatever the store throws: then nothing is sent.
 */
export async function withIdempotencyKey<T = Json>(send: Send, options: WithKeyOptions = {}): Promise<Result<T>> {
  const sending = new Sending<T>(send, options);
  return await sending.run();
}

/** `fetch` under a key: sets the header and sends again as {@link withIdempotencyKey} does. The body must be repeatable. */
export async function fetchWithKey<T = Json>(
  url: string | URL,
  init: Omit<RequestInit, "body" | "signal"> & { readonly body?: string | Uint8Array | null; readonly json?: unknown },
  options: WithKeyOptions & { readonly fetch?: typeof fetch } = {},
): Promise<Result<T>> {
  const { json, body, ...rest } = init;
  const doFetch = options.fetch ?? fetch;
  const text = json === undefined ? (body ?? null) : toJson(json);
  const send: Send = (key, _attempt, signal) => {
    const headers = new Headers(rest.headers);
    headers.set("Idempotency-Key", key);
    if (json !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    return doFetch(url, { method: "POST", ...rest, headers, body: text as BodyInit | null, signal });
  };
  return await withIdempotencyKey<T>(send, options);
}

class Sending<T> {
  readonly #send: Send;
  readonly #options: WithKeyOptions;
  readonly #clock: Clockwork;
  readonly #backoff: Backoff;
  readonly #endsAt: number;
  #attempts = 0;
  #hasNewKey = false;

  constructor(send: Send, options: WithKeyOptions) {
    if (options.store !== undefined && options.name === undefined) {
      throw new TypeError("a store needs a name to keep the key under; give name, such as the id of the order");
    }
    this.#send = send;
    this.#options = options;
    this.#clock = {
      now: options.now ?? clockwork.now,
      sleep: options.sleep ?? clockwork.sleep,
      random: options.random ?? clockwork.random,
    };
    this.#backoff = backoffOf(options.retry);
    this.#endsAt = this.#clock.now() + (options.deadlineMs ?? 60_000);
  }

  async run(): Promise<Result<T>> {
    let key = await this.#firstKey();
    for (;;) {
      const result = await this.#under(key);
      const next = result.conflict === null || this.#hasNewKey ? null : await this.#keyAfter(result.conflict);
      if (next === null) {
        if (isSettled(result)) await this.#options.store?.clear(this.#options.name!);
        return result;
      }
      this.#hasNewKey = true;
      key = next;
      await this.#keep(key);
    }
  }

  async #firstKey(): Promise<string> {
    const { store, name, key, derive } = this.#options;
    const kept = store === undefined ? null : await store.load(name!);
    if (kept !== null && (key === undefined || key === kept)) return checked(kept);
    const fresh = checked(key ?? (derive === undefined ? uuidV7(this.#clock.now()) : fingerprint(derive)));
    await this.#keep(fresh);
    return fresh;
  }

  async #keep(key: string): Promise<void> {
    await this.#options.store?.save(this.#options.name!, key);
  }

  async #keyAfter(conflict: Conflict): Promise<string | null> {
    const rule = this.#options.onConflict ?? "fail";
    const answer = typeof rule === "function" ? await rule(conflict) : rule;
    if (answer === "fail") return null;
    return answer === "retry_with_new_key" ? uuidV7(this.#clock.now()) : checked(answer.key);
  }

  /** Sends under one key until there is an answer, or no time or try is left. */
  async #under(key: string): Promise<Result<T>> {
    for (let tried = 1; ; tried += 1) {
      this.#attempts += 1;
      const result = await this.#once(key);
      if (result.error === null || !isAgain(result) || tried >= this.#backoff.attempts) return result;
      const asked = result.error instanceof HapaxError ? result.error.retryAfterMs : null;
      const wait = waitMs(this.#backoff, tried, asked, this.#clock.random());
      if (this.#clock.now() + wait >= this.#endsAt || this.#isStopped()) return result;
      await this.#clock.sleep(wait, this.#options.signal);
      if (this.#isStopped()) return result;
    }
  }

  #isStopped(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  async #once(key: string): Promise<Result<T>> {
    const left = this.#endsAt - this.#clock.now();
    const silence = (why: string, cause: unknown): Result<T> => ({
      ...this.#nothing(key),
      error: new Unavailable(why, cause),
    });
    const limit = new AbortController();
    const stop = (): void => limit.abort(this.#options.signal?.reason);
    const timer = setTimeout(() => limit.abort(new DOMException("the deadline is over", "TimeoutError")), Math.max(0, left));
    this.#options.signal?.addEventListener("abort", stop, { once: true });
    if (this.#isStopped()) stop();
    try {
      const response = await untilAborted(this.#send(key, this.#attempts, limit.signal), limit.signal);
      const body = await untilAborted(readBody(response), limit.signal);
      return this.#read(key, response, body);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      return silence(`no answer came: ${why}; ask again under the same key`, cause);
    } finally {
      clearTimeout(timer);
      this.#options.signal?.removeEventListener("abort", stop);
    }
  }

  #nothing(key: string): Result<T> {
    return {
      data: null,
      error: null,
      status: null,
      headers: null,
      replayed: false,
      conflict: null,
      key,
      attempts: this.#attempts,
    };
  }

  #read(key: string, response: Response, body: unknown): Result<T> {
    const { status, headers } = response;
    const replayed = ["idempotency-replayed", "x-idempotency-replay"].some((name) => headers.get(name)?.toLowerCase() === "true");
    const seen = { ...this.#nothing(key), status, headers, replayed };
    if (status < 400) return { ...seen, data: body as T };
    const error = refusalOf(status, body, headers, retryAfterMs(headers, this.#clock.now()));
    const isConflict = error.code === "IDEMPOTENCY_CONFLICT" || headers.has("x-idempotency-conflict");
    return { ...seen, error, conflict: isConflict ? error.details : null };
  }
}

/** Whether the same request may be answered otherwise later. What was recorded is answered the same each time. */
function isAgain(result: Result<unknown>): boolean {
  if (result.error instanceof Unavailable) return true;
  if (result.error === null || result.conflict !== null) return false;
  const isAnyServerError = result.error.status >= 500 && result.error.code !== "IDEMPOTENCY_IN_DOUBT";
  return !result.replayed && (isTransient(result.error.status, result.error.code) || isAnyServerError);
}

/** Whether the matter is settled, so that its key is not needed any more. */
function isSettled(result: Result<unknown>): boolean {
  if (result.error === null) return true;
  const isInDoubt = result.error instanceof HapaxError && result.error.code === "IDEMPOTENCY_IN_DOUBT";
  // A refused credential says nothing of the request: it may have run before, under this very key.
  const isRefusedCredential = [401, 403, 407].includes(result.status ?? 0) && !result.replayed;
  return result.conflict === null && !isInDoubt && !isRefusedCredential && !isAgain(result);
}

function checked(key: string): string {
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) throw new TypeError("not a key; use 1 to 255 visible ASCII characters");
  return key;
}

/** The body as JSON where it is JSON, else as text, or as bytes where it is no text. */
async function readBody(response: Response): Promise<unknown> {
  const announced = Number(response.headers.get("content-length") ?? 0);
  if (announced > BODY_BYTES_MAX) throw new Error(`the answer has more than ${BODY_BYTES_MAX} bytes`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length === 0) return null;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return bytes;
  }
  if (!/json/i.test(response.headers.get("content-type") ?? "")) return text;
  try {
    return /[0-9]{16}/.test(text) ? parseJson(text) : JSON.parse(text);
  } catch {
    return text;
  }
}

/** The promise, or the abort, whichever is first: a sender may not know about signals. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
