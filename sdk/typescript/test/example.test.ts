// The example app, as a user runs it: beside a real server, killed and started again.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { onEachStore, PACKAGE, type Server } from "./server.js";

const SAYS_MS_MAX = 20_000;

async function start(folder: string, server: Server): Promise<{ url: string; child: ChildProcess }> {
  const env = { ...process.env, HAPAX_URL: server.url, HAPAX_TOKEN: server.token, PORT: "0" };
  const child = spawn(process.execPath, ["server.js"], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the example said nothing")), SAYS_MS_MAX);
    child.once("exit", (code) => reject(new Error(`the example ended with ${code}`)));
    createInterface({ input: child.stdout! }).once("line", (line) => {
      clearTimeout(timer);
      resolve(line.replace("listening on ", ""));
    });
  });
  return { url, child };
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

onEachStore("the Express example", (server: () => Server) => {
  test("pays once, says so after a restart, and shows how another request differs", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hapax-example-"));
    const app = join(folder, "app");
    try {
      await cp(join(PACKAGE, "../../examples/express"), app, { recursive: true, filter: (path) => !/node_modules|\.jsonl$/.test(path) });
      await mkdir(join(app, "node_modules"));
      await symlink(PACKAGE, join(app, "node_modules/hapax"));
      await symlink(join(PACKAGE, "node_modules/express"), join(app, "node_modules/express"));
      let { url, child } = await start(app, server());
      try {
        const pay = async (amount: unknown, key = "order-7") => {
          const headers = { "idempotency-key": key, "content-type": "application/json" };
          const response = await fetch(`${url}/payments`, { method: "POST", headers, body: JSON.stringify({ amount }) });
          return { status: response.status, replayed: response.headers.get("idempotency-replayed"), location: response.headers.get("location"), body: await response.text() };
        };
        const first = await pay(1000);
        assert.deepEqual(first, { status: 201, replayed: null, location: "/payments/1", body: '{"id":1,"amount":1000}' });
        assert.deepEqual(await pay(1000), { ...first, replayed: "true" });
        await kill(child);
        ({ url, child } = await start(app, server()));
        assert.deepEqual(await pay(1000), { ...first, replayed: "true" });
        const other = await pay(9900);
        assert.equal(other.status, 409);
        assert.match(other.body, /amount: '1000' → '9900'/);
        assert.equal((await pay("much", "order-8")).status, 422);
        assert.equal((await pay("much", "order-8")).replayed, "true");
        const listed: unknown = await (await fetch(`${url}/payments`)).json();
        assert.deepEqual(listed, [{ id: 1, amount: 1000 }]);
      } finally {
        await kill(child);
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
