// Requests and responses of the web platform: read with a limit, and given on as they were.

import { concat } from "./bytes.js";
import type { Answer } from "./answer.js";
import type { Gate } from "./gate.js";
import type { Incoming } from "./options.js";
import type { Run } from "./run.js";

export function incomingOf(request: Request): Incoming {
  const url = new URL(request.url);
  return {
    method: request.method,
    path: url.pathname + url.search,
    header: (name) => request.headers.get(name) ?? undefined,
  };
}

/** The body of a request, or null if it is over the limit. */
export async function readRequest(request: Request, bytesMax: number): Promise<Uint8Array | null> {
  if (request.body === null) return new Uint8Array();
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) return null;
  const taken = await take(request.body.getReader(), bytesMax);
  return taken.rest === null ? concat(taken.parts) : (await taken.rest.cancel(), null);
}

/** The request again, with its body. Its own signal is not passed on: a caller that goes away does not stop the handler. */
export function requestAgain(request: Request, body: Uint8Array): Request {
  const init: RequestInit = { method: request.method, headers: request.headers };
  if (body.length > 0) init.body = body as BodyInit;
  return new Request(request.url, init);
}

export function responseOf(answer: Answer): Response {
  const isBare = [204, 205, 304].includes(answer.status);
  const headers = new Headers();
  for (const [name, value] of answer.headers) headers.append(name, value);
  return new Response(isBare ? null : (answer.body as BodyInit), { status: answer.status, headers });
}

/** Records a response, then gives it on: itself, or what is recorded in its place. */
export async function settleResponse(gate: Gate, run: Run, response: Response): Promise<Response> {
  const { status } = response;
  const pairs = [...response.headers];
  const isStream = /^text\/event-stream/i.test(response.headers.get("content-type") ?? "");
  let body: Uint8Array | null = new Uint8Array();
  let sent: BodyInit | null = null;
  if (response.body !== null) {
    let taken: Taken;
    try {
      const reader = response.body.getReader();
      taken = isStream ? { parts: [], rest: reader } : await take(reader, gate.setup.maxResponseBytes);
    } catch (error) {
      await run.abandon();
      throw error;
    }
    body = taken.rest === null ? concat(taken.parts) : null;
    sent = body === null ? resumed(taken) : (body as BodyInit);
  }
  const instead = await run.settle({ status, headers: pairs, body });
  if (instead !== null) {
    if (sent instanceof ReadableStream) await sent.cancel();
    return responseOf(instead);
  }
  const headers = new Headers(response.headers);
  for (const [name, value] of run.extraHeaders) headers.set(name, value);
  return new Response(sent, { status, statusText: response.statusText, headers });
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/** What was read, and the reader of what comes after it if it is too much. */
interface Taken {
  readonly parts: Uint8Array[];
  readonly rest: Reader | null;
}

async function take(reader: Reader, bytesMax: number): Promise<Taken> {
  const parts: Uint8Array[] = [];
  for (let bytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return { parts, rest: null };
    parts.push(value);
    bytes += value.length;
    if (bytes > bytesMax) return { parts, rest: reader };
  }
}

/** The beginning that was read, and the rest. */
function resumed({ parts, rest }: Taken): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
    },
    async pull(controller) {
      const { done, value } = await rest!.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => rest!.cancel(reason),
  });
}
