// The payments themselves, one line each in a file. Nothing here knows of keys.

import { appendFile, open, readFile } from "node:fs/promises";

export class Payments {
  #path;
  #last;

  constructor(path) {
    this.#path = path;
    this.#last = Promise.resolve();
  }

  /** All payments, oldest first. */
  async list() {
    const text = await readFile(this.#path, "utf8").catch((error) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  }

  /** Pays, one payment after the other, and is done when the payment is on disk. */
  pay(amount) {
    const paid = this.#last.then(() => this.#append(amount));
    this.#last = paid.catch(() => undefined);
    return paid;
  }

  async #append(amount) {
    const payment = { id: (await this.list()).length + 1, amount };
    await appendFile(this.#path, `${JSON.stringify(payment)}\n`);
    const file = await open(this.#path, "r");
    await file.sync().finally(() => file.close());
    return payment;
  }
}
