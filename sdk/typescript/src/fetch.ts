// For handlers that take a Request and give a Response.

import { Gate } from "./gate/gate.js";
import { setupOf, type IdempotencyOptions } from "./gate/options.js";
import { incomingOf, readRequest, requestAgain, responseOf, settleResponse } from "./gate/web.js";

export type { IdempotencyOptions, Incoming } from "./gate/options.js";

/**
 * The handler, safe to ask twice: a request with an `Idempotency-Key` that was answered before gets that answer.
 *
 * ```ts
 * export default { fetch: idempotent((request) => pay(request), { client: hapax }) };
 * ```
 */
export function idempotent<Rest extends unknown[]>(
  handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
  options: IdempotencyOptions = {},
): (request: Request, ...rest: Rest) => Promise<Response> {
  const gate = new Gate(setupOf(options));
  return async (request, ...rest) => {
    const incoming = incomingOf(request);
    const look = gate.look(incoming);
    if (look === "pass") return await handler(request, ...rest);
    if (look !== "keyed") return responseOf(look);
    const body = await readRequest(request, gate.setup.maxBodyBytes);
    if (body === null) return responseOf(gate.tooLarge(incoming));
    const verdict = await gate.admit(incoming, body);
    if (verdict.kind === "answer") return responseOf(verdict.answer);
    const again = requestAgain(request, body);
    if (verdict.kind === "pass") return await handler(again, ...rest);
    let response: Response;
    try {
      response = await handler(again, ...rest);
    } catch (error) {
      await verdict.run.abandon();
      throw error;
    }
    return await settleResponse(gate, verdict.run, response);
  };
}
