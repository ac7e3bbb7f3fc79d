// express-idempotency with its own adapter: records in memory, lost when the process ends.
const express = require("express");
const { idempotency, getSharedIdempotencyService } = require("express-idempotency");
const { pay, listen } = require("./handler");

const app = express();
app.use(express.json());
app.use(idempotency());
app.post("/payments", (request, response) => {
  if (getSharedIdempotencyService().isHit(request)) return;
  response.status(201).json(pay(request.body));
});
listen(app);
