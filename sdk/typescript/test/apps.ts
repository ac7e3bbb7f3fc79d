// The same small service on every framework, with the middleware in front of it.

import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";

import { serve } from "@hono/node-server";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";

import { idempotency as forExpress, type IdempotencyOptions } from "hapax/express";
import { idempotency as forFastify } from "hapax/fastify";
import { idempotent } from "hapax/fetch";
import { idempotency as forHono } from "hapax/hono";

/** What the service is asked, after the framework has parsed it. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

/** What it answers. Several chunks are streamed. */
export interface Answered {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly chunks: readonly Buffer[];
}

export type Service = (asked: Asked) => Promise<Answered>;

/** An app that listens. */
export interface App {
  readonly url: string;
  close(): Promise<void>;
}

export type Framework = (service: Service, options: IdempotencyOptions) => Promise<App>;

async function listen(server: HttpServer): Promise<App> {
  if (!server.listening) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const onExpress: Framework = async (service, options) => {
  const app = express();
  app.disable("x-powered-by");
  app.use(forExpress(options), express.json(), express.raw({ limit: "8mb", type: "application/octet-stream" }));
  app.all("/{*rest}", async (request, response) => {
    const answer = await service({ method: request.method, path: request.originalUrl, body: request.body });
    response.writeHead(answer.status, answer.headers as Record<string, string>);
    for (const chunk of answer.chunks.slice(0, -1)) response.write(chunk);
    response.end(answer.chunks.at(-1));
  });
  // Its own error page prints to standard error.
  app.use((_error: unknown, _request: express.Request, response: express.Response, _next: express.NextFunction) => {
    response.status(500).json({ error: "thrown" });
  });
  return await listen(createServer(app));
};

const onFastify: Framework = async (service, options) => {
  const app = Fastify({ bodyLimit: 8 * 1024 * 1024 });
  await app.register(forFastify, options);
  app.addContentTypeParser("application/octet-stream", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.all("/*", async (request, reply) => {
    const answer = await service({ method: request.method, path: request.url, body: request.body });
    reply.code(answer.status).headers(answer.headers ?? {});
    if (answer.chunks.length === 0) return reply.send();
    return reply.send(answer.chunks.length === 1 ? answer.chunks[0] : Readable.from(answer.chunks));
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  return await listen(app.server);
};

/** The framework-free part of the two web frameworks. */
async function respond(service: Service, request: Request): Promise<Response> {
  const url = new URL(request.url);
  const isJson = request.headers.get("content-type")?.startsWith("application/json") ?? false;
  const body: unknown = isJson ? await request.json() : Buffer.from(await request.arrayBuffer());
  const answer = await service({ method: request.method, path: url.pathname + url.search, body });
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers ?? {})) {
    for (const one of [value].flat()) headers.append(name, one);
  }
  const bytes = answer.chunks.length === 0 ? null : (Readable.toWeb(Readable.from(answer.chunks)) as ReadableStream);
  return new Response(bytes, { status: answer.status, headers });
}

const onHono: Framework = async (service, options) => {
  const app = new Hono();
  app.use("*", forHono(options));
  app.all("*", (context) => respond(service, context.req.raw));
  app.onError((_error, context) => context.json({ error: "thrown" }, 500));
  return await served(app.fetch);
};

const onFetch: Framework = async (service, options) => {
  const handler = idempotent((request) => respond(service, request), options);
  return await served((request) => handler(request).catch(() => Response.json({ error: "thrown" }, { status: 500 })));
};

async function served(fetch: (request: Request) => Response | Promise<Response>): Promise<App> {
  const server = await new Promise<HttpServer>((resolve) => {
    const made = serve({ fetch, port: 0, hostname: "127.0.0.1" }, () => resolve(made as HttpServer));
  });
  return await listen(server);
}

export const FRAMEWORKS: Readonly<Record<string, Framework>> = {
  express: onExpress,
  fastify: onFastify,
  hono: onHono,
  fetch: onFetch,
};
