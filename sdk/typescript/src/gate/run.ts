// One handler under its lease: renewed while it runs, recorded before its answer is sent, given back if there is none.

import type { Claim, ClaimRequest } from "../api/keys.js";
import { HapaxError } from "../errors.js";
import { NOT_RECORDED, refuse, replay, type Answer } from "./answer.js";
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
/** How long the end waits for a renewal under way. One that takes longer has most likely lost its answer. */
const RENEWAL_MS_MAX = 5_000;
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
  /** That of the last renewal: only with it is a complete that is sent twice known to be the same. */
  #token: string;
  #renewal: Promise<void> | null = null;
  #isOver = false;

  constructor(setup: Setup, request: Incoming, claimed: ClaimRequest, grant: Granted, key: string) {
    this.#setup = setup;
    this.#request = request;
    this.#claimed = claimed;
    this.#grant = grant;
    this.#key = key;
    this.#startedAt = setup.client.clock.now();
    this.#token = grant.token;
    this.#timer = setInterval(() => this.#beat(), (setup.leaseSeconds * 1000) / 3);
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
    await this.#renewed();
    if (!isFinal(outcome.status)) {
      await this.#release();
      return null;
    }
    try {
      await this.#complete(outcome, this.#grant.id, this.#token);
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
    await this.#renewed();
    await this.#release();
  }

  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    clearInterval(this.#timer);
    return true;
  }

  /** Waits for a renewal under way: it brings the token that the end carries. */
  async #renewed(): Promise<void> {
    if (this.#renewal === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, RENEWAL_MS_MAX);
    });
    await Promise.race([this.#renewal, limit]);
    clearTimeout(timer);
  }

  async #complete(outcome: Outcome, id: string, token: string): Promise<void> {
    const { client } = this.#setup;
    if (this.#isKept(outcome)) {
      try {
        await client.keys.complete(id, { token, ...completion(outcome, outcome.body) });
        return;
      } catch (error) {
        if (!(error instanceof HapaxError) || error.status !== 413) throw error;
      }
    }
    await client.keys.complete(id, { token, status: outcome.status, stored: false });
  }

  #isKept(outcome: Outcome): outcome is Outcome & { readonly body: Uint8Array } {
    return outcome.body !== null && outcome.body.length <= this.#setup.maxResponseBytes;
  }

  /**
   * Everyone gets the recorded answer, this caller included. It is somebody else's, or our own: where the answers to a
   * renewal and to the complete got lost, the server cannot know the complete again.
   */
  async #afterLoss(outcome: Outcome, error: HapaxError): Promise<Answer | null> {
    this.#setup.onError(error, `recording the answer under key ${this.#key}: the lease was lost while the handler ran`);
    try {
      const claim = await this.#setup.client.keys.claim(this.#claimed);
      if (claim.action === "replay") return replay(claim.response, claim.raw);
      if (claim.action === "process") {
        // Nobody recorded anything, and nobody runs: this answer is the one.
        await this.#complete(outcome, claim.id, claim.token);
        return null;
      }
      if (claim.action === "in_doubt" && claim.reason === "response_not_stored" && !this.#isKept(outcome)) return null;
    } catch (second) {
      this.#setup.onError(second, `asking what was recorded under key ${this.#key}`);
    }
    return refuse(NOT_RECORDED, this.#request);
  }

  async #release(): Promise<void> {
    try {
      await this.#setup.client.keys.release(this.#grant.id, this.#token);
    } catch (error) {
      this.#setup.onError(error, `giving back key ${this.#key}; it is free when its lease runs out`);
    }
  }

  #beat(): void {
    // One at a time: each brings the token of the next.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = null;
    });
  }

  async #renew(): Promise<void> {
    if (this.#setup.client.clock.now() - this.#startedAt > this.#setup.maxRunMs) {
      clearInterval(this.#timer);
      this.#setup.onError(new Error("the handler runs longer than maxRunMs"), `renewing the lease of key ${this.#key}`);
      return;
    }
    try {
      this.#token = (await this.#setup.client.keys.renew(this.#grant.id, this.#token)).token;
    } catch (error) {
      if (this.#isOver) return;
      if (error instanceof HapaxError && error.code === "lease_lost") clearInterval(this.#timer);
      this.#setup.onError(error, `renewing the lease of key ${this.#key}`);
    }
  }
}

/** "Try again", and a credential that was refused: the next one may be good. */
const RELEASED: readonly number[] = [401, 403, 407, 408, 425, 429];

/** Whether an answer with this status is recorded. Any other gives the key back. */
function isFinal(status: number): boolean {
  return status >= 200 && status < 500 && !RELEASED.includes(status);
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
