// The small libraries of the dashboard, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

const app = new URL("../crates/hapax-server/dashboard/app/", import.meta.url);
const { sideBySide, pairs, within, changes, valueAt } = await import(new URL("diff.js", app));
const { layout, NODE } = await import(new URL("graph.js", app));
const { number, capped, bytes, micros, pretty, cut, short } = await import(new URL("format.js", app));
const { folded, kinds, runs, often, interval } = await import(new URL("runs.js", app));
const { merged } = await import(new URL("merged.js", app));
const { relative, span, absolute, freeze, now } = await import(new URL("time.js", app));

test("equal texts have equal rows", () => {
  const rows = sideBySide("a\nb", "a\nb");
  assert.deepEqual(
    rows.map((row) => row.kind),
    ["same", "same"],
  );
  assert.deepEqual(rows[1], { kind: "same", left: { line: 2, text: "b" }, right: { line: 2, text: "b" } });
});

test("a changed, a lost and a new line are told apart", () => {
  const rows = sideBySide("a\nb\nc\nd", "a\nB\nc\nd\ne");
  assert.deepEqual(
    rows.map((row) => row.kind),
    ["same", "change", "same", "same", "more"],
  );
  assert.deepEqual(
    sideBySide("a\nb\nc", "a\nc").map((row) => row.kind),
    ["same", "less", "same"],
  );
});

test("both sides of a comparison can be read back from its rows", () => {
  let state = 7;
  const next = (below) => (state = (state * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 200; round += 1) {
    const text = () => Array.from({ length: next(12) }, () => "abc"[next(3)]).join("\n");
    const [left, right] = [text(), text()];
    const rows = sideBySide(left, right);
    assert.equal(
      rows
        .filter((row) => row.left)
        .map((row) => row.left.text)
        .join("\n"),
      left,
    );
    assert.equal(
      rows
        .filter((row) => row.right)
        .map((row) => row.right.text)
        .join("\n"),
      right,
    );
    for (const row of rows) if (row.kind === "same") assert.equal(row.left.text, row.right.text);
  }
});

test("a longest common subsequence is found", () => {
  assert.equal(pairs([..."ABCBDAB"], [..."BDCABA"]).length, 4);
  assert.deepEqual(pairs([], ["a"]), []);
});

test("a comparison too large for its table still shows both sides", () => {
  const left = ["same", ...Array.from({ length: 2500 }, (_, index) => `old ${index}`), "end"];
  const right = ["same", ...Array.from({ length: 2500 }, (_, index) => `new ${index}`), "end"];
  const rows = sideBySide(left.join("\n"), right.join("\n"));
  assert.equal(rows.length, 2502);
  assert.equal(rows[0].kind, "same");
  assert.equal(rows[1].kind, "change");
});

test("a line is cut where it differs, never within a character", () => {
  assert.deepEqual(within("nights: 3,", "nights: 4,"), ["nights: ", "3", "4", ","]);
  assert.deepEqual(within("x😀y", "x😁y"), ["x", "😀", "😁", "y"]);
  assert.deepEqual(within("aa", "aaa"), ["aa", "", "a", ""]);
});

test("changes of JSON have their paths", () => {
  const found = changes({ a: 1, b: { c: [1, 2] }, d: null }, { a: 1, b: { c: [1, 3, 4] }, e: "new" });
  assert.deepEqual(found, [
    { path: "b.c[1]", old: 2, new: 3 },
    { path: "b.c[2]", new: 4 },
    { path: "d", old: null },
    { path: "e", new: "new" },
  ]);
  assert.deepEqual(changes({ a: [1] }, { a: [1] }), []);
  assert.deepEqual(changes([1], { 0: 1 }), [{ path: "(all)", old: [1], new: { 0: 1 } }]);
});

test("changes beyond the limit are told, not listed", () => {
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`k${index}`, index]));
  const found = changes({}, many, 10);
  assert.equal(found.length, 11);
  assert.deepEqual(found[10], { more: true });
});

test("a member that every object inherits is compared like another", () => {
  assert.deepEqual(changes({}, JSON.parse('{"constructor": 1}')), [{ path: "constructor", new: 1 }]);
  assert.equal(
    pretty(JSON.parse('{"__proto__": {"a": 1}, "b": 2}')),
    '{\n  "__proto__": {\n    "a": 1\n  },\n  "b": 2\n}',
  );
});

test("a path of the server leads to its value, or nowhere", () => {
  const body = { a: { b: [1, { "x y": 2 }] }, body: 3, 'q"': 4, 7: 5 };
  const found = [
    ["a.b[0]", 1],
    ['a.b[1]["x y"]', 2],
    ["body", 3],
    ['["q\\""]', 4],
    ["7", 5],
  ];
  for (const [path, value] of found) assert.deepEqual(valueAt(body, path), { value }, path);
  assert.deepEqual(valueAt("text", "body"), { value: "text" });
  for (const path of ["a.c", "a.b[2]", "toString", "a.b[0].c", 'a["cut…', "a..b"])
    assert.equal(valueAt(body, path), undefined, path);
  assert.equal(valueAt(undefined, "a"), undefined);
});

test("a plan stands in layers, and nothing stands on something else", () => {
  const nodes = ["HEAD", "SKIP", "RESUME", "STREAM", "FINALIZE", "INDEX", "DEDUPE"].map((name) => ({ name }));
  const edges = [
    ["HEAD", "SKIP"],
    ["HEAD", "RESUME"],
    ["HEAD", "STREAM"],
    ["RESUME", "STREAM"],
    ["STREAM", "FINALIZE"],
    ["FINALIZE", "INDEX"],
    ["FINALIZE", "DEDUPE"],
  ];
  const drawn = layout(nodes, edges);
  const at = Object.fromEntries(drawn.nodes.map((node) => [node.name, node]));
  for (const [from, to] of edges) assert.ok(at[to].x > at[from].x, `${from} → ${to}`);
  for (const a of drawn.nodes) {
    assert.ok(a.x >= 0 && a.y >= 0 && a.x + NODE.width <= drawn.width && a.y + NODE.height <= drawn.height, a.name);
    for (const b of drawn.nodes) {
      if (a !== b)
        assert.ok(Math.abs(a.x - b.x) >= NODE.width || Math.abs(a.y - b.y) >= NODE.height, `${a.name} on ${b.name}`);
    }
  }
  assert.equal(drawn.edges.length, edges.length);
});

test("a plan with a circle, an unknown node and nothing at all can be drawn", () => {
  const drawn = layout(
    [{ name: "a" }, { name: "b" }],
    [
      ["a", "b"],
      ["b", "a"],
      ["a", "nobody"],
      ["a", "a"],
    ],
  );
  assert.equal(drawn.edges.length, 2);
  assert.ok(drawn.nodes.every((node) => Number.isFinite(node.x) && Number.isFinite(node.y)));
  assert.equal(layout([], []).nodes.length, 0);
});

test("numbers, counts and sizes are short", () => {
  assert.deepEqual([0, 12.345, 9999, 12_345, 2_500_000, null].map(number), ["0", "12.3", "9999", "12.3k", "2.5M", "–"]);
  assert.equal(capped(10_001), "10k+");
  assert.equal(capped(42), "42");
  assert.deepEqual([0, 1023, 1536, 3 << 20].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3 MiB"]);
  assert.deepEqual([12, 1500, 2_000_000, null].map(micros), ["12 µs", "1.5 ms", "2 s", "–"]);
});

test("text is cut by characters", () => {
  assert.equal(cut("😀😀😀", 2), "😀😀…");
  assert.equal(short("abcdefghijklmnop", 4), "abcd…");
  assert.equal(short("abc", 4), "abc");
});

test("times are told from now, and in the zone that is asked for", () => {
  const now = Date.parse("2026-11-16T08:00:00.250Z");
  assert.equal(relative(now - 90_000, now), "1 min 30 s ago");
  assert.equal(relative(now + 3 * 3_600_000, now), "in 3 h");
  assert.equal(relative(now + 200, now), "now");
  assert.deepEqual([0, 59, 60, 3_661, 86_400 * 40].map(span), ["0 s", "59 s", "1 min", "1 h 1 min", "40 d"]);
  assert.equal(absolute("2026-11-16T08:00:00.250Z", "utc"), "2026-11-16 08:00:00.250 UTC");
  assert.match(absolute("2026-11-16T08:00:00.250Z", "local"), /^2026-11-1[567] \d\d:\d\d:00\.250 UTC[+-]\d\d:\d\d$/);
  assert.equal(absolute("never", "utc"), "never");
});

test("what repeats is one run, with how many and how often", () => {
  const row = (second, action) => ({ at: new Date(second * 1000).toISOString(), action });
  const rows = [row(20, "conflict"), row(17.5, "conflict"), row(15, "conflict"), row(10, "replay"), row(5, "conflict")];
  const told = (all) => all.map(({ row: { action }, count, every }) => [action, count, every]);
  const kind = ({ action }) => action;
  assert.deepEqual(told(runs(rows, kind)), [
    ["conflict", 3, 2500],
    ["replay", 1, undefined],
    ["conflict", 1, undefined],
  ]);
  assert.deepEqual(told(kinds(rows, kind)), [
    ["conflict", 4, 5000],
    ["replay", 1, undefined],
  ]);
  // In turn with something else, 200 rows would be 200 runs.
  const turns = Array.from({ length: 200 }, (_, index) => row(400 - index, index % 2 ? "replay" : "conflict"));
  assert.equal(folded(turns, kind).length, 2);
  assert.deepEqual(runs([], kind), []);
  assert.equal(often(200, 2500, true), "× 200+, every 2.5 s");
  assert.deepEqual([9, 2500, 12_400, 240_000, 7_200_000].map(interval), ["9 ms", "2.5 s", "12 s", "4 min", "2 h"]);
});

test("a first page goes over the rows that are there, and what was loaded below it stays", () => {
  assert.deepEqual(merged(["c", "b", "a"], ["d", "c", "b"], true), { order: ["d", "c", "b", "a"], kept: true });
  assert.deepEqual(merged(["c", "b", "a"], ["d", "c", "b"], false), { order: ["d", "c", "b"], kept: false });
  // One of the first page is gone; nothing below it is.
  assert.deepEqual(merged(["c", "b", "a"], ["c", "a"], true), { order: ["c", "a"], kept: false });
  // Without a row in common there may be a gap.
  assert.deepEqual(merged(["b", "a"], ["z", "y"], true), { order: ["z", "y"], kept: false });
  assert.deepEqual(merged([], ["a"], true), { order: ["a"], kept: false });
});

test("ages stand still while there is no contact", () => {
  freeze(Date.parse("2026-11-16T08:00:00Z"));
  assert.equal(now(), Date.parse("2026-11-16T08:00:00Z"));
  freeze(undefined);
  assert.ok(Math.abs(now() - Date.now()) < 1000);
});
