// Compares two texts line by line and two JSON values member by member. Pure.

import { isExact } from "./format.js";

// How many cells a table of a comparison may have; beyond, what stands between equal ends counts as replaced.
const CELLS_MAX = 4_000_000;

// Rows for a side-by-side view: {kind: "same"|"change"|"less"|"more", left?, right?}, where a side is {line, text}.
export function sideBySide(leftText, rightText) {
  const left = leftText.split("\n");
  const right = rightText.split("\n");
  const rows = [];
  let i = 0;
  let j = 0;
  const upTo = (iEnd, jEnd) => {
    while (i < iEnd || j < jEnd) {
      const old = i < iEnd ? { line: i + 1, text: left[i++] } : undefined;
      const now = j < jEnd ? { line: j + 1, text: right[j++] } : undefined;
      const kind = old && now ? "change" : old ? "less" : "more";
      rows.push({ kind, ...(old && { left: old }), ...(now && { right: now }) });
    }
  };
  for (const [leftIndex, rightIndex] of pairs(left, right)) {
    upTo(leftIndex, rightIndex);
    rows.push({
      kind: "same",
      left: { line: i + 1, text: left[i++] },
      right: { line: j + 1, text: right[j++] },
    });
  }
  upTo(left.length, right.length);
  return rows;
}

// The index pairs of a longest common subsequence.
export function pairs(left, right) {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let tail = 0;
  while (
    tail < left.length - start &&
    tail < right.length - start &&
    left[left.length - 1 - tail] === right[right.length - 1 - tail]
  ) {
    tail += 1;
  }
  const found = [];
  for (let index = 0; index < start; index += 1) found.push([index, index]);
  const rows = left.length - start - tail;
  const columns = right.length - start - tail;
  if (rows * columns <= CELLS_MAX) found.push(...between(left, right, start, rows, columns));
  for (let index = tail; index > 0; index -= 1) found.push([left.length - index, right.length - index]);
  return found;
}

function between(left, right, start, rows, columns) {
  const width = columns + 1;
  const lengths = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        left[start + i] === right[start + j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < rows && j < columns) {
    if (left[start + i] === right[start + j]) found.push([start + i++, start + j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

// What two lines share at both ends: [head, oldMiddle, newMiddle, tail]. Never cuts a surrogate pair.
export function within(old, now) {
  const [a, b] = [Array.from(old), Array.from(now)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail])
    tail += 1;
  return [
    a.slice(0, head).join(""),
    a.slice(head, a.length - tail).join(""),
    b.slice(head, b.length - tail).join(""),
    a.slice(a.length - tail).join(""),
  ];
}

// The changes from one JSON value to another as {path, old?, new?}, at most `max`, then {more: true}.
export function changes(old, now, max = 200) {
  const found = [];
  walk(old, now, "", found, max);
  return found;
}

function walk(old, now, path, found, max) {
  if (found.length > max || same(old, now)) return;
  if (found.length === max) {
    found.push({ more: true });
    return;
  }
  const [a, b] = [kind(old), kind(now)];
  if (a === b && (a === "object" || a === "array")) {
    const names =
      a === "array"
        ? Array.from({ length: Math.max(old.length, now.length) }, (_, index) => index)
        : [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
    for (const name of names) {
      const step = a === "array" ? `${path}[${name}]` : path === "" ? name : `${path}.${name}`;
      const [had, has] = [Object.hasOwn(old, name), Object.hasOwn(now, name)];
      if (had && has) walk(old[name], now[name], step, found, max);
      else if (found.length === max) found.push({ more: true });
      else if (found.length < max) found.push(had ? { path: step, old: old[name] } : { path: step, new: now[name] });
    }
    return;
  }
  found.push({ path: path === "" ? "(all)" : path, old, new: now });
}

function kind(value) {
  if (isExact(value)) return "exact";
  return Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
}

function same(a, b) {
  if (a === b) return true;
  const of = kind(a);
  if (of === "exact") return isExact(b) && a.rawJSON === b.rawJSON;
  if (of !== kind(b) || (of !== "object" && of !== "array")) return false;
  const [left, right] = [Object.keys(a), Object.keys(b)];
  return left.length === right.length && left.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}

// The value at a path of the server, such as `items[2].qty` or `["a name"].b`; `body` is all of it. Undefined if there is
// none, or if the path was cut.
export function valueAt(value, path) {
  if (value === undefined) return undefined;
  if (path === "body" && !(kind(value) === "object" && Object.hasOwn(value, "body"))) return { value };
  let rest = path;
  while (rest !== "") {
    const step = /^(?:\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.[\]"':\s]+))/.exec(rest);
    if (!step) return undefined;
    const name = step[1] ?? (step[2] === undefined ? step[3] : JSON.parse(step[2]));
    const of = kind(value);
    if ((of !== "object" && of !== "array") || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
    rest = rest.slice(step[0].length);
  }
  return { value };
}
