// Starts a real `hapax serve` in a folder of its own, and stops it by its id.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { mailbox } from "./seed.mjs";

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.once(signal, () => process.exit(1));

const START_MS = 30_000;
const CONFIG = fileURLToPath(new URL("hapax.toml", import.meta.url));

export async function startServer({ token, folder, listen = "127.0.0.1:0" } = {}) {
  const home = folder ?? mkdtempSync(join(tmpdir(), "hapax-e2e-"));
  const data = join(home, "data");
  const mail = join(home, "mail");
  mkdirSync(mail, { recursive: true });
  writeFileSync(join(mail, "archive.mbox"), mailbox());
  const database = databaseOf(home);
  const flags = ["serve", "--config", CONFIG, "--listen", listen, "--data", data, ...database];
  const child = spawn(process.env.HAPAX_BIN, token ? flags : [...flags, "--insecure-no-auth"], {
    cwd: home,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env.PATH,
      HOME: home,
      EMAIL_IMPORT_ROOT: mail,
      // A model that nobody answers for: batches are kept and wait.
      OPENAI_BASE_URL: "http://127.0.0.1:9/v1",
      LITELLM_MASTER_KEY: "e2e",
      ...(process.env.HAPAX_DASHBOARD_DIR ? { HAPAX_DASHBOARD_DIR: process.env.HAPAX_DASHBOARD_DIR } : {}),
      ...(token ? { HAPAX_TOKEN: token } : {}),
    },
  });
  // Whatever ends the tests ends the server too.
  process.once("exit", () => {
    child.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });
  let said = "";
  const ended = new Promise((done) => child.once("exit", done));
  const base = await new Promise((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`hapax did not start: ${said}`)), START_MS);
    const read = (chunk) => {
      said += chunk;
      const found = /listening on (http:\/\/[^\s]+)/.exec(said);
      if (found) {
        clearTimeout(timer);
        done(found[1]);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("exit", (code) => failed(new Error(`hapax ended with ${code}: ${said}`)));
    child.once("error", failed);
  }).catch((error) => {
    child.kill("SIGKILL");
    throw error;
  });
  const stop = async ({ keep = false } = {}) => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
    await ended;
    clearTimeout(timer);
    if (!keep) rmSync(home, { recursive: true, force: true });
  };
  // A command of the same program on the same data.
  const run = (...words) =>
    execFileSync(process.env.HAPAX_BIN, [...words, "--data", data, ...database], {
      cwd: home,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
  return { base, home, stop, run };
}

// On PostgreSQL, if HAPAX_TEST_POSTGRES names a server: a database for each folder.
function databaseOf(home) {
  const server = process.env.HAPAX_TEST_POSTGRES;
  if (!server) return [];
  const name = `e2e_${basename(home).replaceAll(/[^a-zA-Z0-9]/g, "_").toLowerCase()}`;
  const there = psql(server, `SELECT 1 FROM pg_database WHERE datname = '${name}'`);
  if (!there) psql(server, `CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return ["--database", url.href];
}

function psql(server, statement) {
  const asked = ["-XqAt", "-d", server, "-c", statement];
  return execFileSync("psql", asked, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}
