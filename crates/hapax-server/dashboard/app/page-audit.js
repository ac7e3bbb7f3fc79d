// The audit trail: who did what, and what the engine did by itself.

import { at, get, query } from "./api.js";
import { h } from "./dom.js";
import { short, words } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, command, curl, empty, field, json, select } from "./ui.js";

const ACTIONS = [
  ["", "any action"],
  "idempotency_replay",
  "idempotency_conflict",
  "idempotency_expired",
  "cleanup_idempotency_keys",
  "key_deleted",
  "key_settled",
  "key_released",
  "key_erased",
  "job_retried",
  "op_resolved",
  "jobs_reconciled",
  "policy_changed",
  "test_mode_changed",
];
const TONES = {
  idempotency_conflict: "bad",
  idempotency_replay: "good",
  key_deleted: "warn",
  key_erased: "warn",
  key_released: "warn",
  key_settled: "good",
};

export function show(context) {
  const { session, signal, every } = context;
  const asked = { action: context.query.get("action"), key_id: context.query.get("key_id") };
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Audit",
      onsubmit: (event) => {
        event.preventDefault();
        context.go(query("/ui/audit", Object.fromEntries(new FormData(form))));
      },
    },
    field("Action", select("action", ACTIONS, asked.action, { onchange: () => form.requestSubmit() })),
    field(
      "Key id",
      h("input", {
        type: "search",
        name: "key_id",
        value: asked.key_id ?? "",
        autocomplete: "off",
        spellcheck: "false",
      }),
    ),
    h("button", { type: "submit" }, "Search"),
  );
  const rows = list({
    label: "Audit",
    every,
    refresh: 5000,
    load: (cursor) => get(query("/v1/audit", { ...asked, cursor }), { signal }),
    columns: [
      { name: "When", cell: (row) => time(row.at) },
      { name: "Action", cell: (row) => badge(row.action, TONES[row.action]) },
      { name: "Who", cell: (row) => row.actor ?? h("span", { class: "faint" }, "by itself") },
      {
        name: "Key",
        class: "main",
        cell: (row) =>
          row.key_id
            ? h("a", { class: "mono", href: at`/ui/keys/${row.key_id}` }, row.details?.key ?? short(row.key_id, 13))
            : "–",
      },
      { name: "Route", cell: (row) => h("span", { class: "mono" }, row.route_pattern ?? "–") },
      {
        name: "Details",
        class: "main",
        cell: (row) =>
          Object.keys(row.details ?? {}).length
            ? h("details", null, h("summary", null, "Show"), json(row.details, `Details of ${words(row.action)}`))
            : "–",
      },
    ],
    none: () =>
      asked.action || asked.key_id
        ? empty("Nothing of this kind was noted", "", h("a", { href: "/ui/audit" }, "Show everything"))
        : empty(
            "Nothing was noted yet",
            "Replays, conflicts, and every word of an operator are noted here. Send this twice to see a replay:",
            command(curl(session, "POST", "/v1/echo", { hello: "world" }, { "Idempotency-Key": "first-call" })),
          ),
  });
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Audit"),
      h("p", null, "Every word of an operator, and what the engine replayed, refused or removed by itself."),
    ),
    form,
    rows.node,
  );
}
