// For Hono: a middleware. Put it behind the one that signs callers in.

import { Gate } from "./gate/gate.js";
import { setupOf, type IdempotencyOptions } from "./gate/options.js";
import { incomingOf, readRequest, requestAgain, responseOf, settleResponse } from "./gate/web.js";

export type { IdempotencyOptions, Incoming } from "./gate/options.js";

/** The part of Hono's context that is used. */
export interface HonoContext {
  readonly req: { raw: Request };
  get res(): Response;
  set res(response: Response | undefined);
}

/**
 * Makes the routes behind it safe to ask twice.
 *
 * ```ts
 * app.use("/payments/*", idempotency({ client: hapax }));
 * ```
 */
export function idempotency(
  options: IdempotencyOptions = {},
): (context: HonoContext, next: () => Promise<void>) => Promise<Response | void> {
  const gate = new Gate(setupOf(options));
  return async (context, next) => {
    const request = context.req.raw;
    const incoming = incomingOf(request);
    const look = gate.look(incoming);
    if (look === "pass") return await next();
    if (look !== "keyed") return responseOf(look);
    const body = await readRequest(request, gate.setup.maxBodyBytes);
    if (body === null) return responseOf(gate.tooLarge(incoming));
    const verdict = await gate.admit(incoming, body);
    if (verdict.kind === "answer") return responseOf(verdict.answer);
    context.req.raw = requestAgain(request, body);
    if (verdict.kind === "pass") return await next();
    try {
      await next();
    } catch (error) {
      await verdict.run.abandon();
      throw error;
    }
    const response = await settleResponse(gate, verdict.run, context.res);
    // Hono adds the old headers to a response that replaces another.
    context.res = undefined;
    context.res = response;
  };
}
