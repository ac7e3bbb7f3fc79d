// What only Node's own responses can do: streams, pipes, parsers before us, errors after the end.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { test } from "node:test";

import express, { type Express, type Request } from "express";

import { idempotency, type IdempotencyOptions } from "hapax/express";

import { onEachStore, type Server } from "./server.js";

async function serving(app: Express, body: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await body(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

const post = (url: string, key: string, body: BodyInit = "{}", type = "application/json"): Promise<Response> =>
  fetch(url, { method: "POST", headers: { "idempotency-key": key, "content-type": type }, body });

const replayed = (response: Response): boolean => response.headers.get("idempotency-replayed") === "true";

onEachStore("Express", (server: () => Server) => {
  const options = (more: IdempotencyOptions = {}): IdempotencyOptions => ({ client: server().client(), onError: () => undefined, ...more });

  test("a body is there for whoever reads it next, as a stream of any size or by a parser", async () => {
    const app = express();
    const guard = idempotency(options());
    app.post("/raw", guard, async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      response.json({ bytes: Buffer.concat(parts).length });
    });
    app.post("/json", guard, express.json({ limit: "1mb" }), (request: Request, response) => void response.json({ length: request.body.text.length }));
    app.post("/none", guard, express.json(), (request: Request, response) => void response.json({ body: request.body ?? null }));
    await serving(app, async (url) => {
      for (const size of [1, 70_000, 400_000]) {
        const raw = await post(`${url}/raw`, randomUUID(), Buffer.alloc(size, 7) as unknown as BodyInit, "application/octet-stream");
        assert.deepEqual(await raw.json(), { bytes: size });
        const json = await post(`${url}/json`, randomUUID(), JSON.stringify({ text: "é".repeat(size / 2) }));
        assert.deepEqual(await json.json(), { length: Math.floor(size / 2) });
      }
      const stream = Readable.toWeb(Readable.from([Buffer.from('{"te'), Buffer.from('xt":"ab"}')])) as ReadableStream;
      const chunked = await fetch(`${url}/json`, { method: "POST", headers: { "idempotency-key": randomUUID(), "content-type": "application/json" }, body: stream, duplex: "half" } as RequestInit);
      assert.deepEqual(await chunked.json(), { length: 2 });
      const none = await fetch(`${url}/none`, { method: "POST", headers: { "idempotency-key": randomUUID() } });
      assert.deepEqual(await none.json(), { body: null });
    });
  });

  test("behind a parser the parsed body counts, or the bytes that were kept", async () => {
    const app = express();
    app.use("/kept", express.json({ verify: (request, _response, bytes) => void Object.assign(request, { rawBody: bytes }) }), idempotency(options()));
    app.use("/parsed", express.json(), idempotency(options()));
    app.post("/{*rest}", (_request, response) => void response.json({ ok: true }));
    await serving(app, async (url) => {
      for (const path of ["/kept", "/parsed"]) {
        const key = randomUUID();
        await post(url + path, key, '{"a":1}');
        assert.ok(replayed(await post(url + path, key, '{ "a": 1.0 }')), path);
        assert.equal((await post(url + path, key, '{"a":2}')).status, 409, path);
      }
    });
  });

  test("an event stream goes out while it is made, and is not kept", async () => {
    const app = express();
    let source: PassThrough | undefined;
    app.post("/events", idempotency(options()), (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      source = new PassThrough();
      source.pipe(response);
      source.write("data: 1\n\n");
    });
    await serving(app, async (url) => {
      const key = randomUUID();
      const first = await post(`${url}/events`, key);
      const reader = first.body!.getReader();
      const decoder = new TextDecoder();
      assert.equal(decoder.decode((await reader.read()).value), "data: 1\n\n");
      source!.end("data: 2\n\n");
      assert.equal(decoder.decode((await reader.read()).value), "data: 2\n\n");
      assert.equal((await reader.read()).done, true);
      const again = await post(`${url}/events`, key);
      assert.equal(again.status, 409);
      const { error } = (await again.json()) as { error: { details: { reason: string } } };
      assert.equal(error.details.reason, "response_not_stored");
    });
  });

  test("a long answer is piped through whole, with its back pressure", async () => {
    const app = express();
    const bytes = 3_000_000;
    app.post("/long", idempotency(options({ maxResponseBytes: 100_000 })), async (_request, response) => {
      response.setHeader("content-length", bytes);
      await pipeline(Readable.from(Array.from({ length: bytes / 10_000 }, (_, at) => Buffer.alloc(10_000, at % 256))), response);
    });
    await serving(app, async (url) => {
      const answer = Buffer.from(await (await post(`${url}/long`, randomUUID())).arrayBuffer());
      assert.equal(answer.length, bytes);
      assert.equal(answer[2_999_999], 299 % 256);
    });
  });

  test("an answer that breaks off gives the key back", async () => {
    const app = express();
    let runs = 0;
    app.post("/breaks", idempotency(options()), async (_request, response) => {
      runs += 1;
      if (runs > 1) return void response.json({ runs });
      const source = new PassThrough();
      source.write("half of it");
      setTimeout(() => source.destroy(new Error("the source broke")), 20);
      await pipeline(source, response).catch(() => undefined);
    });
    await serving(app, async (url) => {
      const key = randomUUID();
      await assert.rejects(post(`${url}/breaks`, key));
      let again = await post(`${url}/breaks`, key);
      for (let tries = 0; again.status === 409 && tries < 100; tries += 1) again = await post(`${url}/breaks`, key);
      assert.deepEqual(await again.json(), { runs: 2 });
    });
  });

  test("a piped answer whose caller goes away gives the key back, since its end will not come", async () => {
    const app = express();
    let runs = 0;
    let begun: () => void = () => undefined;
    const began = new Promise<void>((resolve) => (begun = resolve));
    app.post("/piped", idempotency(options()), (_request, response) => {
      runs += 1;
      if (runs > 1) return void response.json({ runs });
      const source = new PassThrough();
      source.pipe(response);
      source.write("some");
      begun();
    });
    await serving(app, async (url) => {
      const key = randomUUID();
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      socket.write(`POST /piped HTTP/1.1\r\nHost: x\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`);
      await began;
      socket.destroy();
      let again = await post(`${url}/piped`, key);
      for (let tries = 0; again.status === 409 && tries < 200; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        again = await post(`${url}/piped`, key);
      }
      assert.deepEqual(await again.json(), { runs: 2 });
    });
  });

  test("an error after the end changes nothing of the answer that was given", async () => {
    const app = express();
    app.post("/late", idempotency(options()), (_request, response) => {
      response.status(201).json({ ok: true });
      throw new Error("too late");
    });
    app.use((_error: unknown, _request: Request, response: express.Response, _next: express.NextFunction) => {
      response.status(500).setHeader("x-error", "1").json({ ok: false });
    });
    await serving(app, async (url) => {
      const key = randomUUID();
      for (const expected of [false, true]) {
        const answer = await post(`${url}/late`, key);
        assert.equal(answer.status, 201);
        assert.deepEqual(await answer.json(), { ok: true });
        assert.equal(answer.headers.get("x-error"), null);
        assert.equal(replayed(answer), expected);
      }
    });
  });

  test("headers that other middleware set stay on a replay, and writeHead takes them in every form", async () => {
    const app = express();
    app.use((_request, response, next) => {
      response.setHeader("access-control-allow-origin", "*");
      next();
    });
    const guard = idempotency(options());
    app.post("/object", guard, (_request, response) => void response.writeHead(201, "Made", { "Content-Type": "text/x", ETag: '"1"' }).end("é", "latin1"));
    app.post("/array", guard, (_request, response) => void response.writeHead(201, ["Content-Type", "text/x", "ETag", '"1"']).end(Buffer.from([0xe9])));
    await serving(app, async (url) => {
      for (const path of ["/object", "/array"]) {
        const key = randomUUID();
        for (const expected of [false, true]) {
          const answer = await post(url + path, key);
          assert.deepEqual([answer.status, answer.headers.get("content-type"), answer.headers.get("etag")], [201, "text/x", '"1"']);
          assert.equal(answer.headers.get("access-control-allow-origin"), "*");
          assert.deepEqual(Buffer.from(await answer.arrayBuffer()), Buffer.from([0xe9]));
          assert.equal(answer.headers.get("content-length"), "1");
          assert.equal(replayed(answer), expected);
        }
      }
    });
  });

  test("the names of headers go out as they were written", async () => {
    const app = express();
    app.post("/names", idempotency(options()), (_request, response) => void response.setHeader("X-Some-Name", "1").json({}));
    await serving(app, async (url) => {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      socket.write(`POST /names HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: ${randomUUID()}\r\nContent-Length: 0\r\n\r\n`);
      const parts: Buffer[] = [];
      for await (const part of socket) parts.push(part as Buffer);
      assert.match(Buffer.concat(parts).toString(), /\r\nX-Some-Name: 1\r\n/);
    });
  });

  test("a lease that somebody else took: everyone gets the recorded answer", async () => {
    const client = server().client();
    const app = express();
    const path = `/slow-${randomUUID()}`;
    app.post(path, idempotency(options()), async (_request, response) => {
      // An operator ends the claim behind the handler's back, and another runner settles the key first.
      const [row] = await client.keys.list({ route: `POST:${path.slice(1)}` }).all();
      await client.keys.delete(row!.id);
      const claim = await client.keys.claim({ key: "k", method: "POST", path, body: "{}", content_type: "application/json" });
      assert.equal(claim.action, "process");
      if (claim.action === "process") await client.keys.complete(claim.id, { token: claim.token, status: 200, body: { by: "the other" } });
      response.json({ by: "this one" });
    });
    await serving(app, async (url) => {
      const answer = await post(url + path, "k");
      assert.deepEqual(await answer.json(), { by: "the other" });
      assert.ok(replayed(answer));
    });
  });
});
