// An app whose process dies inside its handler, for the test of a lost lease. Arguments: the framework, the lease.

import { Hapax } from "hapax";

import { FRAMEWORKS } from "./apps.js";

const [, , framework = "express", leaseSeconds = "1"] = process.argv;
const app = await FRAMEWORKS[framework]!(
  () => {
    process.stdout.write("began\n", () => process.kill(process.pid, "SIGKILL"));
    return new Promise(() => undefined);
  },
  { client: new Hapax(), leaseSeconds: Number(leaseSeconds) },
);
process.stdout.write(`${app.url}\n`);
// Nobody needs it for longer.
setTimeout(() => process.exit(1), 30_000).unref();
