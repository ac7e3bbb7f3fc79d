// One call to a hapax server: sent, repeated where that is safe, and read. It knows no routes.

import { parseJson, toJson } from "../canonical/index.js";
import { HapaxError, refusalOf, Unavailable } from "../errors.js";
import { backoffOf, clockwork, retryAfterMs, waitMs, type Backoff, type Clockwork, type RetryOptions } from "../retry.js";

export interface HapaxOptions extends Partial<Clockwork> {
  /** Where the server is; default: HAPAX_URL, else http://127.0.0.1:8088. */
  readonly baseUrl?: string;
  /** Default: HAPAX_TOKEN. Empty for a server that takes none, or where `fetch` adds one. */
  readonly token?: string;
  /** How long one try may take (default 30 000). */
  readonly timeoutMs?: number;
  readonly retry?: RetryOptions;
  readonly fetch?: typeof fetch;
}

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it stands, as JSON. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the call can be sent twice without harm. If not, only a 429 is repeated: it did nothing. */
  readonly repeatable: boolean;
  /** Whether an answer with a status from 400 on is what was asked for, and no refusal. */
  readonly isAnswer?: (status: number, body: unknown) => boolean;
  readonly signal?: AbortSignal;
}

/** An answer as it came. */
export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: unknown;
}

/** An answer's envelope is deeper than the payload in it. */
const REPLY_DEPTH_MAX = 160;
const NO_TOKEN =
  "HAPAX_TOKEN is not set; set it to a token of the server (`hapax token create` makes one), or give token in the options; " +
  'for a server that runs with --insecure-no-auth give token: ""';
const RETRIED: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export class Transport {
  readonly baseUrl: string;
  readonly clock: Clockwork;
  readonly #token: string | undefined;
  readonly #timeoutMs: number;
  readonly #backoff: Backoff;
  readonly #fetch: typeof fetch;

  constructor(options: HapaxOptions) {
    this.baseUrl = (options.baseUrl ?? variable("HAPAX_URL") ?? "http://127.0.0.1:8088").replace(/\/+$/, "");
    this.#token = options.token ?? (variable("HAPAX_TOKEN") || undefined);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#backoff = backoffOf({ attempts: 4, baseMs: 100, capMs: 5_000, ...options.retry });
    this.#fetch = options.fetch ?? fetch.bind(globalThis);
    this.clock = {
      now: options.now ?? clockwork.now,
      sleep: options.sleep ?? clockwork.sleep,
      random: options.random ?? clockwork.random,
    };
  }

  /** Throws unless there is a token, or an empty one was given on purpose. Sends nothing. */
  checkToken(): void {
    if (this.#token === undefined) throw new HapaxError({ status: 401, code: "unauthorized", message: NO_TOKEN });
  }

  /** The answer's JSON. */
  async json<T>(call: Call): Promise<T> {
    return (await this.send(call)).body as T;
  }

  /**
   * The answer.
   *
   * @throws HapaxError when the server refused, Unavailable when no answer came.
   */
  async send(call: Call): Promise<Reply> {
    const text = call.text ?? (call.body === undefined ? undefined : toJson(call.body));
    for (let tried = 1; ; tried += 1) {
      const failure = await this.#once(call, text).catch((error: unknown) => error);
      if (!(failure instanceof Error)) return failure as Reply;
      if (!mayRepeat(call, failure) || tried >= this.#backoff.attempts || call.signal?.aborted === true) throw failure;
      const asked = failure instanceof HapaxError ? failure.retryAfterMs : null;
      await this.clock.sleep(waitMs(this.#backoff, tried, asked, this.clock.random()), call.signal);
    }
  }

  async #once(call: Call, body: string | undefined): Promise<Reply> {
    const headers = new Headers(call.headers);
    if (this.#token) headers.set("authorization", `Bearer ${this.#token}`);
    if (body !== undefined) headers.set("content-type", "application/json");
    const limit = AbortSignal.timeout(this.#timeoutMs);
    const signal = call.signal === undefined ? limit : either(call.signal, limit);
    let response: Response;
    let text: string;
    try {
      const init: RequestInit = { method: call.method, headers, signal, redirect: "error" };
      if (body !== undefined) init.body = body;
      response = await this.#fetch(this.baseUrl + call.path + queryOf(call.query), init);
      text = await response.text();
    } catch (cause) {
      const why = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : String(cause);
      throw new Unavailable(`${call.method} ${call.path}: no answer from ${this.baseUrl}: ${why}`, cause);
    }
    const parsed = parse(text, response.headers);
    if (response.status === 401) this.checkToken();
    if (response.status >= 400 && call.isAnswer?.(response.status, parsed) !== true) {
      throw refusalOf(response.status, parsed, response.headers, retryAfterMs(response.headers, this.clock.now()));
    }
    return { status: response.status, headers: response.headers, text, body: parsed };
  }
}

function mayRepeat(call: Call, failure: Error): boolean {
  if (failure instanceof HapaxError) {
    if (failure.code === "llm_not_configured") return false;
    return failure.status === 429 || (call.repeatable && RETRIED.has(failure.status));
  }
  return call.repeatable && failure instanceof Unavailable;
}

function parse(text: string, headers: Headers): unknown {
  if (text === "") return null;
  if (!/json/i.test(headers.get("content-type") ?? "")) return text;
  // Only a long run of digits can be an integer that no double equals.
  return /[0-9]{16}/.test(text) ? parseJson(text, REPLY_DEPTH_MAX) : (JSON.parse(text) as unknown);
}

function queryOf(query: Call["query"]): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text === "" ? "" : `?${text}`;
}

/** A part of a path. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

function variable(name: string): string | undefined {
  const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env;
  return env?.[name];
}

/** `AbortSignal.any`, which Node 20.0 to 20.2 and older browsers lack. */
function either(first: AbortSignal, second: AbortSignal): AbortSignal {
  if (typeof AbortSignal.any === "function") return AbortSignal.any([first, second]);
  const both = new AbortController();
  for (const signal of [first, second]) {
    if (signal.aborted) both.abort(signal.reason);
    signal.addEventListener("abort", () => both.abort(signal.reason), { once: true });
  }
  return both.signal;
}

/** A page of a list. */
export interface Page<T> {
  readonly items: T[];
  readonly next_cursor: string | null;
}

/** All items of a list, page by page. Iterate it, or take pages one by one. */
export class Listing<T> implements AsyncIterable<T> {
  readonly #page: (cursor: string | undefined) => Promise<Page<T>>;

  constructor(page: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#page = page;
  }

  /** The page at a cursor; the first one without. */
  page(cursor?: string): Promise<Page<T>> {
    return this.#page(cursor);
  }

  /** Every item, or the first `limit` of them. */
  async all(limit = Number.POSITIVE_INFINITY): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) {
      if (items.length >= limit) break;
      items.push(item);
    }
    return items;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.#page(cursor);
      yield* page.items;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
}

/** The list at a path. */
export function listing<T>(transport: Transport, path: string, query: NonNullable<Call["query"]> = {}): Listing<T> {
  return new Listing<T>((cursor) =>
    transport.json<Page<T>>({ method: "GET", path, query: { ...query, cursor }, repeatable: true }),
  );
}
