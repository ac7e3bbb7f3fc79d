// A payment service on Express that is safe to ask twice. It needs a running `hapax serve`: HAPAX_URL and HAPAX_TOKEN.

import express from "express";
import { Hapax } from "hapax";
import { idempotency } from "hapax/express";

import { Payments } from "./payments.js";

const payments = new Payments(process.env.PAYMENTS_FILE ?? "payments.jsonl");
const app = express();

app.get("/payments", async (_request, response) => {
  response.json(await payments.list());
});

app.post("/payments", idempotency({ client: new Hapax() }), express.json(), async (request, response) => {
  const amount = request.body?.amount;
  if (!Number.isSafeInteger(amount) || amount <= 0) {
    response.status(422).json({ error: "amount is not a whole number of cents; send {\"amount\": 1000}" });
    return;
  }
  const payment = await payments.pay(amount);
  response.status(201).location(`/payments/${payment.id}`).json(payment);
});

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", (error) => {
  if (error) throw error;
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
process.once("SIGTERM", () => server.close());
