// For Express, and for anything with `(request, response, next)`: a middleware.

import type { ServerResponse } from "node:http";

import { Gate } from "./gate/gate.js";
import { incomingOf, readBody, type ParsedRequest } from "./gate/node-request.js";
import { holdResponse, sendAnswer } from "./gate/node-response.js";
import { setupOf, type IdempotencyOptions } from "./gate/options.js";

export type { IdempotencyOptions, Incoming } from "./gate/options.js";

/**
 * Makes the routes behind it safe to ask twice. Put it behind the middleware that signs callers in and before body
 * parsers: it reads the body and puts it back. Behind a parser it takes `request.rawBody`, else the parsed body.
 *
 * ```ts
 * app.use("/payments", idempotency({ client: hapax }), express.json());
 * ```
 *
 * An answer is held back until it is recorded. One over `maxResponseBytes`, and an event stream, goes out as it comes and
 * is not kept: a retry is told 409 IDEMPOTENCY_IN_DOUBT with the reason `response_not_stored`.
 */
export function idempotency(
  options: IdempotencyOptions = {},
): (request: ParsedRequest, response: ServerResponse, next: (error?: unknown) => void) => void {
  const gate = new Gate(setupOf(options));
  return (request, response, next) => {
    enter(gate, request, response, next).catch(next);
  };
}

async function enter(gate: Gate, request: ParsedRequest, response: ServerResponse, next: () => void): Promise<void> {
  const incoming = incomingOf(request);
  const look = gate.look(incoming);
  if (look === "pass") return next();
  if (look !== "keyed") return sendAnswer(response, look);
  const body = await readBody(request, gate.setup.maxBodyBytes);
  // The caller went away before it had said what it wants.
  if (body === undefined) return;
  if (body === null) return sendAnswer(response, gate.tooLarge(incoming));
  const verdict = await gate.admit(incoming, body);
  if (verdict.kind === "answer") return sendAnswer(response, verdict.answer);
  if (verdict.kind === "run") holdResponse(response, verdict.run, gate.setup.maxResponseBytes);
  next();
}
