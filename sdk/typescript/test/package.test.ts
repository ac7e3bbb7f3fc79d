// What the package promises about itself: the core runs without Node, and nothing comes along with it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { test } from "node:test";

import { PACKAGE } from "./server.js";

interface Manifest {
  exports: Record<string, { types: string; default: string } | string>;
  dependencies?: Record<string, string>;
  devDependencies: Record<string, string>;
}
const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as Manifest;

/** Every module that a built file leads to, and every specifier that leaves the package. */
function graph(entry: string): { files: Set<string>; outside: Set<string> } {
  const files = new Set<string>();
  const outside = new Set<string>();
  const visit = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const [, specifier = ""] of readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      if (specifier.startsWith(".")) visit(resolve(dirname(file), specifier));
      else outside.add(specifier);
    }
  };
  visit(resolve(PACKAGE, entry));
  return { files, outside };
}

for (const name of [".", "./fetch", "./hono", "./worker", "./artifacts"]) {
  test(`the entry ${name} imports nothing from outside, so it runs in a browser`, () => {
    const entry = manifest.exports[name] as { default: string };
    const { files, outside } = graph(entry.default);
    assert.deepEqual([...outside], []);
    assert.ok(files.size > 3, "the graph was not read");
  });
}

test("the entries for Node import only from node:", () => {
  for (const name of ["./express", "./fastify", "./node"]) {
    const entry = manifest.exports[name] as { default: string };
    const { outside } = graph(entry.default);
    assert.ok(outside.size > 0 || name === "./express", name);
    for (const specifier of outside) assert.match(specifier, /^node:/);
  }
});

test("there is no runtime dependency, and tools have exact versions", () => {
  assert.equal(manifest.dependencies, undefined);
  for (const version of Object.values(manifest.devDependencies)) assert.match(version, /^[0-9]+\.[0-9]+\.[0-9]+$/);
});

test("no file that users get speaks of a global that browsers lack", () => {
  for (const file of graph("dist/index.js").files) {
    const code = readFileSync(file, "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    assert.doesNotMatch(code, /\bBuffer\b|\brequire\(|(?<!\.)\bprocess\.(?!env)/, file);
  }
});
