// The canonical form and its hash: every vector that the server is tested with, and what only JavaScript has.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";

import {
  canonical,
  canonicalJson,
  fingerprint,
  fingerprintJson,
  jobKey,
  JsonRefused,
  opKey,
  parseJson,
  sha256Hex,
  toJson,
  type Profile,
} from "hapax";

import { PACKAGE } from "./server.js";

interface Vectors {
  cases: Array<{ name: string; input: string; profiles: Record<Profile, { canonical?: string; hash?: string; refused?: string }> }>;
}
interface KeyVectors {
  job: Array<{ name: string; kind: string; work_id: string; artifact_id: string; canonical_url: string; hash: string }>;
  op: Array<{ name: string; kind: string; job_id: string; context: string; hash: string }>;
}
const read = <T>(name: string): T => JSON.parse(readFileSync(join(PACKAGE, "../../spec/vectors", name), "utf8")) as T;

const refusal = (act: () => unknown): string => {
  try {
    return `not refused: ${String(act())}`;
  } catch (error) {
    if (error instanceof JsonRefused) return error.reason;
    throw error;
  }
};

test("every vector has the canonical text and hash that the server gives it, in every profile", () => {
  const { cases } = read<Vectors>("canonical.json");
  let checked = 0;
  for (const { name, input, profiles } of cases) {
    for (const [profile, expected] of Object.entries(profiles) as Array<[Profile, { canonical?: string; hash?: string; refused?: string }]>) {
      checked += 1;
      if (expected.refused !== undefined) {
        assert.equal(refusal(() => fingerprintJson(input, profile)), expected.refused, `${name}, ${profile}`);
        assert.equal(refusal(() => fingerprintJson(Buffer.from(input), profile)), expected.refused, `${name}, ${profile}`);
        continue;
      }
      if (expected.canonical !== undefined) assert.equal(canonicalJson(input, profile), expected.canonical, `${name}, ${profile}`);
      assert.equal(fingerprintJson(input, profile), expected.hash, `${name}, ${profile}`);
      assert.equal(fingerprintJson(Buffer.from(input), profile), expected.hash, `${name}, ${profile}`);
    }
  }
  assert.ok(checked >= 600, `only ${checked} vectors were found`);
});

test("a value has the hash of its JSON text wherever the text loses nothing", () => {
  const { cases } = read<Vectors>("canonical.json");
  let checked = 0;
  for (const { name, input, profiles } of cases) {
    const expected = profiles["hcj-1"]?.hash;
    if (expected === undefined) continue;
    checked += 1;
    assert.equal(fingerprint(parseJson(input)), expected, name);
    assert.equal(fingerprintJson(toJson(parseJson(input))), expected, name);
  }
  assert.ok(checked >= 60, `only ${checked} values were found`);
});

test("the keys of jobs and operations are the server's", () => {
  const { job, op } = read<KeyVectors>("keys.json");
  assert.ok(job.length > 0 && op.length > 0);
  for (const { name, kind, work_id, artifact_id, canonical_url, hash } of job) {
    assert.equal(jobKey({ workId: work_id, artifactId: artifact_id, canonicalUrl: canonical_url, kind }), hash, name);
  }
  for (const { name, kind, job_id, context, hash } of op) assert.equal(opKey(kind, job_id, context), hash, name);
  assert.equal(opKey("HEAD", "j-1", { url: "https://example.org/paper.pdf" }), op.find(({ name }) => name === "HEAD")?.hash);
  assert.throws(() => opKey("HEAD", "j-1", "[]"), TypeError);
});

describe("integers that no double equals", () => {
  test("keep their digits as BigInt and in text", () => {
    assert.equal(canonical({ n: 9007199254740993n }), '{"n":9007199254740993}');
    assert.equal(canonicalJson('{"n":9007199254740993}'), '{"n":9007199254740993}');
    assert.equal(canonical({ n: 9007199254740992n }), canonical({ n: 9007199254740992 }));
    assert.equal(canonical(10n ** 22n), "1e+22");
    assert.equal(canonical(10n ** 23n), "100000000000000000000000");
    assert.deepEqual(parseJson("[9007199254740993,1]"), [9007199254740993n, 1]);
    assert.equal(toJson({ n: 9007199254740993n }), '{"n":9007199254740993}');
  });

  test("beyond the range of a double are refused where the server refuses them", () => {
    const largest = BigInt(Number.MAX_VALUE);
    const half = (2n ** 1024n - largest) / 2n;
    for (const [value, isRefused] of [[largest, false], [largest + half - 1n, false], [largest + half, true], [-(largest + half), true]] as const) {
      const fromValue = refusal(() => canonical(value));
      const fromText = refusal(() => canonicalJson(String(value)));
      assert.equal(fromValue === "number_out_of_range", isRefused, String(value));
      assert.equal(fromText === "number_out_of_range", isRefused, String(value));
    }
  });
});

test("what JSON has not is refused, and the refusal says where it is", () => {
  const loop: { self?: unknown } = {};
  loop.self = loop;
  const values: unknown[] = [NaN, Infinity, undefined, () => 1, Symbol("s"), new Date(0), new Map(), new Set(), new Uint8Array(1), [undefined], [, 1], { a: undefined }, { [Symbol("s")]: 1 }, loop];
  for (const value of values) assert.equal(refusal(() => canonical(value)), "not_json");
  assert.throws(() => canonical({ a: [1, { b: NaN }] }), /\$\.a\[1\]\.b is NaN/);
  assert.equal(refusal(() => canonical("\ud800")), "lone_surrogate");
  assert.equal(refusal(() => canonical({ "\udc00": 1 })), "lone_surrogate");
  assert.equal(canonical(Object.assign(Object.create(null) as object, { a: -0 })), '{"a":0}');
});

test("a value may be as deep as a text", () => {
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);
  assert.equal(canonical(nested(128)), "[".repeat(128) + "1" + "]".repeat(128));
  assert.equal(refusal(() => canonical(nested(129))), "too_deep");
  const shared = { a: 1 };
  assert.equal(canonical([shared, shared]), '[{"a":1},{"a":1}]');
});

test("bytes that are not UTF-8 and a byte order mark are refused", () => {
  assert.equal(refusal(() => canonicalJson(new Uint8Array([0x22, 0xff, 0x22]))), "invalid_utf8");
  assert.equal(refusal(() => canonicalJson(new Uint8Array([0xef, 0xbb, 0xbf, 0x31]))), "syntax");
  assert.equal(refusal(() => canonicalJson("\ufeff1")), "syntax");
});

test("a member called __proto__ is a member", () => {
  const value = parseJson('{"__proto__":{"polluted":true}}') as Record<string, unknown>;
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  assert.equal(canonical(value), '{"__proto__":{"polluted":true}}');
});

test("an unknown profile is refused by name", () => {
  assert.throws(() => fingerprint({}, "md5" as Profile), /hcj-1/);
});

test("SHA-256 is that of Node at every length around a block, and for long inputs", () => {
  const of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
  const bytes = randomBytes(300);
  for (let length = 0; length <= 300; length += 1) assert.equal(sha256Hex(bytes.subarray(0, length)), of(bytes.subarray(0, length)));
  const long = randomBytes(1_000_003);
  assert.equal(sha256Hex(long), of(long));
  assert.equal(sha256Hex("é𝄞"), of(Buffer.from("é𝄞")));
});
