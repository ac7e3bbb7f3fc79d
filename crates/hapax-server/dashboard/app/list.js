// A tabular list that loads more on demand and keeps itself fresh without moving under the pointer. Rows are known by their
// key: what is there changes in place, and what is new waits behind a button while somebody selects, points, opens or has
// scrolled away. `load(cursor)` answers {items, next_cursor}.

import { unreached } from "./banners.js";
import { lostSince } from "./contact.js";
import { h, replace } from "./dom.js";
import { merged } from "./merged.js";
import { loading, problem, say } from "./ui.js";

// A finger does not hover: it counts as there for so long.
const TOUCHED_MS = 10_000;
let touched = 0;
for (const event of ["touchstart", "touchmove"])
  globalThis.document?.addEventListener(event, () => (touched = Date.now()), { passive: true });

// The lists of the page that is shown, and what the lists of the page that is being shown had when it was left.
const shown = new Map();
let kept = new Map();

// What the lists of this page have, so that coming back brings it back.
export function leaveLists() {
  const left = new Map([...shown].map(([label, of]) => [label, of()]));
  shown.clear();
  return left;
}

export function arriveAtLists(left) {
  shown.clear();
  kept = left ?? new Map();
}

// Has the lists of a page that stays have what they had.
export function holdLists(left) {
  shown.clear();
  for (const [label, had] of left) shown.set(label, () => had);
}

// `keyOf` says what makes a row the same row; `stateOf` what it shows beyond its item, such as that a lease is over.
export function list({ label, columns, load, href, keyOf, stateOf, none, refresh, every }) {
  const body = h("tbody", { role: "rowgroup" });
  const foot = h("div", { class: "list-foot" });
  const news = h("button", { type: "button", class: "news-button", onclick: () => showNews() });
  const bar = h("div", { class: "news", role: "status" });
  const box = h("div", { class: "list" });
  const node = h("div", { class: "list-box" }, bar, box);
  const table = h(
    "table",
    { class: "rows", role: "table", "aria-label": label },
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        columns.map((column) => h("th", { scope: "col", role: "columnheader", class: column.class }, column.name)),
      ),
    ),
    body,
  );
  const rows = new Map();
  let order = [];
  let cursor;
  let waiting;
  const nameOf = (item) => keyOf?.(item) ?? href?.(item) ?? JSON.stringify(item);
  const seenOf = (item) => JSON.stringify(item) + (stateOf?.(item) ?? "");

  const cells = (item) => {
    const target = href?.(item);
    return columns.map((column, index) => {
      const content = column.cell(item);
      return h(
        "td",
        { role: "cell", class: column.class, "data-label": column.name },
        index === 0 && target ? h("a", { href: target, class: "row-link" }, content) : content,
      );
    });
  };
  const rowOf = (item) => {
    const target = href?.(item);
    const row = h("tr", { role: "row", class: target ? "goes" : null, "data-href": target }, cells(item));
    return { row, item, seen: seenOf(item) };
  };
  // Changes a row in place, unless somebody reads it.
  const update = (one, item) => {
    const seen = seenOf(item);
    if (one.seen === seen || isRead(one.row)) return;
    const at = focusable(one.row).indexOf(document.activeElement);
    replace(one.row, cells(item));
    if (at >= 0) focusable(one.row)[at]?.focus({ preventScroll: true });
    Object.assign(one, { item, seen });
  };
  // Puts the rows in this order and moves none that is in its place.
  const place = (next, items) => {
    for (const [key, item] of items) {
      const one = rows.get(key);
      if (one) update(one, item);
      else rows.set(key, rowOf(item));
    }
    order = next;
    const stays = new Set(order);
    for (const [key, one] of rows) {
      if (stays.has(key)) continue;
      one.row.remove();
      rows.delete(key);
    }
    let at = body.firstChild;
    for (const key of order) {
      const { row } = rows.get(key);
      row.classList.remove("gone");
      if (row === at) at = at.nextSibling;
      else body.insertBefore(row, at);
    }
  };
  const settle = (page) => {
    waiting = undefined;
    replace(bar);
    const items = page.items.map((item) => [nameOf(item), item]);
    if (items.length === 0 && !page.next_cursor) {
      place([], []);
      cursor = undefined;
      replace(box, none());
      return;
    }
    const next = merged(order, [...new Set(items.map(([key]) => key))], Boolean(page.next_cursor));
    place(next.order, items);
    if (!next.kept) cursor = page.next_cursor;
    more();
    if (!table.isConnected) replace(box, table, foot);
  };
  // Changes what is there and lets the rest wait, if somebody is at the list.
  const merge = (page) => {
    if (!table.isConnected || !isAttended()) return settle(page);
    const items = new Map(page.items.map((item) => [nameOf(item), item]));
    for (const [key, item] of items) if (rows.has(key)) update(rows.get(key), item);
    const next = new Set(merged(order, [...items.keys()], Boolean(page.next_cursor)).order);
    const added = [...next].filter((key) => !rows.has(key)).length;
    const gone = order.filter((key) => !next.has(key));
    for (const [key, one] of rows) one.row.classList.toggle("gone", !next.has(key));
    if (added === 0 && gone.length === 0) {
      waiting = undefined;
      replace(bar);
      return undefined;
    }
    waiting = page;
    const text = [added ? `${added} new` : "", gone.length ? `${gone.length} no longer in this list` : ""];
    const waits = text.filter(Boolean).join(", ");
    if (news.textContent !== waits) news.textContent = waits;
    if (!news.isConnected) replace(bar, news);
    return undefined;
  };
  const showNews = () => {
    const page = waiting;
    if (!page) return;
    const before = new Set(order);
    settle(page);
    const first = order.find((key) => !before.has(key)) ?? order[0];
    const row = rows.get(first)?.row;
    (row?.querySelector("a.row-link") ?? table).focus({ preventScroll: true });
    node.scrollIntoView({ block: "start" });
    say("The list is up to date");
  };
  // Whether somebody selects, points at, opens or walks through rows, or has scrolled past the first one.
  const isAttended = () =>
    (matchMedia("(hover: hover)").matches && (body.matches(":hover") || bar.matches(":hover"))) ||
    [...body.children].some(isRead) ||
    node.contains(document.activeElement) ||
    Date.now() - touched < TOUCHED_MS ||
    document.querySelector("dialog[open]") !== null ||
    body.getBoundingClientRect().top < 0;

  const more = () =>
    replace(
      foot,
      cursor
        ? [
            order.length ? null : h("span", { class: "faint" }, "None among the newest."),
            h(
              "button",
              { type: "button", onclick: (event) => next(event.currentTarget) },
              order.length ? "Show more" : "Look further back",
            ),
          ]
        : h("span", { class: "faint" }, order.length === 1 ? "1 row" : `${order.length} rows, all there are`),
    );
  const next = async (button) => {
    button.disabled = true;
    button.textContent = "Loading…";
    try {
      const page = await load(cursor);
      const items = page.items.map((item) => [nameOf(item), item]).filter(([key]) => !rows.has(key));
      cursor = page.next_cursor;
      place([...order, ...items.map(([key]) => key)], items);
      more();
      rows.get(items[0]?.[0])?.row.querySelector("a")?.focus();
    } catch (error) {
      if (error.name !== "AbortError")
        replace(
          foot,
          problem(error, () => more()),
        );
    }
  };
  const first = async (quiet) => {
    if (!quiet) replace(box, loading());
    try {
      const page = await load(undefined);
      if (quiet && foot.querySelector(".bad-text")) more();
      merge(page);
    } catch (error) {
      if (error.name === "AbortError") return;
      // The banner above every page shows lost contact.
      if (quiet && table.isConnected) {
        if (error.status !== 0)
          replace(foot, h("span", { class: "bad-text" }, `not fresh: ${error.code ?? "page_error"}, ${error.message}`));
      } else
        replace(box, lostSince() === undefined ? problem(error, () => first(false)) : unreached(() => first(false)));
    }
  };
  const left = kept.get(label);
  if (left?.order.length) {
    cursor = left.cursor;
    place(left.order, left.items);
    more();
    replace(box, table, foot);
    first(true);
  } else first(false);
  if (every && refresh) every(refresh, () => first(true));
  shown.set(label, () => ({ cursor, order: [...order], items: order.map((key) => [key, rows.get(key).item]) }));
  return { node, reload: () => first(false), freshen: () => first(true) };
}

const focusable = (row) => [...row.querySelectorAll("a[href], button, input, summary, [tabindex]")];

// Whether something in the row is open or selected.
function isRead(row) {
  if (row.querySelector("details[open]")) return true;
  const selection = getSelection();
  return !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(row);
}
