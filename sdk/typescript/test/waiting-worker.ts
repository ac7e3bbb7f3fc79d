// A worker that ends by Ctrl-C. Arguments: the kind of jobs, how long one takes.

import { setTimeout as sleep } from "node:timers/promises";

import { Hapax } from "hapax";
import { job, Worker } from "hapax/worker";

const [, , kind = "k", goesOnMs = "500"] = process.argv;
const handler = async (): Promise<string> => {
  console.info("began");
  await sleep(Number(goesOnMs));
  return "came to its end";
};
await new Worker(new Hapax(), { jobs: [job(kind, handler)], pollMs: 60_000 }).run();
console.info("ended");
