// Keys: the list with its filters, and the life of one key.

import { at, get, post, query, remove } from "./api.js";
import { comparePanel, conflictPanel } from "./conflict.js";
import { h } from "./dom.js";
import { words } from "./format.js";
import { countdown, time } from "./time.js";
import {
  badge,
  code,
  command,
  confirmDialog,
  copyButton,
  curl,
  empty,
  facts,
  field,
  json,
  list,
  panel,
  panelWith,
  readJson,
  select,
  timeline,
  toast,
} from "./ui.js";

const STATES = [["", "any state"], "held", "in_doubt", "settled", "erased"];

export function show(context) {
  return context.rest.length ? showOne(context, context.rest[0]) : showAll(context);
}

function showAll(context) {
  const { session, signal, every } = context;
  const asked = { q: context.query.get("q"), route: context.query.get("route"), state: context.query.get("state") };
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Keys",
      onsubmit: (event) => {
        event.preventDefault();
        context.go(query("/ui/keys", Object.fromEntries(new FormData(form))));
      },
    },
    field(
      "Key starts with",
      h("input", { type: "search", name: "q", value: asked.q ?? "", autocomplete: "off", spellcheck: "false" }),
    ),
    field(
      "Route",
      h("input", {
        name: "route",
        value: asked.route ?? "",
        placeholder: "POST:bookings-hold",
        autocomplete: "off",
        spellcheck: "false",
      }),
    ),
    field("State", select("state", STATES, asked.state, { onchange: () => form.requestSubmit() })),
    h("button", { type: "submit" }, "Search"),
  );
  const filtered = Object.values(asked).some(Boolean);
  const rows = list({
    label: "Keys",
    every,
    refresh: 5000,
    load: (cursor) => get(query("/v1/keys", { ...asked, cursor }), { signal }),
    href: (key) => at`/ui/keys/${key.id}`,
    columns: [
      { name: "Key", class: "main", cell: (key) => h("span", { class: "mono" }, key.key) },
      { name: "Route", cell: (key) => h("span", { class: "mono" }, key.route_pattern) },
      { name: "State", cell: (key) => badge(key.state) },
      { name: "Status", class: "num", cell: (key) => key.status ?? "–" },
      { name: "Claimed", cell: (key) => time(key.created_at) },
      {
        name: "Ends",
        cell: (key) => (key.state === "held" ? countdown(key.lease_expires_at, "lease lost") : time(key.expires_at)),
      },
    ],
    none: () =>
      filtered
        ? empty(
            "No key matches",
            "A search is for the start of a key, as it was sent. Take a filter away, or look at ",
            h("a", { href: "/ui/keys" }, "all keys"),
            ".",
          )
        : empty(
            "No keys yet",
            "A key appears when a request carries one. Send this twice: the second answer is the first one, replayed.",
            command(curl(session, "POST", "/v1/echo", { hello: "world" }, { "Idempotency-Key": "first-call" })),
          ),
  });
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Keys"),
      h("p", null, "What was asked under a key, and what became of it."),
    ),
    form,
    rows.node,
  );
}

async function showOne(context, id) {
  const { signal, can } = context;
  const key = await get(at`/v1/keys/${id}`, { signal });
  context.title(key.key);
  const trail = await get(query("/v1/audit", { key_id: id, limit: 200 }), { signal });
  const again = context.refresh;
  const tools = can("owner") ? actions(context, key, again) : [];
  const conflicts = trail.items.filter((row) => row.action === "idempotency_conflict");
  context.every(4000, async () => {
    // While it is held or in doubt it can end any moment.
    if (key.state !== "held" && key.state !== "in_doubt") return;
    if (document.querySelector("dialog[open]") || document.activeElement?.matches("textarea, input")) return;
    try {
      const now = await get(at`/v1/keys/${id}`, { signal });
      if (now.state !== key.state) again();
    } catch (error) {
      if (error.status === 404) {
        toast("The key is gone: it was released or deleted", "warn");
        context.go("/ui/keys");
      } else if (error.name !== "AbortError") toast(`Not fresh: ${error.message}`, "bad");
    }
  });
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/keys" }, "Keys")),
      h("h1", { class: "mono" }, key.key),
      badge(key.state),
      copyButton(key.key, "Copy key"),
      h("span", { class: "grow" }),
      tools,
    ),
    key.state === "in_doubt" ? doubt(key, can("owner")) : null,
    panel(
      "Facts",
      facts([
        ["Route", h("a", { class: "mono", href: query("/ui/keys", { route: key.route_pattern }) }, key.route_pattern)],
        ["Request", h("code", null, `${key.method} ${key.path}`)],
        ["Content hash", h("code", null, key.content_hash)],
        ["Answer", key.status],
        ["Lease", key.state === "held" ? countdown(key.lease_expires_at, "lost; the next claim decides") : null],
        ["Kept until", time(key.expires_at)],
        ["Reason", key.reason ? words(key.reason) : null],
        ["Id", h("code", null, key.id)],
      ]),
    ),
    conflicts.length ? conflictPanel(key, conflicts) : null,
    h(
      "div",
      { class: "two" },
      panel("Request", body(key.request, "Request")),
      panel(
        "Response",
        key.response
          ? [headers(key.response.headers), body(key.response, "Response")]
          : h("p", { class: "note" }, key.state === "held" ? "It still runs." : "None is recorded."),
      ),
    ),
    conflicts.length ? null : comparePanel(key),
    h(
      "div",
      { class: "two" },
      panel("Life", timeline(life(key, trail.items), "Life of the key")),
      panel("Audit", auditRows(trail)),
    ),
  );
}

function doubt(key, owner) {
  return h(
    "div",
    { class: "problem warn", role: "note" },
    h(
      "p",
      null,
      h("strong", null, "In doubt"),
      ": its runner was lost before it told the outcome. Nobody knows whether it happened, so retries are refused until a person decides.",
    ),
    h(
      "p",
      null,
      owner
        ? "Look at the system behind. If it happened, settle it with the answer; if not, release it."
        : "An owner can settle or release it.",
    ),
  );
}

// What was recorded of a message: JSON, text, bytes, or why there is none.
function body(part, label) {
  if (!part) return h("p", { class: "note" }, "Nothing is recorded.");
  if (part.body_withheld)
    return h("p", { class: "note" }, "It belongs to another principal and is shown to an owner only.");
  if (part.body_omitted) return h("p", { class: "note" }, "It was too large to keep.");
  if (part.body_base64 !== undefined) return code(part.body_base64, `${label}, base64`);
  if (part.body === undefined) return h("p", { class: "note" }, "It has no body.");
  return typeof part.body === "string" ? code(part.body, label) : json(part.body, label);
}

function headers(all) {
  const names = Object.keys(all ?? {});
  return names.length ? facts(names.sort().map((name) => [name, h("code", null, all[name])])) : null;
}

function life(key, trail) {
  const events = [
    {
      at: key.created_at,
      title: "Claimed",
      tone: "busy",
      body: h("span", { class: "faint" }, `${key.method} ${key.path}`),
    },
  ];
  const tones = {
    idempotency_conflict: "bad",
    idempotency_replay: "good",
    key_settled: "good",
    key_released: "warn",
    idempotency_expired: "warn",
    key_erased: "warn",
  };
  for (const row of trail) {
    events.push({
      at: row.at,
      title: words(row.action),
      tone: tones[row.action] ?? "calm",
      body: row.actor ? h("span", { class: "faint" }, `by ${row.actor}`) : null,
    });
  }
  if (key.settled_at) events.push({ at: key.settled_at, title: `Settled with ${key.status}`, tone: "good" });
  if (key.state === "held")
    events.push({ at: key.lease_expires_at, title: "The lease ends, unless it is renewed", tone: "calm" });
  if (key.expires_at && key.state !== "in_doubt")
    events.push({ at: key.expires_at, title: "Expires: the next use runs as new", tone: "calm" });
  return events.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

function auditRows(trail) {
  if (trail.items.length === 0)
    return h(
      "p",
      { class: "note" },
      "Nothing was noted about this key yet: no replay, no conflict, no word of an operator.",
    );
  return [
    h(
      "ul",
      { class: "audit-rows" },
      trail.items.map((row) =>
        h(
          "li",
          null,
          h("span", { class: "faint" }, time(row.at)),
          " ",
          words(row.action),
          row.actor ? ` by ${row.actor}` : "",
        ),
      ),
    ),
    trail.next_cursor ? h("a", { href: query("/ui/audit", { key_id: trail.items[0].key_id }) }, "All of them") : null,
  ];
}

function actions(context, key, again) {
  const tools = [];
  const path = at`/v1/keys/${key.id}`;
  // While a runner holds the lease, only it can tell what happened.
  const lost = key.state === "held" && Date.parse(key.lease_expires_at) < Date.now();
  if (key.state === "in_doubt" || lost) {
    tools.push(
      h("button", { type: "button", onclick: () => settle(path, again) }, "Settle…"),
      h("button", { type: "button", onclick: () => release(context, path) }, "Release…"),
    );
  }
  if (key.state === "settled")
    tools.push(h("button", { type: "button", onclick: () => erase(path, key, again) }, "Erase…"));
  tools.push(
    h(
      "button",
      {
        type: "button",
        onclick: () =>
          confirmDialog({
            title: "Delete this key?",
            text: h(
              "p",
              null,
              "The record of ",
              h("code", null, key.key),
              " goes, its answer with it. ",
              h("strong", null, "The next request with this key runs again"),
              ", even if it is a retry of one that already ran. The audit trail keeps that you did this.",
            ),
            action: "Delete the key",
            act: async () => {
              await remove(path);
              toast("Key deleted");
              context.go("/ui/keys");
            },
          }),
      },
      "Delete…",
    ),
  );
  return tools;
}

function settle(path, again) {
  confirmDialog({
    title: "Settle this key?",
    text: h("p", null, "You say that the request happened and what came of it. Every retry of it gets this answer."),
    fields: [
      field("Status", h("input", { name: "status", type: "number", min: 200, max: 599, value: 200, required: true })),
      field("Body (JSON, may be empty)", h("textarea", { name: "body", rows: 5, spellcheck: "false" })),
    ],
    action: "Settle",
    tone: "primary",
    act: async (data) => {
      const text = data.get("body").trim();
      const answer = { status: Number(data.get("status")) };
      if (text) answer.body = readJson(text, "body");
      await post(`${path}/settle`, answer);
      toast("Key settled");
      again();
    },
  });
}

function erase(path, key, again) {
  confirmDialog({
    title: "Erase what is stored?",
    text: h(
      "p",
      null,
      "The request and the answer under ",
      h("code", null, key.key),
      " go for good; the key stays. A retry is told that it was erased, and does not run.",
    ),
    action: "Erase",
    act: async () => {
      await post(`${path}/erase`);
      toast("Content erased");
      again();
    },
  });
}

function release(context, path) {
  confirmDialog({
    title: "Release this key?",
    text: h(
      "p",
      null,
      "You say that the request did not happen. ",
      h("strong", null, "The next request with this key runs as new."),
    ),
    action: "Release",
    act: async () => {
      await post(`${path}/settle`, { release: true });
      toast("Key released");
      context.go("/ui/keys?state=in_doubt");
    },
  });
}
