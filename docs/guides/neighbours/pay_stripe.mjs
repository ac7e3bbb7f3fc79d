#!/usr/bin/env node
// The same with Stripe's SDK for Node. Arguments: HOST:PORT AMOUNT [KEY [PLAN]]

import Stripe from "stripe";

const [, , address, amount, idempotencyKey, plan = ""] = process.argv;
const [host, port] = address.split(":");
const stripe = new Stripe("sk_test_1", { host, port, protocol: "http", maxNetworkRetries: 2, telemetry: false });
let tries = 0;
stripe.on("request", () => (tries += 1));
try {
  const body = { amount: Number(amount), currency: "eur", metadata: { plan } };
  const paid = await stripe.paymentIntents.create(body, idempotencyKey ? { idempotencyKey } : undefined);
  console.log(paid.id, paid.lastResponse.headers["idempotency-replayed"] ?? "first");
} catch (error) {
  console.log(error.type, error.statusCode, error.code, `after ${tries}`);
}
