// What only Fastify's replies can do: hooks of others, web responses, answers past Fastify.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { test } from "node:test";

import Fastify, { type FastifyInstance } from "fastify";

import { idempotency } from "hapax/fastify";

import { onEachStore, type Server } from "./server.js";

onEachStore("Fastify", (server: () => Server) => {
  const serving = async (routes: (app: FastifyInstance) => void | Promise<void>, body: (url: string) => Promise<void>): Promise<void> => {
    const app = Fastify();
    await routes(app);
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    try {
      await body(url);
    } finally {
      await app.close();
    }
  };
  const options = () => ({ client: server().client(), onError: () => undefined });
  const post = async (url: string, key: string, body = "{}") => {
    const response = await fetch(url, { method: "POST", headers: { "idempotency-key": key, "content-type": "application/json", connection: "close" }, body });
    return { status: response.status, type: response.headers.get("content-type"), replayed: response.headers.get("idempotency-replayed") === "true", text: await response.text() };
  };

  test("objects with a schema, text, web responses and streams are replayed as they went out", async () => {
    const answers: Record<string, () => unknown> = {
      object: () => ({ shown: 1, hidden: 2 }),
      text: () => "é",
      response: () => new Response("web", { status: 202, headers: { "content-type": "text/x" } }),
      stream: () => Readable.from([Buffer.from("a"), Buffer.from("b")]),
      nothing: () => undefined,
    };
    const response = { 200: { type: "object", properties: { shown: { type: "number" } } } };
    await serving(
      async (app) => {
        await app.register(idempotency, options());
        for (const [name, answer] of Object.entries(answers)) {
          const schema = name === "object" ? { response } : {};
          app.post(`/${name}`, { schema }, async (_request, reply) => reply.send(answer()));
        }
      },
      async (url) => {
        for (const name of Object.keys(answers)) {
          const key = randomUUID();
          const first = await post(`${url}/${name}`, key);
          const again = await post(`${url}/${name}`, key);
          assert.deepEqual(again, { ...first, replayed: true }, name);
          if (name === "object") assert.equal(first.text, '{"shown":1}');
          if (name === "response") assert.deepEqual([first.status, first.text, first.type], [202, "web", "text/x"]);
        }
      },
    );
  });

  test("a hook that compresses may come before or after it", async () => {
    for (const isBefore of [true, false]) {
      await serving(
        async (app) => {
          const compress = (): void =>
            void app.addHook("onSend", async (_request, reply, payload) => {
              // What is compressed already is left alone, as the usual plugin does.
              if (reply.hasHeader("content-encoding")) return payload;
              reply.header("content-encoding", "gzip");
              return gzipSync(payload as string | Buffer);
            });
          if (isBefore) compress();
          await app.register(idempotency, options());
          if (!isBefore) compress();
          app.post("/zip", async () => ({ ok: true }));
        },
        async (url) => {
          const key = randomUUID();
          const first = await post(`${url}/zip`, key);
          assert.equal(first.text, '{"ok":true}');
          assert.deepEqual(await post(`${url}/zip`, key), { ...first, replayed: true });
        },
      );
    }
  });

  test("a body that does not parse is refused by Fastify, and its key is not taken", async () => {
    await serving(
      async (app) => {
        await app.register(idempotency, options());
        app.post("/json", async (request) => request.body);
      },
      async (url) => {
        const key = randomUUID();
        assert.equal((await post(`${url}/json`, key, "{")).status, 400);
        const good = await post(`${url}/json`, key, '{"a":1}');
        assert.deepEqual([good.status, good.replayed, good.text], [200, false, '{"a":1}']);
      },
    );
  });

  test("an answer past Fastify gives the key back", async () => {
    let runs = 0;
    await serving(
      async (app) => {
        await app.register(idempotency, options());
        app.post("/raw", (_request, reply) => {
          runs += 1;
          reply.hijack();
          reply.raw.end("raw");
        });
      },
      async (url) => {
        const key = randomUUID();
        assert.equal((await post(`${url}/raw`, key)).text, "raw");
        let again = await post(`${url}/raw`, key);
        for (let tries = 0; again.status === 409 && tries < 100; tries += 1) again = await post(`${url}/raw`, key);
        assert.equal(again.text, "raw");
        assert.equal(runs, 2);
      },
    );
  });
});
