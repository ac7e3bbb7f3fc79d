// A Node response that is held back until its answer is recorded. Byte for byte what the handler wrote goes out.

import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from "node:http";

import type { Answer } from "./answer.js";
import type { Run } from "./run.js";

type Callback = (error?: Error | null) => void;

/** Sends an answer of ours. */
export function sendAnswer(response: ServerResponse, answer: Answer): void {
  for (const name of response.getHeaderNames()) {
    // What was set before us, such as CORS headers, stays; what describes a body does not.
    if (name.startsWith("content-") || name === "etag" || name === "transfer-encoding") response.removeHeader(name);
  }
  response.statusCode = answer.status;
  for (const [name, value] of answer.headers) response.setHeader(name, value);
  response.end(answer.body);
}

/** Holds the response of a handler that is about to run. */
export function holdResponse(response: ServerResponse, run: Run, bytesMax: number): void {
  new Held(response, run, bytesMax).patch();
}

/** What the handler had said when it ended. */
interface Snapshot {
  readonly statusCode: number;
  readonly statusMessage: string;
  readonly headers: OutgoingHttpHeaders;
}

class Held {
  readonly #response: ServerResponse;
  readonly #run: Run;
  readonly #bytesMax: number;
  readonly #own: Pick<ServerResponse, "write" | "end" | "writeHead" | "flushHeaders" | "destroy">;
  #state: "holding" | "settling" | "over" = "holding";
  #parts: Buffer[] = [];
  #bytes = 0;
  #isEnded = false;
  #isDiscarding = false;

  constructor(response: ServerResponse, run: Run, bytesMax: number) {
    this.#response = response;
    this.#run = run;
    this.#bytesMax = bytesMax;
    this.#own = {
      write: response.write,
      end: response.end,
      writeHead: response.writeHead,
      flushHeaders: response.flushHeaders,
      destroy: response.destroy,
    };
  }

  patch(): void {
    const response = this.#response;
    response.writeHead = ((status: number, ...rest: unknown[]) => this.#writeHead(status, rest)) as typeof response.writeHead;
    response.write = ((...args: unknown[]) => this.#write(args)) as typeof response.write;
    response.end = ((...args: unknown[]) => this.#end(args)) as typeof response.end;
    response.flushHeaders = () => {
      if (this.#isStream()) this.#pass();
    };
    response.destroy = ((error?: Error) => {
      this.#broken();
      return this.#own.destroy.call(response, error);
    }) as typeof response.destroy;
    // A source that was piped here stops when the caller goes away: then no end will come.
    response.on("unpipe", () => {
      if (response.destroyed) this.#broken();
    });
  }

  #broken(): void {
    if (this.#isEnded || this.#state !== "holding") return;
    this.#isEnded = true;
    void this.#run.abandon();
  }

  #writeHead(status: number, rest: unknown[]): ServerResponse {
    const response = this.#response;
    if (this.#state === "over") return this.#own.writeHead.call(response, status, ...(rest as []));
    response.statusCode = status;
    const [first, second] = rest;
    if (typeof first === "string") response.statusMessage = first;
    const headers = typeof first === "string" ? second : (first ?? second);
    for (const [name, value] of headerPairs(headers)) response.setHeader(name, value);
    return response;
  }

  #write(args: unknown[]): boolean {
    if (this.#isDiscarding) return true;
    if (this.#state === "over") return this.#own.write.apply(this.#response, args as Parameters<ServerResponse["write"]>);
    if (this.#isEnded) return false;
    this.#take(args);
    if (this.#state === "settling") return false;
    if (this.#bytes > this.#bytesMax || this.#isStream()) this.#pass();
    return this.#state === "holding";
  }

  #end(args: unknown[]): ServerResponse {
    const response = this.#response;
    if (this.#isDiscarding) return response;
    if (this.#state === "over") return this.#own.end.apply(response, args as Parameters<ServerResponse["end"]>);
    // Like a response that is at its end already: a second end changes nothing.
    if (this.#isEnded) return response;
    this.#take(args);
    this.#isEnded = true;
    if (this.#state === "settling") return response;
    if (this.#bytes > this.#bytesMax) this.#pass();
    else void this.#settleWhole();
    return response;
  }

  /** Keeps the chunk of a write or an end. */
  #take(args: unknown[]): void {
    const callback = args.find((arg): arg is Callback => typeof arg === "function");
    const encoding = typeof args[1] === "string" ? (args[1] as BufferEncoding) : "utf8";
    const chunk = args[0];
    if (typeof chunk === "string") this.#keep(Buffer.from(chunk, encoding));
    else if (chunk instanceof Uint8Array) this.#keep(Buffer.from(chunk));
    else if (chunk !== undefined && chunk !== null && typeof chunk !== "function") {
      throw new TypeError("a response takes strings and bytes; convert the chunk first");
    }
    if (callback !== undefined) process.nextTick(callback);
  }

  #keep(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
  }

  #isStream(): boolean {
    return String(this.#response.getHeader("content-type") ?? "").startsWith("text/event-stream");
  }

  async #settleWhole(): Promise<void> {
    this.#state = "settling";
    const snapshot = this.#snapshot();
    const body = Buffer.concat(this.#parts);
    const instead = await this.#run.settle({ status: snapshot.statusCode, headers: pairsOf(snapshot.headers), body });
    this.#open();
    if (instead !== null) return this.#sendInstead(instead);
    this.#restore(snapshot);
    this.#response.end(body);
  }

  /** Lets an answer go that is not kept: what came so far, and whatever comes. */
  #pass(): void {
    this.#state = "settling";
    const snapshot = this.#snapshot();
    const outcome = { status: snapshot.statusCode, headers: pairsOf(snapshot.headers), body: null };
    void this.#run.settle(outcome).then((instead) => {
      if (instead !== null) {
        this.#isDiscarding = !this.#isEnded;
        this.#state = "over";
        this.#sendInstead(instead);
        return;
      }
      this.#open();
      this.#restore(snapshot);
      this.#response.flushHeaders();
      for (const part of this.#parts) this.#response.write(part);
      this.#parts = [];
      if (this.#isEnded) this.#response.end();
      else this.#response.emit("drain");
    });
  }

  #snapshot(): Snapshot {
    const { statusCode, statusMessage } = this.#response;
    // By the names as they were written: some clients care, though they should not. The types do not know the method.
    const names = (this.#response as unknown as { getRawHeaderNames(): string[] }).getRawHeaderNames();
    const headers = Object.fromEntries(names.map((name) => [name, this.#response.getHeader(name)]));
    return { statusCode, statusMessage, headers };
  }

  /** As the handler left it, whatever an error handler did to the response since. */
  #restore(snapshot: Snapshot): void {
    const response = this.#response;
    if (response.headersSent) return;
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    for (const [name, value] of Object.entries(snapshot.headers)) response.setHeader(name, value as OutgoingHttpHeader);
    for (const [name, value] of this.#run.extraHeaders) response.setHeader(name, value);
    response.statusCode = snapshot.statusCode;
    response.statusMessage = snapshot.statusMessage;
  }

  #open(): void {
    this.#state = "over";
    Object.assign(this.#response, this.#own);
  }

  #sendInstead(answer: Answer): void {
    const response = this.#response;
    if (response.headersSent) return;
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    response.statusCode = answer.status;
    for (const [name, value] of answer.headers) response.setHeader(name, value);
    this.#own.end.apply(response, [answer.body] as unknown as Parameters<ServerResponse["end"]>);
  }
}

/** The headers of a `writeHead`: an object, pairs, or names and values in turn. */
function headerPairs(headers: unknown): Array<[string, OutgoingHttpHeader]> {
  if (Array.isArray(headers)) {
    const list = headers as unknown[];
    if (Array.isArray(list[0])) return list as Array<[string, OutgoingHttpHeader]>;
    const pairs = new Map<string, OutgoingHttpHeader>();
    for (let at = 0; at + 1 < list.length; at += 2) {
      const name = String(list[at]).toLowerCase();
      const before = pairs.get(name);
      const value = list[at + 1] as string;
      pairs.set(name, before === undefined ? value : [before as string, value].flat());
    }
    return [...pairs];
  }
  if (typeof headers !== "object" || headers === null) return [];
  return Object.entries(headers as OutgoingHttpHeaders).filter(
    (pair): pair is [string, OutgoingHttpHeader] => pair[1] !== undefined,
  );
}

/** Header names and values, one pair per value. */
export function pairsOf(headers: OutgoingHttpHeaders): Array<[string, string]> {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const values = Array.isArray(value) ? value : [value];
    return values.map((one): [string, string] => [name, String(one)]);
  });
}
