// Repeated rows as one: how many, and how often. Pure.

// More runs than this and the order says nothing any more: each kind becomes one.
const RUNS_MAX = 12;

export function folded(rows, kind) {
  const all = runs(rows, kind);
  return all.length > RUNS_MAX ? kinds(rows, kind) : all;
}

// Rows, newest first, with neighbours of the same kind as one: {row: the newest, first: the oldest, count, every: ms}.
export function runs(rows, kind) {
  const all = [];
  for (const row of rows) {
    const last = all.at(-1);
    if (last && kind(last.row) === kind(row)) {
      last.count += 1;
      last.first = row;
    } else all.push({ row, first: row, count: 1 });
  }
  return all.map((run) => ({ ...run, every: pace(run) }));
}

// The same, wherever the rows of a kind stand. The kind that came last is first.
export function kinds(rows, kind) {
  const all = new Map();
  for (const row of rows) {
    const of = kind(row);
    const known = all.get(of);
    if (known) {
      known.count += 1;
      known.first = row;
    } else all.set(of, { row, first: row, count: 1 });
  }
  return [...all.values()].map((one) => ({ ...one, every: pace(one) }));
}

function pace({ row, first, count }) {
  return count > 1 ? (Date.parse(row.at) - Date.parse(first.at)) / (count - 1) : undefined;
}

// "× 200, every 2.5 s"; `more`: and there were others before.
export function often(count, every, more) {
  const times = `× ${count}${more ? "+" : ""}`;
  return every === undefined ? times : `${times}, every ${interval(every)}`;
}

// "40 ms", "2.5 s", "12 s", "3 min", "2 h"
export function interval(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129_600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}
