// A real hapax server per test file and store, on a free port, stopped by its own handle.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { after, before, describe } from "node:test";

import { Hapax } from "hapax";

const run = promisify(execFile);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const START_MS_MAX = 30_000;
const STOP_MS_MAX = 15_000;

/** The package's own folder: this file is built into dist-test. */
export const PACKAGE = fileURLToPath(new URL("..", import.meta.url));

/** The program under test. */
export async function hapaxProgram(): Promise<string> {
  const path = process.env["HAPAX_BIN"] ?? join(PACKAGE, "../../target/debug/hapax");
  await access(path).catch(() => {
    throw new Error(`${path} is missing; build it with cargo build -p hapax-server, or name it in HAPAX_BIN`);
  });
  return path;
}

export type Store = "sqlite" | "postgres";

/** A running server. */
export class Server {
  readonly url: string;
  readonly token: string;
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #dropDatabase: () => Promise<void>;

  private constructor(url: string, token: string, child: ChildProcess, folder: string, drop: () => Promise<void>) {
    this.url = url;
    this.token = token;
    this.#child = child;
    this.#folder = folder;
    this.#dropDatabase = drop;
  }

  static async start(store: Store): Promise<Server> {
    const program = await hapaxProgram();
    const folder = await mkdtemp(join(tmpdir(), "hapax-sdk-"));
    const database = store === "postgres" ? await createDatabase() : undefined;
    const data = join(folder, "data");
    const args = ["serve", "--listen", "127.0.0.1:0", "--data", data];
    if (database !== undefined) args.push("--database", database.url);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("HAPAX_")));
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    // A test run that is stopped early takes its servers along.
    process.once("exit", () => child.kill("SIGKILL"));
    const log: string[] = [];
    child.stderr.on("data", (chunk: Buffer) => log.push(chunk.toString()));
    try {
      const url = await listening(child);
      const token = (await readFile(join(data, "token"), "utf8")).trim();
      return new Server(url, token, child, folder, database?.drop ?? (() => Promise.resolve()));
    } catch (error) {
      child.kill("SIGKILL");
      throw new Error(`hapax did not start: ${String(error)}; it said: ${log.join("")}`);
    }
  }

  client(options: ConstructorParameters<typeof Hapax>[0] = {}): Hapax {
    return new Hapax({ baseUrl: this.url, token: this.token, ...options });
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
    await ended;
    clearTimeout(timer);
    await this.#dropDatabase();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no address in time")), START_MS_MAX);
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`exit ${code}`)));
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const url = /^listening on (http:\/\/\S+)/.exec(line)?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
  });
}

async function createDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const base = process.env["HAPAX_TEST_POSTGRES"];
  if (base === undefined) {
    throw new Error("HAPAX_TEST_POSTGRES is not set; run the suite through dev/with-postgres sdk/typescript/check");
  }
  const name = `sdk_ts_${randomUUID().replaceAll("-", "")}`;
  await run("psql", [base, "-qc", `CREATE DATABASE ${name}`]);
  const url = new URL(base);
  url.pathname = `/${name}`;
  const drop = async (): Promise<void> => {
    await run("psql", [base, "-qc", `DROP DATABASE ${name} WITH (FORCE)`]);
  };
  return { url: url.href, drop };
}

/** Runs the tests of `body` against a server on each store. */
export function onEachStore(name: string, body: (server: () => Server) => void): void {
  for (const store of ["sqlite", "postgres"] as const) {
    describe(`${name} (${store})`, { concurrency: 2 }, () => {
      let server: Server | undefined;
      before(async () => {
        server = await Server.start(store);
      });
      after(async () => {
        await server?.stop();
      });
      body(() => {
        if (server === undefined) throw new Error("the server did not start");
        return server;
      });
    });
  }
}
