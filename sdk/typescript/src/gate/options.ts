// How a service is made safe to ask twice. The same options for every framework.

import { Hapax } from "../client.js";

/** A request as far as its key is concerned. */
export interface Incoming {
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  header(name: string): string | undefined;
}

export interface IdempotencyOptions {
  /** Default: a client by HAPAX_URL and HAPAX_TOKEN. */
  readonly client?: Hapax;
  /** Refuse a request without a key (default false: it passes untouched). */
  readonly required?: boolean | ((request: Incoming) => boolean);
  /** Derive the key of a request without one from its path and body (default false). */
  readonly derive?: boolean | ((request: Incoming) => boolean);
  /** Which requests are looked at (default: all POST, PUT, PATCH and DELETE). */
  readonly only?: (request: Incoming) => boolean;
  /** How long the answer is kept; default: the server's route table. */
  readonly ttlSeconds?: number;
  /** How long a handler's lease lasts; it is renewed while the handler runs (default 60). */
  readonly leaseSeconds?: number;
  /** How long to wait for the answer of a request that is running elsewhere (default 0). */
  readonly waitMs?: number;
  /**
   * What to do when the runner of the first request died: run again, or answer 409 IDEMPOTENCY_IN_DOUBT (default retry).
   * A hold is only as good as this process: `on_lost = "hold"` in the server's route table is the safer place.
   */
  readonly onLost?: "retry" | "hold";
  /** The status of a body mismatch: 409, or 422 as the IETF draft has it. */
  readonly mismatchStatus?: 409 | 422;
  /** The longest body of a request with a key (default 1 MiB, which is also what the server takes unless told otherwise). */
  readonly maxBodyBytes?: number;
  /** Answers over this go out unharmed and are not kept (default 700 000). */
  readonly maxResponseBytes?: number;
  /**
   * Whose request it is, such as the user's id. With it, keys of two principals never meet: neither a replay nor a
   * difference is ever shown to another one. The key is then stored as a hash. Without it a derived key is for whoever
   * sends the same Authorization; a request that brings cookies and has neither is a 400 principal_required.
   */
  readonly principal?: (request: Incoming) => string | undefined;
  /** Run without a key when hapax does not answer. Off: the caller gets a 503 and the handler does not run. */
  readonly failOpen?: boolean;
  /** The longest time a lease is renewed for one handler (default one hour). */
  readonly maxRunMs?: number;
  /** Told of what goes wrong beside the traffic: a lease that was lost, an answer that was not recorded. */
  readonly onError?: (error: unknown, doing: string) => void;
}

/** The options with their defaults. */
export interface Setup {
  readonly client: Hapax;
  readonly required: (request: Incoming) => boolean;
  readonly derive: (request: Incoming) => boolean;
  readonly only: (request: Incoming) => boolean;
  readonly ttlSeconds: number | undefined;
  readonly leaseSeconds: number;
  readonly waitMs: number;
  readonly onLost: "retry" | "hold";
  readonly mismatchStatus: 409 | 422;
  readonly maxBodyBytes: number;
  readonly maxResponseBytes: number;
  readonly principal: (request: Incoming) => string | undefined;
  readonly failOpen: boolean;
  readonly maxRunMs: number;
  readonly onError: (error: unknown, doing: string) => void;
}

export function setupOf(options: IdempotencyOptions): Setup {
  const rule = (given: boolean | ((request: Incoming) => boolean) | undefined) =>
    typeof given === "function" ? given : () => given ?? false;
  const leaseSeconds = options.leaseSeconds ?? 60;
  if (!(leaseSeconds >= 1)) throw new RangeError("leaseSeconds must be 1 or more: a lease is renewed each third of it");
  const client = options.client ?? new Hapax();
  // Said when the service starts, not when the first payment comes.
  client.checkToken();
  return {
    client,
    required: rule(options.required),
    derive: rule(options.derive),
    only: options.only ?? (() => true),
    ttlSeconds: options.ttlSeconds,
    leaseSeconds,
    waitMs: options.waitMs ?? 0,
    onLost: options.onLost ?? "retry",
    mismatchStatus: options.mismatchStatus ?? 409,
    maxBodyBytes: options.maxBodyBytes ?? 1024 * 1024,
    maxResponseBytes: options.maxResponseBytes ?? 700_000,
    principal: options.principal ?? (() => undefined),
    failOpen: options.failOpen ?? false,
    maxRunMs: options.maxRunMs ?? 3_600_000,
    onError: options.onError ?? ((error, doing) => console.error(`hapax: ${doing}:`, error)),
  };
}
