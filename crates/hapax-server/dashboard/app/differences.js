// Differences as people read them: two texts side by side, and changes by path.

import { sideBySide, within } from "./diff.js";
import { add, h } from "./dom.js";
import { cut } from "./format.js";

const AROUND = 3;

// Two texts side by side; long equal stretches are folded.
export function diffView(leftText, rightText, leftName, rightName) {
  const rows = sideBySide(leftText, rightText);
  const body = h("tbody");
  const near = rows.map(() => false);
  rows.forEach((row, index) => {
    if (row.kind === "same") return;
    for (let at = Math.max(0, index - AROUND); at <= Math.min(rows.length - 1, index + AROUND); at += 1)
      near[at] = true;
  });
  const differs = rows.some((row) => row.kind !== "same");
  let index = 0;
  while (index < rows.length) {
    if (near[index] || !differs) {
      body.append(diffRow(rows[index]));
      index += 1;
      continue;
    }
    let end = index;
    while (end < rows.length && !near[end]) end += 1;
    body.append(fold(rows.slice(index, end)));
    index = end;
  }
  return h(
    "div",
    { class: "scroll diff-box", tabindex: 0, role: "region", "aria-label": `${leftName} beside ${rightName}` },
    differs ? null : h("p", { class: "note" }, "No difference."),
    h(
      "table",
      { class: "diff" },
      h("caption", { class: "quiet" }, `${leftName} beside ${rightName}`),
      h(
        "colgroup",
        null,
        ["n", "t", "n", "t"].map((name) => h("col", { class: name })),
      ),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col", colspan: 2 }, leftName),
          h("th", { scope: "col", colspan: 2 }, rightName),
        ),
      ),
      body,
    ),
  );
}

function fold(rows) {
  const row = h("tr", { class: "fold" });
  const open = h(
    "button",
    { type: "button", class: "small ghost", onclick: () => row.replaceWith(...rows.map(diffRow)) },
    `${rows.length} equal ${rows.length === 1 ? "line" : "lines"}`,
  );
  row.append(h("td", { colspan: 4 }, open));
  return row;
}

function diffRow(row) {
  const line = h("tr", { class: row.kind });
  const [head, old, now, tail] = row.kind === "change" ? within(row.left.text, row.right.text) : [];
  const cell = (side, mark, middle) => {
    if (!side) return [h("td", { class: "line" }), h("td", { class: "none" })];
    const text =
      row.kind === "change"
        ? [head, h(mark, null, middle), tail]
        : row.kind === "same"
          ? side.text
          : h(mark, null, side.text);
    return [h("td", { class: "line" }, side.line), h("td", { class: mark === "del" ? "old" : "new" }, text)];
  };
  return add(line, [cell(row.left, "del", old), cell(row.right, "ins", now)]);
}

// A list of changes by path: two JSON values, or lines of a server's summary.
export function changeTable(list, label) {
  const known = list.filter((change) => !change.more);
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: "changes" },
      h("caption", { class: "quiet" }, label),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Path", "Before", "After"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        null,
        known.map((change) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, h("code", null, change.path)),
            valueCell(change, "old", "del"),
            valueCell(change, "new", "ins"),
          ),
        ),
      ),
    ),
    list.some((change) => change.more) ? h("p", { class: "note" }, "More changes are not listed.") : null,
  );
}

function valueCell(change, name, mark) {
  if (!Object.hasOwn(change, name)) return h("td", { class: "faint" }, "absent");
  const value = change[name];
  return h("td", null, h(mark, null, cut(typeof value === "string" ? value : JSON.stringify(value), 2000)));
}
