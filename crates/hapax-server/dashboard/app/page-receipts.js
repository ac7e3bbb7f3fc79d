// Receipts of intents: by status, with the questions that wait; one receipt from its inbox row to its outcome.

import { at, get, post, query } from "./api.js";
import { attest, confirmDialog } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { cut, short, words } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import {
  badge,
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
  problem,
  shown,
  timeline,
  toast,
} from "./ui.js";

// So much of a sentence is shown in a list.
const SENTENCE_MAX = 140;
const STATUSES = ["accepted", "needs_clarification", "planned", "executed", "failed", "rejected"];

export function show(context) {
  return context.rest.length ? showOne(context, context.rest[0]) : showAll(context);
}

async function showAll(context) {
  const { session, signal, every } = context;
  const status = context.query.get("status");
  const tab = (value, name) =>
    h(
      "a",
      {
        href: query("/ui/receipts", { status: value }),
        "aria-current": (status ?? "") === (value ?? "") ? "true" : null,
      },
      name,
    );
  // It stands above the list, so it is there first.
  const asked = await questions(context);
  const rows = list({
    label: "Receipts",
    every,
    refresh: 5000,
    load: (cursor) => get(query("/v1/receipts", { status, cursor }), { signal }),
    href: (receipt) => at`/ui/receipts/${receipt.receipt_id}`,
    columns: [
      { name: "Receipt", class: "main", cell: sentence },
      {
        name: "Status",
        cell: (receipt) =>
          receipt.details?.in_doubt
            ? h("span", { class: "row" }, badge(receipt.status), badge("in_doubt"))
            : badge(receipt.status),
      },
      {
        name: "Plan",
        class: "main",
        cell: (receipt) =>
          receipt.plan.actions.map((action) => words(action.action)).join(", ") ||
          h("span", { class: "faint" }, receipt.clarification ? "waits for an answer" : "none"),
      },
      {
        name: "Why",
        class: "main",
        cell: (receipt) =>
          h(
            "span",
            { class: "faint" },
            receipt.error?.message ?? receipt.clarification?.question ?? receipt.details?.reason ?? "–",
          ),
      },
      { name: "Received", cell: (receipt) => time(receipt.details?.received_at) },
    ],
    none: () =>
      status
        ? empty(`No receipt is ${words(status)}`, "", h("a", { href: "/ui/receipts" }, "Show all receipts"))
        : empty(
            "No receipts yet",
            "An intent gets a receipt: first the inbox row, then a plan, then the calls, then the outcome. Send one:",
            command(
              curl(session, "POST", "/v1/intents", {
                kind: "intent",
                intent_type: "create_task",
                source: "cli",
                natural_language: "buy milk",
                fields: { title: "buy milk" },
                confidence: 0.9,
              }),
            ),
          ),
  });
  return h(
    "div",
    null,
    h("div", { class: "head" }, h("h1", null, "Receipts"), h("p", null, "Intents, from the inbox to their outcome.")),
    h(
      "div",
      { class: "stack" },
      asked,
      h(
        "div",
        { class: "tabs", role: "group", "aria-label": "Statuses" },
        tab(undefined, "All"),
        STATUSES.map((value) => tab(value, words(value))),
      ),
      rows.node,
    ),
  );
}

// What people know a receipt by: what was said, or what was asked for, and its id.
function sentence(receipt) {
  const id = short(receipt.receipt_id, 13);
  const said = receipt.natural_language || (receipt.intent_type ? words(receipt.intent_type) : undefined);
  if (!said) return h("span", { class: "mono" }, id);
  return [h("span", null, cut(said, SENTENCE_MAX)), h("span", { class: "mono faint under" }, id)];
}

// The questions that wait for an answer; nothing when none does.
async function questions(context) {
  const box = h("div");
  const load = async () => {
    try {
      const found = await get("/v1/clarifications?status=open&limit=10", { signal: context.signal });
      replace(
        box,
        found.items.length
          ? panel(
              `Questions (${found.items.length}${found.next_cursor ? "+" : ""})`,
              h(
                "ul",
                { class: "plain" },
                found.items.map((question) =>
                  h(
                    "li",
                    { class: "row" },
                    badge(question.status),
                    h(
                      "a",
                      { href: at`/ui/receipts/${question.receipt_id}` },
                      question.natural_language ? `${cut(question.natural_language, SENTENCE_MAX)}: ` : "",
                      question.question,
                    ),
                    h("span", { class: "faint" }, "asked ", time(question.asked_at)),
                  ),
                ),
              ),
            )
          : null,
      );
    } catch (error) {
      if (error.name !== "AbortError") replace(box, problem(error, load));
    }
  };
  await load();
  return box;
}

async function showOne(context, id) {
  const { signal, can } = context;
  const intent = await get(at`/v1/intents/${id}`, { signal });
  const { receipt, packet } = intent;
  context.title(cut(packet?.natural_language, 60) || short(id, 13));
  const again = context.refresh;
  const final = ["executed", "failed", "rejected"].includes(receipt.status);
  context.every(3000, async () => {
    if (final || document.querySelector("dialog[open]") || document.activeElement?.matches("textarea, input")) return;
    try {
      const now = await get(at`/v1/receipts/${id}`, { signal });
      if (JSON.stringify(now) !== JSON.stringify(receipt)) again();
    } catch (error) {
      notFresh(error);
    }
  });
  const calls = Array.isArray(receipt.details?.actions) ? receipt.details.actions : [];
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/receipts" }, "Receipts")),
      h("h1", null, packet?.natural_language || words(packet?.intent_type) || "Receipt"),
      badge(receipt.status),
      h("span", { class: "grow" }),
      can("writer") && final ? h("button", { type: "button", onclick: () => replay(receipt, again) }, "Replay…") : null,
    ),
    receipt.error
      ? h(
          "div",
          { class: "problem" },
          h("p", null, h("strong", null, receipt.error.code), ": ", receipt.error.message),
          receipt.error.details ? json(receipt.error.details, "Details of the error") : null,
        )
      : null,
    receipt.clarification ? question(receipt.clarification, can("writer"), again) : null,
    panel(
      "Facts",
      facts([
        ["Source", intent.source],
        ["Intent", packet?.intent_type ? words(packet.intent_type) : "not said"],
        ["Confidence", packet?.confidence],
        ["Received", time(intent.received_at)],
        ["Reason", receipt.details?.reason],
        ["Correlation", receipt.correlation_id],
        [
          "Trace",
          receipt.trace_id
            ? h("span", { class: "row" }, h("code", null, receipt.trace_id), copyButton(receipt.trace_id))
            : null,
        ],
        ["Key", h("code", null, short(receipt.idempotency_key, 24))],
        ["Receipt id", h("code", null, receipt.receipt_id)],
        ["Job", h("a", { href: at`/ui/jobs/${receipt.receipt_id}` }, "show the job and its plan")],
      ]),
    ),
    h(
      "div",
      { class: "two" },
      panel("Timeline", timeline(events(intent), "From the inbox to the outcome")),
      h(
        "div",
        { class: "stack" },
        panel(
          "Plan and calls",
          receipt.plan.actions.length
            ? receipt.plan.actions.map((action) =>
                call(
                  action,
                  calls.find((one) => one.step === action.step),
                ),
              )
            : h("p", { class: "note" }, "Nothing is planned."),
        ),
        panelWith("Packet", copyButton(JSON.stringify(packet), "Copy JSON"), json(packet, "Packet")),
      ),
    ),
  );
}

const TONES = { done: "good", running: "busy", in_doubt: "warn", retryable: "warn", failed: "bad", waiting: "warn" };
const STEPS = { PLAN: "Planned", CLARIFY: "Question", ACT: "Gateway call", OUTCOME: "Outcome" };

function events(intent) {
  const found = [
    {
      at: intent.received_at,
      title: "In the inbox, with its claim",
      tone: "good",
      body: h("span", { class: "faint" }, `from ${intent.source}`),
    },
  ];
  for (const op of intent.artifacts) {
    found.push({
      at: op.started_at,
      tone: TONES[op.state],
      title: h(
        "span",
        { class: "row" },
        STEPS[op.kind] ?? op.kind,
        badge(op.state),
        op.tries > 1 ? h("span", { class: "faint" }, `${op.tries} tries`) : null,
      ),
      body: [
        op.error !== null && op.error !== undefined ? shown(op.error, `Error of ${op.kind}`) : null,
        op.result !== null && op.result !== undefined
          ? h("details", null, h("summary", null, "What was recorded"), json(op.result, `Result of ${op.kind}`))
          : null,
      ],
    });
  }
  const { status } = intent.receipt;
  if (["executed", "failed", "rejected"].includes(status))
    found.push({
      at: intent.artifacts.at(-1)?.finished_at ?? intent.received_at,
      title: words(status),
      tone: status === "executed" ? "good" : "bad",
    });
  else if (status === "planned")
    found.push({ at: intent.artifacts.at(-1)?.finished_at, title: "Planned; execution is switched off", tone: "calm" });
  else found.push({ title: "Outcome", tone: "calm" });
  return found;
}

function call(action, state) {
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("strong", null, `${action.step}. ${words(action.action)}`),
      state ? badge(state.state) : null,
      h("code", { class: "faint" }, `POST ${action.path}`),
    ),
    state?.idempotency_key
      ? h(
          "p",
          { class: "faint" },
          "gateway key ",
          h("code", null, short(state.idempotency_key, 24)),
          state.tries ? `, ${state.tries} ${state.tries === 1 ? "try" : "tries"}` : "",
        )
      : null,
    json(action.payload, `Payload of step ${action.step}`),
  );
}

function question(asked, may, again) {
  const refusal = h("div");
  const answer = async (body, button) => {
    button.disabled = true;
    try {
      await post(at`/v1/clarifications/${asked.id}/answer`, body);
      toast("Answered; the receipt goes on");
      again();
    } catch (error) {
      replace(refusal, problem(error));
      button.disabled = false;
    }
  };
  const text = h("input", { name: "answer", required: true, autocomplete: "off" });
  const send = h("button", { type: "submit" }, "Answer");
  const form = h(
    "form",
    {
      class: "row",
      onsubmit: (event) => {
        event.preventDefault();
        answer({ answer_text: text.value }, send);
      },
    },
    field("Or in your words", text),
    send,
  );
  return panel(
    "A question",
    h(
      "p",
      null,
      h("strong", null, asked.question),
      h("span", { class: "faint" }, ` about ${asked.field ?? "the packet"}, ${words(asked.reason)}`),
    ),
    may
      ? [
          h(
            "div",
            { class: "row" },
            (asked.choices ?? []).map((choice) =>
              h(
                "button",
                { type: "button", onclick: (event) => answer({ choice_id: choice.id }, event.currentTarget) },
                choice.label,
              ),
            ),
          ),
          form,
          refusal,
        ]
      : h("p", { class: "note" }, "A writer can answer it."),
  );
}

function replay(receipt, again) {
  confirmDialog({
    title: "Run this receipt again?",
    text: h(
      "p",
      null,
      "Its actions are sent to the gateway ",
      h("strong", null, "once more, with new keys"),
      ": what already happened there can happen a second time.",
    ),
    fields: attest("I know that it must happen again"),
    next: () =>
      h(
        "p",
        null,
        h("strong", null, "The gateway gets every action again under a new key: the payment may happen twice."),
        " The next caller that sends this intent gets the receipt of the new run.",
      ),
    missing: (data) => (data.has("sure") ? undefined : "Tick the box first."),
    action: "Run again",
    act: async () => {
      await post(at`/v1/receipts/${receipt.receipt_id}/replay`);
      toast("The receipt runs again");
      again();
    },
  });
}
