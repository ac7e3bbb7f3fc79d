// The body of a Node request, read whole and put back, so that a body parser behind us finds it untouched.

import type { IncomingMessage } from "node:http";

import type { Incoming } from "./options.js";

export function incomingOf(request: IncomingMessage & { readonly originalUrl?: string }): Incoming {
  return {
    method: request.method ?? "GET",
    path: request.originalUrl ?? request.url ?? "/",
    header: (name) => {
      const value = request.headers[name];
      return Array.isArray(value) ? value.join(", ") : value;
    },
  };
}

/** A request that a body parser may have read before us. */
export type ParsedRequest = IncomingMessage & { readonly body?: unknown; readonly rawBody?: unknown };

/**
 * The bytes of the body: `rawBody` where somebody kept it, else what a parser made of it, else the stream's.
 * Null if it is over the limit, undefined if the caller went away.
 */
export async function readBody(request: ParsedRequest, bytesMax: number): Promise<Uint8Array | null | undefined> {
  const parsed = parsedBody(request);
  if (parsed !== undefined) return parsed.length > bytesMax ? null : parsed;
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) return null;
  if (request.readableEnded) return new Uint8Array();
  return await drain(request, bytesMax);
}

function parsedBody(request: ParsedRequest): Uint8Array | undefined {
  if (request.rawBody instanceof Uint8Array) return request.rawBody;
  if (typeof request.rawBody === "string") return Buffer.from(request.rawBody);
  // A parser that came first and found something. Its JSON has the same canonical form as what was sent.
  if (request.body === undefined || request.body === null || !request.readableEnded) return undefined;
  if (request.body instanceof Uint8Array) return request.body;
  if (typeof request.body === "string") return Buffer.from(request.body);
  const hasBody = request.headers["transfer-encoding"] !== undefined || Number(request.headers["content-length"] ?? 0) > 0;
  return hasBody ? Buffer.from(JSON.stringify(request.body)) : new Uint8Array();
}

/** Reads everything and puts it back before the stream can say that it is at its end. */
function drain(request: IncomingMessage, bytesMax: number): Promise<Uint8Array | null | undefined> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    const done = (result: Uint8Array | null | undefined): void => {
      request.off("readable", onReadable);
      request.off("close", onClose);
      request.off("error", onClose);
      resolve(result);
    };
    const onReadable = (): void => {
      for (let chunk = request.read() as Buffer | null; chunk !== null; chunk = request.read() as Buffer | null) {
        parts.push(chunk);
        bytes += chunk.length;
        if (bytes > bytesMax) return done(null);
      }
      if (!request.complete) return;
      const whole = Buffer.concat(parts);
      // The end is announced in the next tick, and only if nothing is left to read then.
      if (whole.length > 0) request.unshift(whole);
      done(whole);
    };
    const onClose = (): void => done(undefined);
    request.on("readable", onReadable);
    request.on("close", onClose);
    request.on("error", onClose);
  });
}
