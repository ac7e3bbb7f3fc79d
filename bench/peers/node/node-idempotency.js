// node-idempotency over Redis (REDIS_URL). The core is called as its own adapters call it: before and after the handler.
const express = require("express");
const { Idempotency } = require("@node-idempotency/core");
const { RedisStorageAdapter } = require("@node-idempotency/storage-adapter-redis");
const { pay, listen } = require("./handler");

async function main() {
  const storage = new RedisStorageAdapter({ url: process.env.REDIS_URL });
  await storage.connect();
  const keys = new Idempotency(storage, { cacheTTLMS: 3_600_000 });
  const app = express();
  app.use(express.json());
  app.post("/payments", async (request, response) => {
    const asked = { headers: request.headers, path: request.path, method: request.method, body: request.body };
    const recorded = await keys.onRequest(asked);
    if (recorded) {
      response.set("idempotent-replayed", "true").status(recorded.additional.status).json(recorded.body);
      return;
    }
    const paid = pay(request.body);
    await keys.onResponse(asked, { body: paid, additional: { status: 201 } });
    response.status(201).json(paid);
  });
  listen(app);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
