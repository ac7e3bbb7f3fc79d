// Entries: search, one entry with its revisions, and the policies that decide about duplicates.

import { at, get, put, query } from "./api.js";
import { confirmDialog } from "./dialogs.js";
import { diffView } from "./differences.js";
import { h, isWebAddress } from "./dom.js";
import { cut, number, pretty, words } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, code, command, curl, empty, facts, field, json, panel, select, toast } from "./ui.js";

const SOURCES = [["", "any source"], "telegram", "email", ["email-batch", "email-batch (imports)"], "webpage", "note"];

export function show(context) {
  const [first] = context.rest;
  if (first === "policies") return showPolicies(context);
  return first === undefined ? showAll(context) : showOne(context, first);
}

function tabs(here) {
  const tab = (href, name, id) => h("a", { href, "aria-current": here === id ? "true" : null }, name);
  return h(
    "div",
    { class: "tabs", role: "group", "aria-label": "Entries" },
    tab("/ui/entries", "Entries", "entries"),
    tab("/ui/entries/policies", "Policies", "policies"),
  );
}

function showAll(context) {
  const { session, signal, every } = context;
  const asked = { q: context.query.get("q"), source: context.query.get("source") };
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Entries",
      onsubmit: (event) => {
        event.preventDefault();
        context.go(query("/ui/entries", Object.fromEntries(new FormData(form))));
      },
    },
    field("Words", h("input", { type: "search", name: "q", value: asked.q ?? "", autocomplete: "off" })),
    field("Source", select("source", SOURCES, asked.source, { onchange: () => form.requestSubmit() })),
    h("button", { type: "submit" }, "Search"),
  );
  const rows = list({
    label: "Entries",
    every,
    refresh: asked.q ? undefined : 6000,
    load: (cursor) => get(query("/v1/entries", { ...asked, cursor }), { signal }),
    href: (entry) => at`/ui/entries/${entry.entry_id}`,
    columns: [
      {
        name: "Entry",
        class: "main",
        cell: (entry) =>
          cut(
            entry.title || entry.retrieval_excerpt || entry.capture_text || entry.url || `entry ${entry.entry_id}`,
            120,
          ),
      },
      { name: "Source", cell: (entry) => entry.source ?? "–" },
      { name: "Type", cell: (entry) => words(entry.content_type) },
      { name: "Author", cell: (entry) => cut(entry.author ?? "–", 40) },
      { name: "Quality", class: "num", cell: (entry) => number(entry.quality_score) },
      { name: "Kept", cell: (entry) => time(entry.created_at) },
    ],
    none: () =>
      asked.q || asked.source
        ? empty("No entry matches", "", h("a", { href: "/ui/entries" }, "Show the newest"))
        : empty(
            "No entries yet",
            "An entry is a thing worth keeping, under the keys that its policy makes. Normalise one, then insert what comes back:",
            command(
              `${curl(session, "POST", "/normalize/telegram", { text: "once is enough", source: { chat_id: 1, message_id: 1 } }).replace(/^curl/, "curl -s")} |\n${curl(session, "POST", "/db/insert", undefined, { "Content-Type": "application/json" })} -d @-`,
            ),
          ),
  });
  return h(
    "div",
    null,
    h("div", { class: "head" }, h("h1", null, "Entries"), h("p", null, "What was kept, and what it was matched by.")),
    h("div", { class: "stack" }, tabs("entries"), form),
    rows.node,
  );
}

const LONG = ["clean_text", "capture_text", "extracted_text"];

async function showOne(context, id) {
  const { signal } = context;
  const entry = await get(at`/v1/entries/${id}`, { signal });
  const revisions = await get(at`/v1/entries/${id}/revisions`, { signal });
  const title = entry.title || cut(entry.retrieval_excerpt || entry.capture_text || `Entry ${id}`, 80);
  context.title(title);
  // Newest first: each is what stood before the one above it.
  const states = [entry, ...revisions.items];
  const policy = entry.idempotency_policy_key;
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/entries" }, "Entries")),
      h("h1", null, title),
      entry.content_type ? badge(entry.content_type, "busy") : null,
      entry.enrichment_status ? badge(entry.enrichment_status) : null,
    ),
    panel(
      "Facts",
      facts([
        ["Entry", entry.entry_id],
        ["Source", entry.source],
        ["Intent", entry.intent],
        ["Author", entry.author],
        [
          "Address",
          isWebAddress(entry.url)
            ? h("a", { href: entry.url, rel: "noopener noreferrer nofollow", target: "_blank" }, entry.url)
            : entry.url,
        ],
        ["Canonical", entry.url_canonical ? h("code", null, entry.url_canonical) : null],
        ["Kept", time(entry.created_at)],
        ["Changed", entry.updated_at ? time(entry.updated_at) : null],
        ["Words", entry.clean_word_count],
        ["Quality", entry.quality_score],
        ["Topic", entry.topic_primary],
        ["Keywords", entry.keywords?.length ? entry.keywords.join(", ") : null],
      ]),
      entry.gist ? h("p", null, entry.gist) : null,
    ),
    panel(
      "What it is matched by",
      facts([
        [
          "Policy",
          policy ? h("a", { class: "mono", href: "/ui/entries/policies" }, policy) : "none: it is never a duplicate",
        ],
        ["Primary key", entry.idempotency_key_primary ? h("code", null, entry.idempotency_key_primary) : "none"],
        ["Secondary key", entry.idempotency_key_secondary ? h("code", null, entry.idempotency_key_secondary) : "none"],
      ]),
    ),
    panel(
      `Revisions (${revisions.items.length}${revisions.next_cursor ? "+" : ""})`,
      revisions.items.length
        ? states.slice(0, -1).map((now, index) => {
            const old = states[index + 1];
            return h(
              "details",
              { open: index === 0 },
              h(
                "summary",
                null,
                `Revision ${old.revision ?? states.length - index - 1} → ${now.revision ?? "now"}, `,
                time(now.updated_at ?? now.created_at),
              ),
              diffView(comparable(old), comparable(now), "Before", "After"),
            );
          })
        : h(
            "p",
            { class: "note" },
            "None: no duplicate has changed it. A policy with the action update keeps every state that it replaces.",
          ),
    ),
    h(
      "div",
      { class: "two" },
      panel(
        "Text",
        LONG.some((name) => entry[name])
          ? LONG.filter((name) => entry[name])
              .slice(0, 1)
              .map((name) => code(entry[name], words(name)))
          : h("p", { class: "note" }, "None."),
      ),
      panel("Metadata", json(entry.metadata ?? {}, "Metadata")),
    ),
  );
}

// What changes by itself says nothing about what came.
function comparable(entry) {
  const { updated_at, revision, revised_at, replaced_at, ...rest } = entry;
  return pretty(rest);
}

async function showPolicies(context) {
  const { items } = await get("/v1/policies", { signal: context.signal });
  const again = context.refresh;
  const owner = context.can("owner");
  const rows = list({
    label: "Policies",
    load: async () => ({ items, next_cursor: null }),
    columns: [
      { name: "Policy", class: "nowrap", cell: (policy) => h("span", { class: "mono" }, policy.policy_key) },
      { name: "For", cell: (policy) => `${policy.source}, ${words(policy.content_type)}` },
      {
        name: "On a duplicate",
        cell: (policy) => badge(policy.conflict_action, policy.conflict_action === "update" ? "busy" : "calm"),
      },
      {
        name: "Fields",
        cell: (policy) => (policy.update_fields ? policy.update_fields.join(", ") : "all that come in"),
      },
      { name: "Second key", cell: (policy) => words(policy.secondary_match) },
      { name: "On", cell: (policy) => badge(policy.enabled ? "enabled" : "disabled") },
      owner
        ? {
            name: "Change",
            cell: (policy) =>
              h(
                "button",
                {
                  type: "button",
                  class: "small",
                  "aria-label": `Edit ${policy.policy_key}`,
                  onclick: () => edit(policy, again),
                },
                "Edit…",
              ),
          }
        : null,
    ].filter(Boolean),
    none: () => empty("No policies", "The four of the start are missing. Add one with PUT /v1/policies/NAME."),
  });
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Policies"),
      h(
        "p",
        null,
        "What happens when something comes that is already there. A change decides the next write, in both schemas; nothing that is kept changes.",
      ),
    ),
    h("div", { class: "stack" }, tabs("policies"), rows.node),
  );
}

function edit(policy, again) {
  const fields = h("input", {
    name: "update_fields",
    value: policy.update_fields?.join(", ") ?? "",
    placeholder: "all that come in",
    autocomplete: "off",
  });
  const enabled = h("input", { type: "checkbox", name: "enabled" });
  enabled.checked = policy.enabled;
  const said = (data) =>
    JSON.stringify([data.get("conflict_action"), data.get("update_fields").trim(), data.has("enabled")]);
  const before = JSON.stringify([
    policy.conflict_action,
    policy.update_fields?.join(", ") ?? "",
    Boolean(policy.enabled),
  ]);
  confirmDialog({
    title: `Edit ${policy.policy_key}`,
    text: h("p", null, "Entries without an enabled policy are refused. What is kept already stays as it is."),
    next: (data) =>
      h(
        "p",
        null,
        enabled.checked
          ? data.get("conflict_action") === "skip"
            ? "The next duplicate that comes is dropped: what is there stays."
            : [
                "The next duplicate that comes writes over ",
                h("strong", null, data.get("update_fields").trim() || "every field that comes in"),
                ". The old state is kept as a revision.",
              ]
          : [h("strong", null, "The next entry that comes is refused"), ", duplicate or not."],
      ),
    missing: (data) => (said(data) === before ? "Nothing is changed yet." : undefined),
    fields: [
      field(
        "On a duplicate",
        select(
          "conflict_action",
          [
            ["skip", "skip: keep what is there"],
            ["update", "update: write over it, keep the old state"],
          ],
          policy.conflict_action,
        ),
      ),
      field("Fields that an update writes", fields, "Separated by commas. Empty: all that come in."),
      h("label", { class: "field inline" }, enabled, h("span", null, "Enabled")),
    ],
    action: "Save",
    tone: "primary",
    act: async (data) => {
      const named = data
        .get("update_fields")
        .split(",")
        .map((name) => name.trim())
        .filter(Boolean);
      await put(at`/v1/policies/${policy.policy_key}`, {
        conflict_action: data.get("conflict_action"),
        update_fields: named.length ? named : null,
        enabled: enabled.checked,
      });
      toast("Policy saved");
      again();
    },
  });
}
