// Reads JSON text into a small tree that keeps number literals, by the rules of the server or as older parsers did.
// It is no general JSON library: `parseJson` in `json.ts` makes plain values of the tree.

import { JsonRefused, type Reason } from "./refused.js";

/** How many containers may stand inside each other. */
export const DEPTH_MAX = 128;

/** Python turns longer integer literals away. */
const PYTHON_DIGITS_MAX = 4300;

/** A number as it was written. */
export class Literal {
  readonly text: string;
  readonly isInteger: boolean;

  constructor(text: string, isInteger: boolean) {
    this.text = text;
    this.isInteger = isInteger;
  }
}

/** The members of an object in the order of their text. */
export class Members {
  readonly list: ReadonlyArray<[name: string, value: Tree]>;

  constructor(list: ReadonlyArray<[string, Tree]>) {
    this.list = list;
  }
}

export type Tree = null | boolean | string | Literal | Tree[] | Members;

/** Whose parser is reproduced: ours, Python's `json.loads`, or `JSON.parse`. */
export type Dialect = "strict" | "python" | "javascript";

const WORDS: ReadonlyArray<[string, null | boolean]> = [
  ["true", true],
  ["false", false],
  ["null", null],
];
const NUMBER = /-?([0-9]+)(\.[0-9]*)?([eE][+-]?[0-9]*)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const BLANK = /[ \n\r\t]*/y;
const LONE = /\p{Surrogate}/u;
const SHORT: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** Whether a text holds half of a surrogate pair. */
export function hasLoneSurrogate(text: string): boolean {
  return LONE.test(text);
}

/** The tree of a JSON text. Bytes are read as UTF-8. What carries a payload may be deeper than a payload. */
export function readTree(input: string | Uint8Array, dialect: Dialect, depthMax = DEPTH_MAX): Tree {
  return new Reader(decode(input), dialect, depthMax).whole();
}

/** The text of the value at `path` in a text that is known to be JSON, as it stands there; or nothing. */
export function sliceOf(text: string, path: readonly string[]): string | undefined {
  return new Reader(text, "javascript", DEPTH_MAX + path.length).slice(path);
}

function decode(input: string | Uint8Array): string {
  let text = input;
  if (typeof text !== "string") {
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text);
    } catch {
      throw new JsonRefused("invalid_utf8", "the bytes are not UTF-8");
    }
  } else if (hasLoneSurrogate(text)) {
    throw new JsonRefused("lone_surrogate", "the text holds a surrogate without its other half");
  }
  if (text.startsWith("\ufeff")) throw new JsonRefused("syntax", "the text begins with a byte order mark; leave it out");
  return text;
}

class Reader {
  readonly #text: string;
  readonly #dialect: Dialect;
  readonly #depthMax: number;
  #at = 0;

  constructor(text: string, dialect: Dialect, depthMax: number) {
    this.#text = text;
    this.#dialect = dialect;
    this.#depthMax = depthMax;
  }

  whole(): Tree {
    this.#blanks();
    const tree = this.#value(0);
    this.#blanks();
    if (this.#at < this.#text.length) this.#refuse("syntax", "more text after the value");
    return tree;
  }

  slice(path: readonly string[]): string | undefined {
    this.#blanks();
    for (const name of path) {
      if (this.#peek() !== "{" || !this.#enter(name)) return undefined;
    }
    const start = this.#at;
    this.#value(path.length);
    return this.#text.slice(start, this.#at);
  }

  /** Goes to the value of a member of the object that begins here. */
  #enter(name: string): boolean {
    this.#at += 1;
    this.#blanks();
    while (this.#peek() === '"') {
      const found = this.#string();
      this.#blanks();
      this.#at += 1;
      this.#blanks();
      if (found === name) return true;
      this.#value(1);
      this.#blanks();
      if (this.#peek() !== ",") return false;
      this.#at += 1;
      this.#blanks();
    }
    return false;
  }

  #value(depth: number): Tree {
    const next = this.#peek();
    if (next === '"') return this.#string();
    if (next === "{" || next === "[") {
      if (depth >= this.#depthMax) {
        this.#refuse("too_deep", `more than ${this.#depthMax} containers inside each other`);
      }
      return next === "{" ? this.#object(depth) : this.#array(depth);
    }
    if (this.#dialect === "python") {
      for (const word of ["NaN", "Infinity", "-Infinity"]) {
        if (this.#text.startsWith(word, this.#at)) {
          this.#at += word.length;
          return new Literal(word, false);
        }
      }
    }
    if (next === "-" || (next >= "0" && next <= "9")) return this.#number();
    for (const [word, value] of WORDS) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return value;
      }
    }
    return this.#refuse("syntax", "expected a value");
  }

  #object(depth: number): Members {
    const list: Array<[string, Tree]> = [];
    let isSorted = true;
    this.#at += 1;
    this.#blanks();
    if (this.#peek() === "}") {
      this.#at += 1;
      return new Members(list);
    }
    for (;;) {
      if (this.#peek() !== '"') this.#refuse("syntax", "expected a key");
      const name = this.#string();
      const before = list.at(-1)?.[0];
      if (this.#dialect === "strict" && isSorted && before !== undefined) {
        if (before === name) this.#refuse("duplicate_key", "the same key twice in one object");
        isSorted = before < name;
      }
      this.#blanks();
      if (this.#peek() !== ":") this.#refuse("syntax", "expected a colon");
      this.#at += 1;
      this.#blanks();
      list.push([name, this.#value(depth + 1)]);
      this.#blanks();
      const next = this.#peek();
      if (next !== "," && next !== "}") this.#refuse("syntax", "expected a comma or a closing brace");
      this.#at += 1;
      if (next === "}") break;
      this.#blanks();
    }
    if (this.#dialect !== "strict") return new Members(lastWins(list));
    // What comes in order was compared on the way; the rest is looked at when the object is whole.
    if (!isSorted && new Set(list.map(([name]) => name)).size < list.length) {
      this.#refuse("duplicate_key", "the same key twice in one object");
    }
    return new Members(list);
  }

  #array(depth: number): Tree[] {
    const elements: Tree[] = [];
    this.#at += 1;
    this.#blanks();
    if (this.#peek() === "]") {
      this.#at += 1;
      return elements;
    }
    for (;;) {
      elements.push(this.#value(depth + 1));
      this.#blanks();
      const next = this.#peek();
      if (next !== "," && next !== "]") this.#refuse("syntax", "expected a comma or a closing bracket");
      this.#at += 1;
      if (next === "]") return elements;
      this.#blanks();
    }
  }

  #string(): string {
    this.#at += 1;
    let content = "";
    for (;;) {
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.#text)?.[0] ?? "";
      content += plain;
      this.#at += plain.length;
      const next = this.#peek();
      if (next === '"') {
        this.#at += 1;
        return content;
      }
      if (next !== "\\") {
        const isEnd = this.#at >= this.#text.length;
        this.#refuse("syntax", isEnd ? "a string without its closing quote" : "a control character in a string");
      }
      content += this.#escape();
    }
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? "";
    const short = Object.hasOwn(SHORT, letter) ? SHORT[letter] : undefined;
    if (short !== undefined) {
      this.#at += 2;
      return short;
    }
    if (letter !== "u") this.#refuse("syntax", "an unknown escape");
    const first = this.#hex4(this.#at + 2);
    if (first < 0xd800 || first > 0xdfff) {
      this.#at += 6;
      return String.fromCharCode(first);
    }
    if (first < 0xdc00 && this.#text.startsWith("\\u", this.#at + 6)) {
      const second = this.#hex4(this.#at + 8);
      if (second >= 0xdc00 && second <= 0xdfff) {
        this.#at += 12;
        return String.fromCharCode(first, second);
      }
    }
    if (this.#dialect === "strict") this.#refuse("lone_surrogate", "a surrogate without its other half");
    this.#at += 6;
    return String.fromCharCode(first);
  }

  #hex4(at: number): number {
    const digits = this.#text.slice(at, at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.#refuse("syntax", "expected four hex digits");
    return Number.parseInt(digits, 16);
  }

  #number(): Literal {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#text);
    if (match === null) return this.#refuse("syntax", "expected a digit");
    const [text, whole = "", fraction, exponent] = match;
    if (whole.length > 1 && whole.startsWith("0")) this.#refuse("syntax", "a number with a leading zero");
    if (fraction === ".") this.#refuse("syntax", "expected a digit after the point");
    if (exponent !== undefined && !/[0-9]$/.test(exponent)) this.#refuse("syntax", "expected a digit in the exponent");
    const isInteger = fraction === undefined && exponent === undefined;
    if (this.#dialect === "strict" && !Number.isFinite(Number(text))) {
      this.#refuse("number_out_of_range", "a number beyond the range of a double");
    }
    if (this.#dialect === "python" && isInteger && whole.length > PYTHON_DIGITS_MAX) {
      this.#refuse("number_out_of_range", `an integer of more than ${PYTHON_DIGITS_MAX} digits, which Python refuses`);
    }
    this.#at += text.length;
    return new Literal(text, isInteger);
  }

  #blanks(): void {
    BLANK.lastIndex = this.#at;
    this.#at += BLANK.exec(this.#text)?.[0].length ?? 0;
  }

  #peek(): string {
    return this.#text[this.#at] ?? "";
  }

  #refuse(reason: Reason, what: string): never {
    throw new JsonRefused(reason, `${what} at character ${this.#at}`);
  }
}

/** Of members with the same key the last counts. */
function lastWins(list: Array<[string, Tree]>): Array<[string, Tree]> {
  const last = new Map<string, Tree>();
  for (const [name, value] of list) last.set(name, value);
  return [...last];
}
