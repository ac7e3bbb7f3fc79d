// Imports of mailboxes: how far they are, what came of each message, and which failed.

import { at, get } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, number, short } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, command, curl, empty, facts, notFresh, panel } from "./ui.js";

export function show(context) {
  return context.rest.length ? showOne(context, context.rest[0]) : showAll(context);
}

// The state of an import: read first, then queued, and completed once its batches are.
export function stateNow(one) {
  if (one.status === "running") return { word: one.step === "queueing" ? "queueing" : "running", tone: "busy" };
  const open = (one.tier1_batches ?? []).filter((batch) => !["completed", "failed"].includes(batch.status)).length;
  if (one.status !== "completed" || open === 0) return { word: one.status };
  return { word: "read, enriching", tone: "busy", more: `${open} ${open === 1 ? "batch" : "batches"} not done` };
}

function statusBadge(one) {
  const { word, tone, more } = stateNow(one);
  return h("span", { class: "row" }, badge(word, tone), more ? h("span", { class: "faint" }, more) : null);
}

// How far the file is read; an import whose size is not known has no end to measure against.
function bar(one) {
  const { offset, bytes: size } = one.progress ?? {};
  const done = one.status === "completed";
  const part = size ? Math.min(1, offset / size) : done ? 1 : undefined;
  const text = part === undefined ? `${bytes(offset)} read` : `${Math.round(part * 100)} %`;
  return h(
    "span",
    null,
    h("progress", { class: "bar", max: 1, value: part, "aria-label": `Read: ${text}` }),
    h("span", { class: "faint" }, text),
  );
}

function showAll(context) {
  const { session, signal, every } = context;
  const rows = list({
    label: "Imports",
    every,
    refresh: 2000,
    load: (cursor) => get(cursor ? `/v1/imports?cursor=${encodeURIComponent(cursor)}` : "/v1/imports", { signal }),
    href: (one) => at`/ui/imports/${one.import_id}`,
    columns: [
      { name: "Mailbox", class: "main", cell: (one) => h("span", { class: "mono" }, one.mbox_path) },
      { name: "Status", cell: statusBadge },
      { name: "Read", cell: bar },
      { name: "Messages", class: "num", cell: (one) => number(one.total_messages) },
      { name: "Inserted", class: "num", cell: (one) => number(one.inserted) },
      { name: "Skipped", class: "num", cell: (one) => number(one.skipped) },
      { name: "Errors", class: "num", cell: (one) => number(one.normalize_errors + one.insert_errors) },
      { name: "Started", cell: (one) => time(one.created_at) },
    ],
    none: () =>
      empty(
        "No imports yet",
        "A mailbox beneath the folder of imports is read message by message. A killed import goes on where it stopped; a second run inserts nothing twice.",
        command(curl(session, "POST", "/import/email/mbox", { mbox_path: "archive.mbox", async: true })),
      ),
  });
  return h(
    "div",
    null,
    h("div", { class: "head" }, h("h1", null, "Imports"), h("p", null, "Mailboxes, message by message.")),
    rows.node,
  );
}

async function showOne(context, id) {
  const { signal } = context;
  const box = h("div", { class: "stack" });
  let pause;
  let beats = 0;
  let drawn;
  const load = async () => {
    const one = await get(at`/import/${id}`, { signal });
    context.title(one.mbox_path);
    // While its batches are open it is looked at less often.
    pause = one.status === "running" ? 0 : stateNow(one).more ? 8 : undefined;
    const seen = JSON.stringify(one);
    if (seen === drawn || !getSelection().isCollapsed) return;
    drawn = seen;
    replace(box, draw(one));
  };
  await load();
  context.every(1500, async () => {
    beats += 1;
    if (pause === undefined || (pause > 0 && beats % pause)) return;
    try {
      await load();
    } catch (error) {
      notFresh(error);
    }
  });
  return box;
}

function draw(one) {
  const counter = (name, value, tone) =>
    h(
      "div",
      { class: "card" },
      h("span", { class: "name" }, name),
      h("span", { class: `value ${value ? (tone ?? "") : ""}` }, number(value)),
    );
  const errors = one.errors ?? [];
  return [
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/imports" }, "Imports")),
      h("h1", { class: "mono" }, one.mbox_path),
      statusBadge(one),
    ),
    one.error ? h("div", { class: "problem" }, h("p", null, one.error)) : null,
    panel(
      "Progress",
      bar(one),
      facts([
        ["Step", one.step],
        ["Schema", one.schema],
        ["Read", `${bytes(one.progress?.offset)}${one.progress?.bytes ? ` of ${bytes(one.progress.bytes)}` : ""}`],
        ["Started", time(one.created_at)],
        ["Changed", time(one.updated_at)],
        ["Import id", h("code", null, one.import_id)],
      ]),
    ),
    h(
      "div",
      { class: "cards" },
      counter("Messages", one.total_messages),
      counter("Normalised", one.normalized_ok),
      counter("Inserted", one.inserted),
      counter("Updated", one.updated),
      counter("Skipped", one.skipped),
      counter("Not readable", one.normalize_errors, "bad"),
      counter("Not inserted", one.insert_errors, "bad"),
      counter("To enrich", one.tier1_enqueued_items),
    ),
    panel(
      `Errors (${errors.length}${one.normalize_errors + one.insert_errors > errors.length ? " of " + (one.normalize_errors + one.insert_errors) : ""})`,
      errors.length
        ? list({
            label: "Errors by index",
            load: async () => ({ items: errors, next_cursor: null }),
            columns: [
              { name: "Index", class: "num", cell: (fault) => fault.index },
              { name: "Phase", cell: (fault) => fault.phase },
              { name: "Message", class: "main", cell: (fault) => fault.message },
            ],
            none: () => null,
          }).node
        : h("p", { class: "note" }, "None. The index of an error is the place of the message in the file, from 0."),
    ),
    one.tier1_batches?.length
      ? panel(
          "Batches",
          h(
            "div",
            { class: "row" },
            one.tier1_batches.map((batch) =>
              h(
                "a",
                { href: at`/ui/batches/${batch.batch_id}` },
                h("code", null, short(batch.batch_id, 13)),
                " ",
                badge(batch.status),
              ),
            ),
          ),
        )
      : null,
  ];
}
