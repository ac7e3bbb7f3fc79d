// Prints the hcj-1 hash of each line of a file of JSON texts, or `refused:` and the reason: one line for one line.
// Usage: node crosscheck.mjs FILE. Needs the built package: run ./check, or npm run build.

import { readFileSync } from "node:fs";

import { fingerprintJson, JsonRefused } from "./dist/index.js";

const [, , path] = process.argv;
if (path === undefined) {
  console.error("usage: node crosscheck.mjs FILE");
  process.exit(2);
}
const NEWLINE = 0x0a;
const bytes = readFileSync(path);
const lines = [];
for (let at = 0; at < bytes.length; ) {
  const found = bytes.indexOf(NEWLINE, at);
  const end = found < 0 ? bytes.length : found;
  lines.push(hash(bytes.subarray(at, end)));
  at = end + 1;
}
process.stdout.write(lines.map((line) => `${line}\n`).join(""));

function hash(text) {
  try {
    return fingerprintJson(text);
  } catch (error) {
    if (error instanceof JsonRefused) return `refused:${error.reason}`;
    throw error;
  }
}
