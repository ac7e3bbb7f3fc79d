// Writes numbers as hcj-1, ECMAScript and Python do. It reads only literals that the reader has accepted.

import type { Literal } from "./tree.js";

/** Integers of up to this many digits are doubles. */
const EXACT_DIGITS = 15;

/** Whether a double equals the integer literal. */
export function isDouble(integer: string): boolean {
  if (integer.length <= EXACT_DIGITS) return true;
  const double = Number(integer);
  return Number.isFinite(double) && BigInt(double) === BigInt(integer);
}

/** The hcj-1 form: ECMAScript's, but an integer that no double equals keeps its digits. */
export function hcjNumber(literal: Literal): string {
  if (literal.isInteger && !isDouble(literal.text)) return literal.text;
  return String(Number(literal.text));
}

/** What Python's JSON module writes for what it has read. */
export function pythonNumber(literal: Literal): string {
  if (literal.isInteger) return literal.text === "-0" ? "0" : literal.text;
  return pythonFloat(Number(literal.text));
}

/** `repr(float)` of Python 3, in the spelling of its JSON module. */
function pythonFloat(double: number): string {
  if (Number.isNaN(double)) return "NaN";
  if (!Number.isFinite(double)) return double > 0 ? "Infinity" : "-Infinity";
  const sign = double < 0 || Object.is(double, -0) ? "-" : "";
  const [digits, point] = shortest(Math.abs(double));
  const exponent = point - 1;
  if (exponent < -4 || exponent >= 16) {
    const rest = digits.slice(1);
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${rest === "" ? "" : "."}${rest}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits}${"0".repeat(point - digits.length)}.0`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** The shortest digits of a double, and how many of them stand before the point. */
function shortest(double: number): [digits: string, point: number] {
  const [mantissa = "0", exponent = "0"] = String(double).split("e");
  const [whole = "0", fraction = ""] = mantissa.split(".");
  const digits = whole + fraction;
  const trimmed = digits.replace(/^0+/, "");
  const leading = digits.length - trimmed.length;
  const cut = trimmed.replace(/0+$/, "");
  return cut === "" ? ["0", 1] : [cut, whole.length + Number(exponent) - leading];
}
