// Which requests are keyed, and what a claim means for them. It knows no framework.

import type { Claim, ClaimRequest } from "../api/keys.js";
import { HapaxError } from "../errors.js";
import { sha256Hex } from "../sha256.js";
import { NOT_CLAIMED, problemOf, refuse, replay, inDoubt, type Answer, type Problem } from "./answer.js";
import { bodyOf } from "./bytes.js";
import { bareKey } from "./key.js";
import type { Incoming, Setup } from "./options.js";
import { Run } from "./run.js";

/** What is to be done with a request: nothing, give this answer, or run the handler. */
export type Verdict =
  | { readonly kind: "pass" }
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "run"; readonly run: Run };

const KEYED: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "DELETE"]);
const POLL_FIRST_MS = 50;
const POLL_LAST_MS = 1000;
/** Refusals of a claim that are the caller's to know. Others are ours: a wrong token, a wrong address. */
const RELAYED: ReadonlySet<number> = new Set([400, 413]);

export class Gate {
  readonly #setup: Setup;

  constructor(setup: Setup) {
    this.#setup = setup;
  }

  get setup(): Setup {
    return this.#setup;
  }

  /** Whether the request is keyed; if so its body is needed. An answer where it lacks its key. */
  look(request: Incoming): "pass" | "keyed" | Answer {
    if (!KEYED.has(request.method.toUpperCase()) || !this.#setup.only(request)) return "pass";
    if (request.header("idempotency-key") !== undefined || this.#setup.derive(request)) return "keyed";
    if (!this.#setup.required(request)) return "pass";
    return refuse(
      {
        status: 400,
        code: "idempotency_key_required",
        message: `${request.method} ${request.path.split("?")[0]} needs an Idempotency-Key header; send one that is new for each operation`,
      },
      request,
    );
  }

  /** The answer to a body over the limit. */
  tooLarge(request: Incoming): Answer {
    const most = this.#setup.maxBodyBytes;
    const message = `a request with an Idempotency-Key may have a body of at most ${most} bytes`;
    // What was not read stands in the way of the next request on the same connection.
    const headers = [["connection", "close"]] as const;
    return refuse({ status: 413, code: "payload_too_large", message, details: { max_bytes: most }, headers }, request);
  }

  /** Claims the key of a request, waiting where that is wanted. */
  async admit(request: Incoming, body: Uint8Array): Promise<Verdict> {
    const claimed = this.#claimOf(request, body);
    if ("status" in claimed) return { kind: "answer", answer: refuse(claimed, request) };
    let claim: Claim;
    try {
      claim = await this.#claim(claimed);
    } catch (error) {
      return this.#notClaimed(error, request);
    }
    const shown = this.#shownKey(request) ?? claim.key;
    if (claim.action === "replay") return { kind: "answer", answer: replay(claim.response, claim.raw) };
    if (claim.action !== "process") {
      return { kind: "answer", answer: refuse(problemOf(claim, shown, this.#setup.mismatchStatus), request) };
    }
    if (claim.lost && this.#setup.onLost === "hold") {
      // The lease is left to run out, so that whoever asks next is told the same.
      return { kind: "answer", answer: refuse(inDoubt(shown, "runner_died"), request) };
    }
    return { kind: "run", run: new Run(this.#setup, request, claimed, claim, shown) };
  }

  async #claim(claimed: ClaimRequest): Promise<Claim> {
    const { client, waitMs } = this.#setup;
    const endsAt = client.clock.now() + waitMs;
    for (let pause = POLL_FIRST_MS; ; pause = Math.min(pause * 2, POLL_LAST_MS)) {
      const claim = await client.keys.claim(claimed);
      const left = endsAt - client.clock.now();
      if (claim.action !== "in_progress" || left <= 0) return claim;
      await client.clock.sleep(Math.min(pause, left));
    }
  }

  #claimOf(request: Incoming, body: Uint8Array): ClaimRequest | Problem {
    const header = request.header("idempotency-key");
    const principal = this.#setup.principal(request);
    const contentType = request.header("content-type");
    const { ttlSeconds } = this.#setup;
    const base = {
      method: request.method.toUpperCase(),
      path: pathOf(request.path),
      lease_seconds: this.#setup.leaseSeconds,
      ...(body.length === 0 ? {} : bodyOf(body)),
      ...(contentType === undefined ? {} : { content_type: contentType }),
      ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }),
    };
    if (header === undefined) {
      const who = derivedFor(principal, request.header("authorization"));
      if (who === undefined && request.header("cookie") !== undefined) return principalRequired(base);
      return who === undefined ? base : { ...base, principal: who };
    }
    if (principal === undefined) return { ...base, key: header };
    const bare = bareKey(header);
    if (bare === undefined) {
      const message = "the Idempotency-Key header is not a key; use 1 to 255 visible ASCII characters";
      return { status: 400, code: "idempotency_key_invalid", message };
    }
    return { ...base, key: sha256Hex(JSON.stringify([principal, bare])) };
  }

  /** The key as the caller knows it. */
  #shownKey(request: Incoming): string | undefined {
    const header = request.header("idempotency-key");
    return header === undefined ? undefined : bareKey(header);
  }

  #notClaimed(error: unknown, request: Incoming): Verdict {
    if (error instanceof HapaxError && RELAYED.has(error.status)) {
      const { status, code, message, details } = error;
      return { kind: "answer", answer: refuse({ status, code, message, details }, request) };
    }
    this.#setup.onError(error, `claiming the key of ${request.method} ${pathOf(request.path).split("?")[0]}`);
    if (this.#setup.failOpen) return { kind: "pass" };
    return { kind: "answer", answer: refuse(NOT_CLAIMED, request) };
  }
}

/** Who a derived key is for: the principal, else whoever has the credential. Hapax is sent a hash of either. */
function derivedFor(principal: string | undefined, authorization: string | undefined): string | undefined {
  if (principal) return sha256Hex(principal);
  return authorization ? `authorization:${sha256Hex(authorization)}` : undefined;
}

/** The request brings cookies and nothing says who sends it: a derived key would be that of everybody who sends it. */
function principalRequired({ method, path }: { readonly method: string; readonly path: string }): Problem {
  const message =
    `the key of ${method} ${path.split("?")[0]} is derived, this request brings cookies, and nothing says who sends it; ` +
    "set principal in the options, or send an Idempotency-Key";
  return { status: 400, code: "principal_required", message, details: { setting: "principal" } };
}

/** The path with its query, without a host. */
function pathOf(target: string): string {
  const bare = target.replace(/^https?:\/\/[^/?#]*/i, "").split("#")[0]!;
  return bare.startsWith("/") ? bare : `/${bare}`;
}
