// Numbers, sizes, ids and JSON as text. Pure.

// A count that was looked at no further than this is shown as "10k+".
export const COUNT_MAX = 10_001;

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 1e9) return `${trim(value / 1e9)}G`;
  if (Math.abs(value) >= 1e6) return `${trim(value / 1e6)}M`;
  if (Math.abs(value) >= 1e4) return `${trim(value / 1e3)}k`;
  return Number.isInteger(value) ? String(value) : trim(value);
}

function trim(value) {
  return String(Number(value.toFixed(Math.abs(value) < 10 ? 2 : 1)));
}

// A gauge: 10001 means that there are more.
export function capped(value) {
  return value >= COUNT_MAX ? "10k+" : number(value);
}

export function micros(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${trim(value / 1e6)} s`;
  if (value >= 1e3) return `${trim(value / 1e3)} ms`;
  return `${Math.round(value)} µs`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${index === 0 ? value : trim(value)} ${units[index]}`;
}

// The start of a long id.
export function short(id, length = 12) {
  return id && id.length > length + 1 ? `${id.slice(0, length)}…` : (id ?? "–");
}

export function cut(text, length) {
  const points = Array.from(text ?? "");
  return points.length > length ? `${points.slice(0, length).join("")}…` : (text ?? "");
}

// Reads JSON without losing digits: an integer that a double cannot hold stays as it was written. Browsers that cannot
// tell what was written read it as they can.
export function parseJson(text) {
  if (typeof JSON.rawJSON !== "function") return JSON.parse(text);
  return JSON.parse(text, (_, value, { source } = {}) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !/^-?\d+$/.test(source ?? "")) return value;
    return BigInt(source) === BigInt(value) ? value : JSON.rawJSON(source);
  });
}

// Whether a value is such an integer.
export function isExact(value) {
  return JSON.isRawJSON?.(value) ?? false;
}

// JSON over several lines, the members of objects in order of their names, so that two can be compared line by line.
export function pretty(value) {
  return JSON.stringify(sorted(value), null, 2) ?? "null";
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object" || isExact(value)) return value;
  const result = Object.create(null);
  for (const name of Object.keys(value).sort()) result[name] = sorted(value[name]);
  return result;
}

// "idempotency_conflict" as "idempotency conflict".
export function words(name) {
  return String(name ?? "–").replaceAll("_", " ");
}
