// Batches of Tier-1 enrichment: how many items are how far, and each item.

import { at, get, query } from "./api.js";
import { h } from "./dom.js";
import { number, short, words } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, code, command, curl, empty, facts, json, notFresh, panel } from "./ui.js";

export function show(context) {
  return context.rest.length ? showOne(context, context.rest[0]) : showAll(context);
}

function counts(batch) {
  const set = Object.entries(batch.counts ?? {}).filter(([, count]) => count > 0);
  return set.length
    ? h(
        "span",
        { class: "row" },
        set.map(([status, count]) => h("span", { class: "row" }, badge(status), number(count))),
      )
    : "–";
}

function showAll(context) {
  const { session, signal, every } = context;
  const open = context.query.get("open") === "true";
  const tab = (value, name) =>
    h(
      "a",
      { href: query("/ui/batches", { open: value }), "aria-current": open === Boolean(value) ? "true" : null },
      name,
    );
  const rows = list({
    label: "Batches",
    every,
    refresh: 5000,
    load: (cursor) => get(query("/status/t1/batch", { include_terminal: !open, cursor }), { signal }),
    href: (batch) => at`/ui/batches/${batch.batch_id}`,
    columns: [
      { name: "Batch", cell: (batch) => h("span", { class: "mono" }, short(batch.batch_id, 13)) },
      { name: "Status", cell: (batch) => badge(batch.status) },
      { name: "Items", class: "main", cell: counts },
      { name: "Schema", cell: (batch) => batch.schema },
      { name: "Model", cell: (batch) => batch.model ?? "–" },
      { name: "Next look", cell: (batch) => time(batch.next_at) },
      { name: "Made", cell: (batch) => time(batch.created_at) },
    ],
    none: () =>
      open
        ? empty("No batch is open", "", h("a", { href: "/ui/batches" }, "Show all batches"))
        : empty(
            "No batches yet",
            "A batch asks a model about many texts at once. An import makes batches by itself; or send one:",
            command(
              curl(session, "POST", "/enrich/t1/batch", {
                items: [{ title: "Once", clean_text: "Doing a thing once is enough." }],
              }),
            ),
          ),
  });
  return h(
    "div",
    null,
    h("div", { class: "head" }, h("h1", null, "Batches"), h("p", null, "Tier-1 enrichment, many texts at a time.")),
    h(
      "div",
      { class: "stack" },
      h("div", { class: "tabs", role: "group", "aria-label": "Which" }, tab(undefined, "All"), tab(true, "Open")),
      rows.node,
    ),
  );
}

async function showOne(context, id) {
  const { signal } = context;
  const path = at`/status/t1/batch/${id}`;
  const batch = await get(path, { signal });
  context.title(short(id, 13));
  const shown = JSON.stringify(batch);
  context.every(4000, async () => {
    try {
      if (JSON.stringify(await get(path, { signal })) !== shown) context.refresh();
    } catch (error) {
      notFresh(error);
    }
  });
  const items = list({
    label: "Items",
    load: async (cursor) => {
      const found = await get(query(path, { include_items: true, cursor }), { signal });
      return { items: found.items ?? [], next_cursor: found.next_cursor };
    },
    columns: [
      { name: "Item", class: "num", cell: (item) => item.item_id },
      { name: "Status", cell: (item) => badge(item.status) },
      {
        name: "Entry",
        cell: (item) => (item.entry_id ? h("a", { href: at`/ui/entries/${item.entry_id}` }, item.entry_id) : "–"),
      },
      { name: "What came", class: "main", cell: (item) => outcome(item) },
      { name: "Changed", cell: (item) => time(item.updated_at) },
    ],
    none: () => empty("No items", "The batch is empty."),
  });
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/batches" }, "Batches")),
      h("h1", { class: "mono" }, short(batch.batch_id, 13)),
      badge(batch.status),
    ),
    batch.error ? h("div", { class: "problem" }, h("p", null, batch.error)) : null,
    h(
      "div",
      { class: "cards" },
      Object.entries(batch.counts ?? {}).map(([status, count]) =>
        h(
          "div",
          { class: "card" },
          h("span", { class: "name" }, words(status)),
          h(
            "span",
            { class: `value ${count && (status === "failed" || status === "parse_error") ? "bad" : ""}` },
            number(count),
          ),
        ),
      ),
    ),
    panel(
      "Facts",
      facts([
        ["Items", batch.request_count],
        ["Schema", batch.schema],
        ["Model", batch.model],
        ["At the provider", batch.provider_batch_id ? h("code", null, batch.provider_batch_id) : "not sent yet"],
        ["Provider says", batch.provider_status],
        ["Window", batch.completion_window],
        ["Attempt", `${batch.attempt}, ${batch.failures} failed`],
        ["Next look", batch.next_at ? time(batch.next_at) : null],
        ["Import", batch.import_id ? h("a", { href: at`/ui/imports/${batch.import_id}` }, "show the import") : null],
        ["Made", time(batch.created_at)],
        ["Batch id", h("code", null, batch.batch_id)],
      ]),
      Object.keys(batch.metadata ?? {}).length ? json(batch.metadata, "Metadata") : null,
    ),
    panel("Items", items.node),
  );
}

function outcome(item) {
  if (item.error)
    return [
      h("span", { class: "bad-text" }, item.error),
      item.raw ? h("details", null, h("summary", null, "What the model wrote"), code(item.raw, "Raw answer")) : null,
    ];
  if (item.result)
    return h(
      "details",
      null,
      h("summary", null, item.result.gist ?? item.result.topic_primary ?? "Result"),
      json(item.result, "Result"),
    );
  return h("span", { class: "faint" }, "not yet");
}
