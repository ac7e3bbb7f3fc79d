// Snapshots: a collection, what is in it, one thing's history, and the difference of any two.

import { at, get, query } from "./api.js";
import { changes as jsonChanges } from "./diff.js";
import { changeTable, diffView } from "./differences.js";
import { h, replace } from "./dom.js";
import { pretty, short } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, command, copyButton, curl, empty, facts, field, json, loading, panel, problem, select } from "./ui.js";

const idOf = (entity) => entity.courseId ?? entity.id;
const nameOf = (entity) => entity.name ?? entity.label;

export async function show(context) {
  const known = await get("/v1/collections", { signal: context.signal });
  const [collection, id] = context.rest;
  if (id !== undefined) return showOne(context, collection, id);
  return showAll(context, known.items, collection ?? known.items[0]?.name);
}

function showAll(context, collections, collection) {
  const { session, signal } = context;
  const search = context.query.get("search");
  if (!collection)
    return h(
      "div",
      null,
      h("h1", null, "Snapshots"),
      empty("No collections", 'Name one in the configuration: [collections.orders] with id = "/order/number".'),
    );
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Snapshots",
      onsubmit: (event) => {
        event.preventDefault();
        const data = new FormData(form);
        context.go(query(at`/ui/snapshots/${data.get("collection")}`, { search: data.get("search") }));
      },
    },
    field(
      "Collection",
      select(
        "collection",
        collections.map(({ name }) => [name, name]),
        collection,
        { onchange: () => form.requestSubmit() },
      ),
    ),
    field(
      "Search",
      h("input", { type: "search", name: "search", value: search ?? "", autocomplete: "off", spellcheck: "false" }),
    ),
    h("button", { type: "submit" }, "Search"),
  );
  const path = at`/v1/${collection}`;
  const pointer = collections.find(({ name }) => name === collection)?.id_path ?? "/id";
  const rows = list({
    label: collection,
    every: context.every,
    refresh: 6000,
    load: (cursor) => get(query(path, { search, cursor }), { signal }),
    href: (entity) => at`/ui/snapshots/${collection}/${idOf(entity)}`,
    columns: [
      { name: "Id", class: "main", cell: (entity) => h("span", { class: "mono" }, idOf(entity)) },
      { name: "Name", class: "main", cell: (entity) => nameOf(entity) ?? "–" },
      { name: "Snapshots", class: "num", cell: (entity) => entity.snapshots },
      { name: "Current", cell: (entity) => h("span", { class: "mono" }, short(entity.currentSnapshotId, 12)) },
      { name: "Changed", cell: (entity) => time(entity.updated_at) },
    ],
    none: () =>
      search
        ? empty("Nothing matches", "", h("a", { href: at`/ui/snapshots/${collection}` }, "Show all of them"))
        : empty(
            "No snapshots yet",
            `One payload is one snapshot, however often it comes. Its id is at ${pointer}. Send one:`,
            command(curl(session, "POST", `${path}/ingest`, example(pointer))),
          ),
  });
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Snapshots"),
      h("p", null, "Every payload that came, once, with its history."),
    ),
    form,
    rows.node,
  );
}

// A payload that has an id where the collection looks for it.
function example(pointer) {
  const steps = pointer.split("/").slice(1);
  if (pointer === "/course/id") return { course: { id: "c-1", name: "Latin I" } };
  return steps.reduceRight((inner, step) => ({ [step]: inner }), "1");
}

async function showOne(context, collection, id) {
  const { signal } = context;
  const path = at`/v1/${collection}/${id}`;
  const [entity, history] = await Promise.all([get(path, { signal }), get(`${path}/snapshots?limit=200`, { signal })]);
  context.title(id);
  const snapshots = history.items;
  const to = context.query.get("to") ?? entity.currentSnapshotId;
  const place = snapshots.findIndex((one) => one.snapshotId === to);
  const from = context.query.get("from") ?? snapshots[place + 1]?.snapshotId;
  const result = h("div", { class: "stack", "aria-live": "polite" });
  const options = snapshots.map((one) => [
    one.snapshotId,
    `${short(one.snapshotId, 13)}, ${one.created_at.slice(0, 19).replace("T", " ")} UTC${one.current ? ", current" : ""}`,
  ]);
  const form = h(
    "form",
    {
      class: "filters",
      onsubmit: (event) => {
        event.preventDefault();
        context.go(query(location.pathname, Object.fromEntries(new FormData(form))), { replacing: true });
      },
    },
    field("From", select("from", options, from, { onchange: () => form.requestSubmit() })),
    field("To", select("to", options, to, { onchange: () => form.requestSubmit() })),
    h("button", { type: "submit" }, "Compare"),
  );
  if (from && to) compare(path, from, to, result, signal);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h(
        "span",
        { class: "crumb" },
        h("a", { href: "/ui/snapshots" }, "Snapshots"),
        " / ",
        h("a", { href: at`/ui/snapshots/${collection}` }, collection),
      ),
      h("h1", null, nameOf(entity) ?? id),
      copyButton(id, "Copy id"),
    ),
    panel(
      "Facts",
      facts([
        ["Id", h("code", null, id)],
        ["Snapshots", entity.snapshots],
        ["Current", h("code", null, entity.currentSnapshotId)],
        ["Hash", entity.hash ? h("code", null, short(entity.hash, 24)) : null],
        ["First seen", time(entity.created_at)],
        ["Changed", time(entity.updated_at)],
      ]),
    ),
    snapshots.length > 1
      ? panel("Difference", form, result)
      : panel(
          "Difference",
          h("p", { class: "note" }, "There is one snapshot so far. A payload that differs makes the next."),
        ),
    h(
      "div",
      { class: "two" },
      panel(
        "History",
        h(
          "ol",
          { class: "timeline", "aria-label": "History" },
          snapshots.map((one) =>
            h(
              "li",
              { class: one.current ? "good" : "calm" },
              h("div", { class: "when" }, time(one.created_at)),
              h(
                "div",
                { class: "what row" },
                h(
                  "a",
                  {
                    class: "mono",
                    href: query(location.pathname, { from: one.snapshotId, to: entity.currentSnapshotId }),
                    title: "Compare with the current one",
                  },
                  short(one.snapshotId, 13),
                ),
                one.current ? badge("current", "good") : null,
              ),
              h(
                "div",
                { class: "faint" },
                `came ${one.seen === 1 ? "once" : `${one.seen} times`}, last `,
                time(one.seen_at),
              ),
            ),
          ),
        ),
        history.next_cursor ? h("p", { class: "note" }, "Older ones are not listed here; the API has them.") : null,
      ),
      panel("Current payload", json(entity.payload, "Current payload")),
    ),
  );
}

async function compare(path, from, to, box, signal) {
  replace(box, loading());
  try {
    const [old, now] = await Promise.all([from, to].map((sid) => get(path + at`/snapshots/${sid}`, { signal })));
    const found = jsonChanges(old.payload, now.payload);
    replace(
      box,
      diffView(pretty(old.payload), pretty(now.payload), `From ${short(from, 13)}`, `To ${short(to, 13)}`),
      found.length
        ? h(
            "details",
            null,
            h("summary", null, `Changes by path (${found.length})`),
            changeTable(found, "Changes by path"),
          )
        : null,
    );
  } catch (error) {
    if (error.name !== "AbortError")
      replace(
        box,
        problem(error, () => compare(path, from, to, box, signal)),
      );
  }
}
