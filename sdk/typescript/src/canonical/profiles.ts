// The canonical forms. `hcj-1` makes new hashes; the others reproduce older snippets, to verify hashes that they made.

import { hcjNumber, pythonNumber } from "./numbers.js";
import { JsonRefused } from "./refused.js";
import { hasLoneSurrogate, Literal, Members, type Dialect, type Tree } from "./tree.js";

/** A canonical form of JSON. */
export type Profile = "hcj-1" | "py-json" | "py-json-utf8" | "js-sorted" | "thorbis16";

export const PROFILES: readonly Profile[] = ["hcj-1", "py-json", "py-json-utf8", "js-sorted", "thorbis16"];

/** Whose parser reads the text for a profile. */
export function dialectOf(profile: Profile): Dialect {
  if (profile === "hcj-1") return "strict";
  return profile.startsWith("py") ? "python" : "javascript";
}

/** The canonical text of a tree. */
export function write(tree: Tree, profile: Profile): string {
  switch (profile) {
    case "hcj-1":
      return writeSorted(tree, byUnits, hcjNumber, JSON.stringify, JSON.stringify);
    case "py-json":
      return writeSorted(tree, byCodePoints, pythonNumber, asciiString, asciiString);
    case "py-json-utf8":
      return writeSorted(tree, byCodePoints, pythonNumber, utf8String, utf8String);
    case "js-sorted":
      return writeSorted(tree, byUnits, scriptNumber, JSON.stringify, rawKey);
    case "thorbis16":
      return writeSorted(rebuild(tree).tree, asTheyAre, scriptNumber, JSON.stringify, JSON.stringify);
  }
}

type Order = ((left: string, right: string) => number) | undefined;
type WriteString = (text: string) => string;

function writeSorted(
  tree: Tree,
  order: Order,
  number: (literal: Literal) => string,
  string: WriteString,
  key: WriteString,
): string {
  const inner = (value: Tree): string => {
    if (value === null || typeof value === "boolean") return String(value);
    if (typeof value === "string") return string(value);
    if (value instanceof Literal) return number(value);
    if (Array.isArray(value)) return `[${value.map(inner).join(",")}]`;
    const members = order === undefined ? value.list : [...value.list].sort(([a], [b]) => order(a, b));
    return `{${members.map(([name, member]) => `${key(name)}:${inner(member)}`).join(",")}}`;
  };
  return inner(tree);
}

const asTheyAre: Order = undefined;

function byUnits(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function byCodePoints(left: string, right: string): number {
  const a = Array.from(left, (char) => char.codePointAt(0)!);
  const b = Array.from(right, (char) => char.codePointAt(0)!);
  for (let at = 0; at < a.length && at < b.length; at += 1) {
    if (a[at] !== b[at]) return a[at]! - b[at]!;
  }
  return a.length - b.length;
}

function scriptNumber(literal: Literal): string {
  const double = Number(literal.text);
  return Number.isFinite(double) ? String(double) : "null";
}

function asciiString(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function utf8String(text: string): string {
  if (hasLoneSurrogate(text)) throw loneSurrogate();
  return JSON.stringify(text);
}

function rawKey(text: string): string {
  if (hasLoneSurrogate(text)) throw loneSurrogate();
  if (/[\u0000-\u001f"\\]/.test(text)) {
    throw new JsonRefused("key_needs_escape", "a key that js-sorted would write unescaped");
  }
  return `"${text}"`;
}

function loneSurrogate(): JsonRefused {
  return new JsonRefused("lone_surrogate", "a surrogate without its other half");
}

const DROPPED: ReadonlySet<string> = new Set([
  "created_at",
  "updated_at",
  "timestamp",
  "_metadata",
  "request_id",
  "trace_id",
  "session_id",
]);

/** Array indices end here; larger numbers are ordinary keys. */
const INDEX_MAX = 0xffff_fffe;

/** How `String()` takes a value: a text, nothing inside an array, the usual text of objects, or it throws. */
type Conversion = { text: string } | "null" | "object" | "throws";

interface Rebuilt {
  tree: Tree;
  conversion: Conversion;
}

/** The value after the snippet's normalisation. */
function rebuild(tree: Tree): Rebuilt {
  if (Array.isArray(tree)) return rebuildArray(tree);
  if (tree instanceof Members) return rebuildObject(tree);
  if (tree === null) return { tree, conversion: "null" };
  if (tree instanceof Literal) return { tree, conversion: { text: String(Number(tree.text)) } };
  return { tree, conversion: { text: String(tree) } };
}

function rebuildArray(elements: readonly Tree[]): Rebuilt {
  const rebuilt = elements.map(rebuild);
  if (rebuilt.length > 1) {
    if (rebuilt.some(({ conversion }) => conversion === "throws")) {
      throw new JsonRefused("not_sortable", "an object that thorbis16 cannot sort");
    }
    rebuilt.sort((a, b) => byUnits(sortText(a.conversion), sortText(b.conversion)));
  }
  const texts = rebuilt.map(({ conversion }) => (conversion === "null" ? "" : sortText(conversion)));
  const throws = rebuilt.some(({ conversion }) => conversion === "throws");
  return { tree: rebuilt.map((one) => one.tree), conversion: throws ? "throws" : { text: texts.join(",") } };
}

function sortText(conversion: Conversion): string {
  if (conversion === "null") return "null";
  if (conversion === "object") return "[object Object]";
  return conversion === "throws" ? "" : conversion.text;
}

function rebuildObject(members: Members): Rebuilt {
  let conversion: Conversion = "object";
  const rebuilt: Array<[string, Tree]> = [];
  const sorted = [...members.list].sort(([a], [b]) => byUnits(a, b));
  for (const [name, member] of sorted) {
    if (DROPPED.has(name)) continue;
    const inner = rebuild(member);
    if (name === "__proto__") {
      // Assigning to it sets the prototype, or does nothing for a primitive value.
      const isPrototype = inner.tree === null || Array.isArray(inner.tree);
      if (isPrototype || (inner.tree instanceof Members && inner.conversion === "throws")) conversion = "throws";
      continue;
    }
    if (name === "toString") conversion = "throws";
    rebuilt.push([name, inner.tree]);
  }
  // ECMAScript lists array indices first and by number.
  rebuilt.sort(([a], [b]) => arrayIndex(a) - arrayIndex(b) || 0);
  return { tree: new Members(rebuilt), conversion };
}

function arrayIndex(name: string): number {
  const isIndex = /^(0|[1-9][0-9]{0,9})$/.test(name) && Number(name) <= INDEX_MAX;
  return isIndex ? Number(name) : Number.MAX_SAFE_INTEGER;
}
