// Canonical JSON: one text, and so one hash, for every spelling of the same document. Equal to the server's.

import { sha256Hex } from "../sha256.js";
import { treeOf } from "./json.js";
import { dialectOf, PROFILES, write, type Profile } from "./profiles.js";
import { readTree, type Tree } from "./tree.js";

export { JsonRefused, type Reason } from "./refused.js";
export { parseJson, toJson, type Json } from "./json.js";
export type { Profile } from "./profiles.js";

/**
 * The canonical text of a value; its UTF-8 is what is hashed.
 *
 * ```ts
 * canonical({ b: 1.0, a: 9007199254740993n }); // {"a":9007199254740993,"b":1}
 * canonical({ a: undefined });                 // throws JsonRefused: JSON does not have undefined
 * ```
 *
 * @throws JsonRefused for what JSON has not: NaN, Infinity, undefined, functions, symbols, class instances, cycles.
 */
export function canonical(value: unknown, profile: Profile = "hcj-1"): string {
  return write(treeOf(value), known(profile));
}

/** The lower-case hex SHA-256 of the canonical text; for `thorbis16` its first 16 digits. */
export function fingerprint(value: unknown, profile: Profile = "hcj-1"): string {
  return hash(canonical(value, profile), profile);
}

/**
 * The canonical text of a JSON text or of its bytes, by the server's rules. Integers keep their digits.
 *
 * @throws JsonRefused with the `reason` that the server's `details.reason` would say.
 */
export function canonicalJson(text: string | Uint8Array, profile: Profile = "hcj-1"): string {
  const tree: Tree = readTree(text, dialectOf(known(profile)));
  return write(tree, profile);
}

/** The lower-case hex SHA-256 of the canonical text of a JSON text. */
export function fingerprintJson(text: string | Uint8Array, profile: Profile = "hcj-1"): string {
  return hash(canonicalJson(text, profile), profile);
}

function hash(text: string, profile: Profile): string {
  const hex = sha256Hex(text);
  return profile === "thorbis16" ? hex.slice(0, 16) : hex;
}

function known(profile: Profile): Profile {
  if (!PROFILES.includes(profile)) throw new TypeError(`unknown profile ${String(profile)}; use ${PROFILES.join(", ")}`);
  return profile;
}
