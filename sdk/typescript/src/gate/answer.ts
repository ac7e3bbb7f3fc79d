// The answers a gate gives by itself: a replay, or why the request does not run.

import type { Claim, StoredResponse } from "../api/keys.js";
import { toJson } from "../canonical/index.js";
import { randomHex } from "../uuid.js";
import { fromBase64 } from "./bytes.js";
import type { Incoming } from "./options.js";

/** A whole answer. */
export interface Answer {
  readonly status: number;
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>;
  readonly body: Uint8Array;
}

/** What a refusal says. */
export interface Problem {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly headers?: ReadonlyArray<readonly [string, string]>;
  readonly retryAfterSeconds?: number;
}

const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  409: "Conflict",
  410: "Gone",
  413: "Payload Too Large",
  422: "Unprocessable Entity",
  503: "Service Unavailable",
};
const encoder = new TextEncoder();

/** A refusal in the one envelope, or as a problem document where the caller asks for one. */
export function refuse(problem: Problem, request: Incoming): Answer {
  const { status, code, message, details = {} } = problem;
  const traceId = traceOf(request);
  const isProblem = /application\/problem\+json/i.test(request.header("accept") ?? "");
  const document = isProblem
    ? {
        type: `urn:hapax:error:${code}`,
        title: TITLES[status] ?? "error",
        status,
        detail: message,
        code,
        details,
        error: { code, message, type: "idempotency_error" },
        trace_id: traceId,
      }
    : { error: { code, message, details }, trace_id: traceId };
  const retry: Array<[string, string]> =
    problem.retryAfterSeconds === undefined ? [] : [["retry-after", String(problem.retryAfterSeconds)]];
  return {
    status,
    headers: [
      ["content-type", isProblem ? "application/problem+json" : "application/json"],
      ["x-trace-id", traceId],
      ...(problem.headers ?? []),
      ...retry,
    ],
    body: encoder.encode(toJson(document)),
  };
}

/** The trace that the caller began, or a new one. */
function traceOf(request: Incoming): string {
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(request.header("traceparent") ?? "")?.[1] ?? randomHex();
}

type Refused = Exclude<Claim, { action: "process" | "replay" }>;

/** Why a claim does not let the request run. */
export function problemOf(claim: Refused, key: string, mismatchStatus: number): Problem {
  switch (claim.action) {
    case "conflict":
      return {
        status: mismatchStatus,
        code: "IDEMPOTENCY_CONFLICT",
        message: difference(claim.conflict.differs),
        details: { ...claim.conflict, original_key: key },
        headers: [["x-idempotency-conflict", "body-mismatch"]],
      };
    case "in_progress":
      return {
        status: 409,
        code: "IDEMPOTENCY_IN_PROGRESS",
        message: `key ${key} is being worked on; retry after ${claim.retry_after} s`,
        details: { key, lease_seconds_left: claim.lease_seconds_left },
        retryAfterSeconds: claim.retry_after,
      };
    case "in_doubt":
      return inDoubt(key, claim.reason, claim.why);
    case "erased":
      return {
        status: 410,
        code: "erased",
        message: "the key was used and what was stored under it is erased; use another key for another operation",
      };
  }
}

/** The sentence that names the parts in which a request differs from the first one. */
function difference(differs: readonly string[] = []): string {
  const names = differs.map((name) => name.replace("_", " "));
  const last = names.pop();
  if (last === undefined || (names.length === 0 && last === "body")) {
    return "Request body differs from original request with same idempotency key";
  }
  const [listed, verb] = names.length === 0 ? [last, "differs"] : [`${names.join(", ")} and ${last}`, "differ"];
  return `the request's ${listed} ${verb} from the first one's under the same idempotency key`;
}

const DOUBTS: Readonly<Record<string, string>> = {
  runner_died: "the request was started and its runner died; an operator must settle or release the key",
  outcome_unknown: "the request was started and its outcome is unknown; an operator must settle or release the key",
  response_not_stored: "the request was carried out; its answer could not be kept and went to its first caller only",
};

/** It may have happened, or its answer is gone. */
export function inDoubt(key: string, reason: string, why?: string): Problem {
  const message = DOUBTS[reason] ?? "whether the request was carried out is not known; an operator must settle or release the key";
  return { status: 409, code: "IDEMPOTENCY_IN_DOUBT", message, details: why === undefined ? { key, reason } : { key, reason, why } };
}

export const NOT_RECORDED: Problem = {
  status: 503,
  code: "store_unavailable",
  message: "the request was carried out, but its answer could not be recorded; retry with the same key",
  details: { reason: "outcome_unknown" },
  retryAfterSeconds: 1,
};

export const NOT_CLAIMED: Problem = {
  status: 503,
  code: "store_unavailable",
  message: "the store does not answer; nothing was done under this key, retry the same request",
  retryAfterSeconds: 1,
};

/** A recorded answer, marked as a replay. */
export function replay(response: StoredResponse, raw: string | null): Answer {
  const body = bytesOf(response, raw);
  const headers = Object.entries(response.headers).map(([name, value]): [string, string] => [name, value]);
  headers.push(["x-idempotency-replay", "true"], ["idempotency-replayed", "true"]);
  return { status: response.status, headers, body };
}

function bytesOf(response: StoredResponse, raw: string | null): Uint8Array {
  if (response.body_base64 !== undefined) return fromBase64(response.body_base64);
  if (typeof response.body === "string") return encoder.encode(response.body);
  return encoder.encode(raw ?? "");
}
