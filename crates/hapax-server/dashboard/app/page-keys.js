// Keys: the list with its filters, and the life of one key.

import { at, get, query } from "./api.js";
import { comparePanel, conflictPanel } from "./conflict.js";
import { h } from "./dom.js";
import { words } from "./format.js";
import { actions, stateNow } from "./key-actions.js";
import { list } from "./list.js";
import { folded, often } from "./runs.js";
import { countdown, time } from "./time.js";
import {
  badge,
  code,
  command,
  copyButton,
  curl,
  empty,
  facts,
  field,
  json,
  notFresh,
  panel,
  panelWith,
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
    stateOf: stateNow,
    columns: [
      { name: "Key", class: "main", cell: (key) => h("span", { class: "mono" }, key.key) },
      { name: "Route", cell: (key) => h("span", { class: "mono" }, key.route_pattern) },
      { name: "State", cell: stateBadge },
      { name: "Status", class: "num", cell: (key) => key.status ?? "–" },
      { name: "Claimed", cell: (key) => time(key.created_at) },
      {
        name: "Ends",
        class: "nowrap",
        cell: (key) => {
          if (key.state === "in_doubt") return "until somebody decides";
          return key.state === "held" ? countdown(key.lease_expires_at, "lease expired") : time(key.expires_at);
        },
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

// The state of a key: one whose lease expired is not held by anybody.
function stateBadge(key) {
  return stateNow(key) === "lost" ? badge("lease expired", "warn") : badge(key.state);
}

const CONFLICT = "idempotency_conflict";
const TRAIL_MAX = 200;

async function showOne(context, id) {
  const { signal, can } = context;
  const key = await get(at`/v1/keys/${id}`, { signal });
  context.title(key.key);
  const rows = (action) => get(query("/v1/audit", { key_id: id, action, limit: TRAIL_MAX }), { signal });
  const trail = await rows();
  // Where there is more than one page, other rows may have crowded conflicts out of it.
  const refused = trail.next_cursor ? await rows(CONFLICT) : trail;
  const again = context.refresh;
  const state = stateNow(key);
  const tools = can("owner") ? actions(context, key, again) : [];
  const conflicts = refused.items.filter((row) => row.action === CONFLICT);
  context.every(4000, async () => {
    // While it is held or in doubt it can end any moment.
    if (key.state !== "held" && key.state !== "in_doubt") return;
    if (document.querySelector("dialog[open]") || document.activeElement?.matches("textarea, input")) return;
    try {
      const now = await get(at`/v1/keys/${id}`, { signal });
      if (stateNow(now) !== state) again();
    } catch (error) {
      if (error.status === 404) {
        toast("The key is gone: it was released or deleted", "warn");
        context.go("/ui/keys");
      } else notFresh(error);
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
      stateBadge(key),
      copyButton(key.key, "Copy key"),
      h("span", { class: "grow" }),
      tools,
    ),
    state === "in_doubt" ? doubt(key, can("owner")) : null,
    state === "lost" ? lost(key, can("owner")) : null,
    panel(
      "Facts",
      facts([
        ["Route", h("a", { class: "mono", href: query("/ui/keys", { route: key.route_pattern }) }, key.route_pattern)],
        ["Request", h("code", null, `${key.method} ${key.path}`)],
        ["Content hash", h("code", null, key.content_hash)],
        ["Answer", key.status],
        ["Lease", key.state === "held" ? countdown(key.lease_expires_at, "it expired: nobody holds the key") : null],
        ["Kept until", key.state === "in_doubt" ? "until somebody decides" : time(key.expires_at)],
        ["Reason", key.reason ? words(key.reason) : null],
        ["Id", h("code", null, key.id)],
      ]),
    ),
    conflicts.length ? conflictPanel(key, conflicts, Boolean(refused.next_cursor)) : null,
    h(
      "div",
      { class: "two" },
      panel("Request", body(key.request, "Request")),
      panel(
        "Response",
        key.response
          ? [headers(key.response.headers), body(key.response, "Response")]
          : h("p", { class: "note" }, NO_ANSWER[state] ?? "None is recorded."),
      ),
    ),
    conflicts.length ? null : comparePanel(key),
    h(
      "div",
      { class: "two" },
      panel("Life", timeline(life(key, trail), "Life of the key")),
      panel("Audit", auditRows(trail)),
    ),
  );
}

const NO_ANSWER = {
  held: "It still runs: somebody holds its lease.",
  lost: "None came before its lease expired. Whether it happened is not known.",
  in_doubt: "None is recorded. Whether it happened is not known.",
};

// Why it is in doubt, and what that says of whether it happened.
const DOUBT = {
  runner_died: "its runner crashed before it reported the outcome. Nobody knows whether it happened",
  outcome_unknown: "the answer did not come in time. Nobody knows whether it happened",
  response_not_stored: "it happened, and its answer could not be kept",
};

function doubt(key, owner) {
  const happened = key.reason === "response_not_stored";
  return h(
    "div",
    { class: "problem warn", role: "note" },
    h(
      "p",
      null,
      h("strong", null, "In doubt until somebody decides"),
      `: ${DOUBT[key.reason] ?? DOUBT.runner_died}, so retries are refused and nothing runs.`,
    ),
    h("p", null, "The next caller with this key gets ", h("strong", null, "409 IDEMPOTENCY_IN_DOUBT"), "."),
    h(
      "p",
      null,
      owner
        ? happened
          ? "Settle it with the answer that the system behind gave. Releasing it would run it a second time."
          : "Look at the system behind. If it happened, settle it with the answer; if not, release it."
        : "An owner can settle or release it.",
    ),
  );
}

function lost(key, owner) {
  return h(
    "div",
    { class: "problem warn", role: "note" },
    h(
      "p",
      null,
      h("strong", null, "Nobody holds this key"),
      ": its lease expired before its runner reported the outcome. It may have happened.",
    ),
    h(
      "p",
      null,
      h("strong", null, "The next caller with this key runs the request again: the payment may happen twice."),
      owner ? " If it happened, settle it with the answer first." : " An owner can settle it first.",
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

// The rows of the trail with what repeats as one. Where there are older ones, they are of the last kind as far as is known.
function summary(trail) {
  const all = folded(trail.items, ({ action, actor }) => `${action} ${actor}`);
  return all.map((run, index) => ({ ...run, more: Boolean(trail.next_cursor) && index === all.length - 1 }));
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
  for (const { row, count, first, every, more } of summary(trail)) {
    events.push({
      at: first.at,
      title: count > 1 ? `${words(row.action)}, ${often(count, every, more)}` : words(row.action),
      tone: tones[row.action] ?? "calm",
      body:
        row.actor || count > 1
          ? h(
              "span",
              { class: "faint" },
              row.actor ? `by ${row.actor}` : "",
              count > 1 ? [" until ", time(row.at)] : "",
            )
          : null,
    });
  }
  if (key.settled_at) events.push({ at: key.settled_at, title: `Settled with ${key.status}`, tone: "good" });
  const state = stateNow(key);
  if (state === "held")
    events.push({ at: key.lease_expires_at, title: "The lease ends, unless it is renewed", tone: "calm" });
  if (state === "lost") events.push({ at: key.lease_expires_at, title: "The lease expired", tone: "warn" });
  if (state === "in_doubt") events.push({ title: "In doubt until somebody decides", tone: "warn" });
  if (key.expires_at && state !== "in_doubt" && state !== "lost")
    events.push({ at: key.expires_at, title: "Expires: the next use runs as new", tone: "calm" });
  // What has no time is still to come.
  return events.sort((a, b) => (Date.parse(a.at) || Infinity) - (Date.parse(b.at) || Infinity));
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
      summary(trail).map(({ row, count, every, more }) =>
        h(
          "li",
          null,
          h("span", { class: "faint" }, time(row.at)),
          " ",
          words(row.action),
          count > 1 ? ` ${often(count, every, more)}` : "",
          row.actor ? ` by ${row.actor}` : "",
        ),
      ),
    ),
    trail.next_cursor ? h("a", { href: query("/ui/audit", { key_id: trail.items[0].key_id }) }, "All of them") : null,
  ];
}
