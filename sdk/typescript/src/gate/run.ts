// One handler under its lease: renewed while it runs, recorded before its answer is sent, given back if there is none.

import type { Claim, ClaimRequest } from "../api/keys.js";
import { HapaxError } from "../errors.js";
import { NOT_RECORDED, placeholder, refuse, replay, type Answer } from "./answer.js";
import { bodyOf } from "./bytes.js";
import type { Incoming, Setup } from "./options.js";

type Granted = Extract<Claim, { action: "process" }>;

/** What a handler answered. A body that is null is not kept: it is too large, or has no end to wait for. */
export interface Outcome {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>;
  readonly body: Uint8Array | null;
}

/** The headers that the server keeps of itself; they come first where there are too many. */
const STORED = [
  "content-type",
  "content-language",
  "content-encoding",
  "location",
  "etag",
  "last-modified",
  "link",
  "cache-control",
  "retry-after",
];
const HEADERS_MAX = 60;
/** Never sent to be stored: credentials, framing and the time of the first answer. */
const NEVER =
  /^(set-cookie|authorization|authentication-info|.*-authenticate|proxy-.*|date|connection|keep-alive|te|trailer|transfer-encoding|upgrade|content-length)$/;

export class Run {
  readonly #setup: Setup;
  readonly #request: Incoming;
  readonly #claimed: ClaimRequest;
  readonly #grant: Granted;
  readonly #key: string;
  readonly #startedAt: number;
  readonly #timer: ReturnType<typeof setInterval>;
  #isOver = false;

  constructor(setup: Setup, request: Incoming, claimed: ClaimRequest, grant: Granted, key: string) {
    this.#setup = setup;
    this.#request = request;
    this.#claimed = claimed;
    this.#grant = grant;
    this.#key = key;
    this.#startedAt = setup.client.clock.now();
    this.#timer = setInterval(() => void this.#renew(), (setup.leaseSeconds * 1000) / 3);
    // A lease alone keeps no process alive.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  /** Headers that the answer gets on top of its own. */
  get extraHeaders(): ReadonlyArray<readonly [string, string]> {
    return this.#grant.expired ? [["x-idempotency-expired", "true"]] : [];
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Records the answer. Nothing: send it. An answer: send that one instead. Never throws. */
  async settle(outcome: Outcome): Promise<Answer | null> {
    if (!this.#end()) return null;
    if (!isFinal(outcome.status)) {
      await this.#release();
      return null;
    }
    try {
      await this.#complete(outcome, this.#grant.token);
      return null;
    } catch (error) {
      if (error instanceof HapaxError && error.code === "lease_lost") return await this.#afterLoss(outcome, error);
      this.#setup.onError(error, `recording the answer under key ${this.#key}`);
      return this.#setup.failOpen ? null : refuse(NOT_RECORDED, this.#request);
    }
  }

  /** The handler ended without an answer: the key is given back, or left to be in doubt. Never throws. */
  async abandon(): Promise<void> {
    if (!this.#end() || this.#setup.onLost === "hold") return;
    await this.#release();
  }

  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    clearInterval(this.#timer);
    return true;
  }

  async #complete(outcome: Outcome, token: string): Promise<void> {
    const { client, maxResponseBytes } = this.#setup;
    if (outcome.body !== null && outcome.body.length <= maxResponseBytes) {
      try {
        await client.keys.complete(this.#grant.id, { token, ...completion(outcome, outcome.body) });
        return;
      } catch (error) {
        if (!(error instanceof HapaxError) || error.status !== 413) throw error;
      }
    }
    // The API keeps no answer without its body. This one is recorded in its place, and says what happened.
    const instead = placeholder(this.#key, this.#request);
    await client.keys.complete(this.#grant.id, { token, ...completion(instead, instead.body) });
  }

  /** Somebody else got the key meanwhile. Everyone gets the recorded answer, this caller included. */
  async #afterLoss(outcome: Outcome, error: HapaxError): Promise<Answer | null> {
    this.#setup.onError(error, `recording the answer under key ${this.#key}: the lease was lost while the handler ran`);
    try {
      const claim = await this.#setup.client.keys.claim(this.#claimed);
      if (claim.action === "replay") return replay(claim.response, claim.raw);
      if (claim.action === "process") {
        // Nobody recorded anything, and nobody runs: this answer is the one.
        await this.#complete(outcome, claim.token);
        return null;
      }
    } catch (second) {
      this.#setup.onError(second, `asking what was recorded under key ${this.#key}`);
    }
    return refuse(NOT_RECORDED, this.#request);
  }

  async #release(): Promise<void> {
    try {
      await this.#setup.client.keys.release(this.#grant.id, this.#grant.token);
    } catch (error) {
      this.#setup.onError(error, `giving back key ${this.#key}; it is free when its lease runs out`);
    }
  }

  async #renew(): Promise<void> {
    if (this.#setup.client.clock.now() - this.#startedAt > this.#setup.maxRunMs) {
      clearInterval(this.#timer);
      this.#setup.onError(new Error("the handler runs longer than maxRunMs"), `renewing the lease of key ${this.#key}`);
      return;
    }
    try {
      await this.#setup.client.keys.renew(this.#grant.id, this.#grant.token);
    } catch (error) {
      if (this.#isOver) return;
      if (error instanceof HapaxError && error.code === "lease_lost") clearInterval(this.#timer);
      this.#setup.onError(error, `renewing the lease of key ${this.#key}`);
    }
  }
}

/** Whether an answer with this status is recorded. Any other says "try again" and gives the key back. */
function isFinal(status: number): boolean {
  return status >= 200 && status < 500 && ![408, 425, 429].includes(status);
}

function completion(
  outcome: Pick<Outcome, "status" | "headers">,
  bytes: Uint8Array,
): { status: number; headers: Record<string, string>; body?: string; body_base64?: string } {
  const found = new Map<string, string>();
  for (const [given, value] of outcome.headers) {
    const name = given.toLowerCase();
    if (NEVER.test(name)) continue;
    const before = found.get(name);
    found.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  const first = [...found].filter(([name]) => STORED.includes(name));
  const rest = [...found].filter(([name]) => !STORED.includes(name));
  const headers = Object.fromEntries([...first, ...rest].slice(0, HEADERS_MAX));
  return { status: outcome.status, headers, ...(bytes.length === 0 ? {} : bodyOf(bytes)) };
}
