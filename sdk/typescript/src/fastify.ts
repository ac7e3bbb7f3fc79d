// For Fastify: a plugin. It reads the body before it is parsed, claims before the handler, and records before sending.

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

import type { Answer } from "./gate/answer.js";
import { Gate } from "./gate/gate.js";
import { incomingOf } from "./gate/node-request.js";
import { pairsOf } from "./gate/node-response.js";
import { setupOf, type IdempotencyOptions, type Incoming } from "./gate/options.js";
import type { Run } from "./gate/run.js";

export type { IdempotencyOptions, Incoming } from "./gate/options.js";

/** The part of Fastify's request that is used. */
export interface FastifyRequestLike {
  readonly raw: IncomingMessage;
}

/** The part of Fastify's reply that is used. */
export interface FastifyReplyLike {
  readonly raw: ServerResponse;
  readonly statusCode: number;
  code(status: number): unknown;
  header(name: string, value: unknown): unknown;
  removeHeader(name: string): unknown;
  getHeaders(): Record<string, number | string | string[] | undefined>;
  send(payload?: unknown): unknown;
}

/** The part of a Fastify instance that is used. */
export interface FastifyLike {
  // Fastify's own hooks are overloads by name.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  addHook(name: any, hook: any): unknown;
}

/** A keyed request on its way. */
interface Passage {
  readonly incoming: Incoming;
  readonly body: Uint8Array;
  run?: Run;
}

type Done = (error?: Error | null, payload?: unknown) => void;

/**
 * Makes the routes of the instance safe to ask twice.
 *
 * ```ts
 * await app.register(idempotency, { client: hapax });
 * ```
 *
 * Plugins that change payloads, such as compression, may come before or after it.
 */
export function idempotency(app: FastifyLike, options: IdempotencyOptions, done: (error?: Error) => void): void {
  let gate: Gate;
  try {
    gate = new Gate(setupOf(options));
  } catch (error) {
    // Thrown here it would end the process, past whoever awaits `register` or `ready`.
    return done(error as Error);
  }
  const passages = new WeakMap<FastifyRequestLike, Passage>();

  app.addHook("preParsing", (request: FastifyRequestLike, reply: FastifyReplyLike, payload: Readable, next: Done) => {
    const incoming = incomingOf(request.raw);
    const look = gate.look(incoming);
    if (look === "pass") return next(null, payload);
    if (look !== "keyed") return send(reply, look);
    const bytesMax = gate.setup.maxBodyBytes;
    const isAnnounced = Number(request.raw.headers["content-length"] ?? 0) > bytesMax;
    if (isAnnounced) return send(reply, gate.tooLarge(incoming));
    take(payload, bytesMax).then((taken) => {
      if (taken.rest !== null) return send(reply, gate.tooLarge(incoming));
      const body = Buffer.concat(taken.parts);
      passages.set(request, { incoming, body });
      next(null, again(body));
    }, next);
  });

  app.addHook("preHandler", (request: FastifyRequestLike, reply: FastifyReplyLike, next: Done) => {
    const passage = passages.get(request);
    if (passage === undefined) return next();
    gate.admit(passage.incoming, passage.body).then((verdict) => {
      if (verdict.kind === "answer") return send(reply, verdict.answer);
      if (verdict.kind === "run") passage.run = verdict.run;
      next();
    }, next);
  });

  app.addHook("onSend", (request: FastifyRequestLike, reply: FastifyReplyLike, payload: unknown, next: Done) => {
    const run = passages.get(request)?.run;
    if (run === undefined || run.isOver) return next(null, payload);
    settle(gate, run, reply, payload).then((sent) => next(null, sent), next);
  });

  app.addHook("onResponse", (request: FastifyRequestLike, _reply: FastifyReplyLike, next: Done) => {
    // Somebody answered past Fastify. What it was is not known here.
    void passages.get(request)?.run?.abandon();
    next();
  });
  done();
}

// The hooks are for the instance that registers the plugin, not for a scope of the plugin's own.
Object.assign(idempotency, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "hapax",
});

function send(reply: FastifyReplyLike, answer: Answer): void {
  reply.code(answer.status);
  for (const [name, value] of answer.headers) reply.header(name, value);
  if (answer.body.length === 0) return void reply.send();
  // Fastify gives bytes a media type where they have none, and leaves a stream alone.
  const hasType = answer.headers.some(([name]) => name.toLowerCase() === "content-type");
  reply.send(hasType ? Buffer.from(answer.body) : again(answer.body));
}

/** Records what is about to be sent. Returns what to send. */
async function settle(gate: Gate, run: Run, reply: FastifyReplyLike, payload: unknown): Promise<unknown> {
  let source = payload;
  if (source instanceof Response) {
    reply.code(source.status);
    for (const [name, value] of source.headers) reply.header(name, value);
    source = source.body;
  }
  let whole: Uint8Array | null;
  let sent: unknown = source;
  if (source === undefined || source === null) {
    whole = new Uint8Array();
  } else if (typeof source === "string") {
    whole = Buffer.from(source);
  } else if (source instanceof Uint8Array) {
    whole = source;
  } else {
    const isEndless = String(reply.getHeaders()["content-type"] ?? "").startsWith("text/event-stream");
    let taken: Taken;
    try {
      taken = isEndless ? { parts: [], rest: iterator(source) } : await take(source, gate.setup.maxResponseBytes);
    } catch (error) {
      await run.abandon();
      throw error;
    }
    whole = taken.rest === null ? Buffer.concat(taken.parts) : null;
    sent = whole ?? resumed(taken);
  }
  const instead = await run.settle({ status: reply.statusCode, headers: pairsOf(reply.getHeaders()), body: whole });
  if (instead === null) {
    for (const [name, value] of run.extraHeaders) reply.header(name, value);
    return sent;
  }
  if (sent instanceof Readable) sent.destroy();
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
  reply.code(instead.status);
  for (const [name, value] of instead.headers) reply.header(name, value);
  return Buffer.from(instead.body);
}

/** What was read, and what comes after it if it is too much. */
interface Taken {
  readonly parts: Uint8Array[];
  readonly rest: AsyncIterator<unknown> | null;
}

function iterator(source: unknown): AsyncIterator<unknown> {
  const iterable = source as Partial<AsyncIterable<unknown>>;
  if (typeof iterable[Symbol.asyncIterator] === "function") return iterable[Symbol.asyncIterator]!();
  throw new TypeError("this payload cannot be read to be recorded; send text, bytes or a stream");
}

async function take(source: unknown, bytesMax: number): Promise<Taken> {
  const rest = iterator(source);
  const parts: Uint8Array[] = [];
  for (let bytes = 0; ; ) {
    const { done, value } = await rest.next();
    if (done === true) return { parts, rest: null };
    const part = typeof value === "string" ? Buffer.from(value) : (value as Uint8Array);
    parts.push(part);
    bytes += part.length;
    if (bytes > bytesMax) return { parts, rest };
  }
}

/** The beginning that was read, and the rest. */
function resumed({ parts, rest }: Taken): Readable {
  async function* all(): AsyncGenerator<unknown> {
    yield* parts;
    for (let next = await rest!.next(); next.done !== true; next = await rest!.next()) yield next.value;
  }
  return Readable.from(all(), { objectMode: false });
}

/** The body once more, as a stream. */
function again(body: Uint8Array): Readable {
  const stream = new Readable({ read: () => undefined });
  if (body.length > 0) stream.push(body);
  stream.push(null);
  return Object.assign(stream, { receivedEncodedLength: body.length });
}
