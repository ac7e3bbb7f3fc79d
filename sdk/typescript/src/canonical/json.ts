// Plain values to the tree and back: JSON without loss, integers beyond a double as BigInt.

import { isDouble } from "./numbers.js";
import { JsonRefused } from "./refused.js";
import { DEPTH_MAX, hasLoneSurrogate, Literal, Members, readTree, type Tree } from "./tree.js";

/** What JSON has. An integer that no double equals is a BigInt. */
export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

/** The tree of a value; refuses what JSON has not. */
export function treeOf(value: unknown): Tree {
  return branch(value, "$", []);
}

function branch(value: unknown, path: string, above: readonly object[]): Tree {
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      return checked(value, path);
    case "number":
      if (!Number.isFinite(value)) throw notJson(path, `is ${value}`);
      return new Literal(String(value), Number.isInteger(value) && !String(value).includes("e"));
    case "bigint":
      if (!Number.isFinite(Number(value))) {
        throw new JsonRefused("number_out_of_range", `${path} is an integer beyond the range of a double`);
      }
      return new Literal(String(value), true);
    case "object":
      return value === null ? null : container(value, path, above);
    default:
      throw notJson(path, `is ${typeof value === "undefined" ? "undefined" : `a ${typeof value}`}`);
  }
}

function container(value: object, path: string, above: readonly object[]): Tree {
  if (above.includes(value)) throw notJson(path, "holds itself");
  if (above.length >= DEPTH_MAX) {
    throw new JsonRefused("too_deep", `${path} is more than ${DEPTH_MAX} containers deep`);
  }
  const within = [...above, value];
  if (Array.isArray(value)) {
    return Array.from(value, (element, at) => branch(element, `${path}[${at}]`, within));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype as object) !== null) {
    throw notJson(path, `is a ${value.constructor?.name ?? "class instance"}`);
  }
  const symbols = Object.getOwnPropertySymbols(value);
  if (symbols.length > 0) throw notJson(path, "has a symbol as a key");
  const list = Object.entries(value).map(([name, member]): [string, Tree] => {
    const where = `${path}.${name}`;
    return [checked(name, where), branch(member, where, within)];
  });
  return new Members(list);
}

function checked(text: string, path: string): string {
  if (hasLoneSurrogate(text)) {
    throw new JsonRefused("lone_surrogate", `${path} holds a surrogate without its other half`);
  }
  return text;
}

function notJson(path: string, what: string): JsonRefused {
  return new JsonRefused("not_json", `${path} ${what}, which JSON does not have; convert it first`);
}

/** The value of a JSON text by the server's rules, without loss: integers that no double equals become BigInt. */
export function parseJson(text: string | Uint8Array, depthMax = DEPTH_MAX): Json {
  return plain(readTree(text, "strict", depthMax));
}

function plain(tree: Tree): Json {
  if (tree instanceof Literal) {
    return tree.isInteger && !isDouble(tree.text) ? BigInt(tree.text) : Number(tree.text);
  }
  if (Array.isArray(tree)) return tree.map(plain);
  if (!(tree instanceof Members)) return tree;
  const object: { [name: string]: Json } = {};
  for (const [name, value] of tree.list) {
    // A member of this name must not become the prototype.
    if (name === "__proto__") {
      Object.defineProperty(object, name, { value: plain(value), enumerable: true, configurable: true, writable: true });
    } else {
      object[name] = plain(value);
    }
  }
  return object;
}

/**
 * JSON text of a value, with BigInt as digits. As `JSON.stringify` does, it leaves out members that are undefined and
 * asks `toJSON`; it refuses what would be lost: NaN, functions, a value that is undefined itself.
 */
export function toJson(value: unknown): string {
  return text(value, "$", 0);
}

function text(given: unknown, path: string, depth: number): string {
  let value = given;
  if (typeof value === "object" && value !== null && "toJSON" in value && typeof value.toJSON === "function") {
    value = (value.toJSON as (key: string) => unknown)("");
  }
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw notJson(path, `is ${value}`);
  if (value === undefined || typeof value === "function" || typeof value === "symbol") {
    throw notJson(path, `is ${value === undefined ? "undefined" : `a ${typeof value}`}`);
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  // The envelope around a payload is deeper than the payload.
  if (depth > DEPTH_MAX + 8) throw new JsonRefused("too_deep", `${path} is too deep, or holds itself`);
  if (Array.isArray(value)) {
    return `[${value.map((element, at) => text(element, `${path}[${at}]`, depth + 1)).join(",")}]`;
  }
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${text(member, `${path}.${name}`, depth + 1)}`).join(",")}}`;
}
