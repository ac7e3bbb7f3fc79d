// What an owner can do with a key: settle, release, erase, delete. Each says what the next caller will get.

import { at, post, remove } from "./api.js";
import { attest, confirmDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { cut, pretty } from "./format.js";
import { now } from "./time.js";
import { code, field, readJson, toast } from "./ui.js";

const BODY_MAX = 2000;

// The state of a key now: a held one whose lease expired is `lost`.
export function stateNow(key) {
  return key.state === "held" && Date.parse(key.lease_expires_at) < now() ? "lost" : key.state;
}

export function actions(context, key, again) {
  const path = at`/v1/keys/${key.id}`;
  const tool = (name, open, tone) =>
    h("button", { type: "button", class: tone, onclick: () => open(context, path, key, again) }, name);
  const state = stateNow(key);
  // While a runner holds the lease, only it can tell what happened.
  const open = state === "in_doubt" || state === "lost";
  return [
    open ? tool("Settle…", settle) : null,
    open ? tool("Release…", release, "risky") : null,
    key.state === "settled" ? tool("Erase…", erase) : null,
    tool("Delete…", discard, "risky"),
  ];
}

const runsAgain = (key) => [
  h("strong", null, "The next caller with this key runs the request again: the payment may happen twice."),
  " The request is ",
  h("code", null, `${key.method} ${key.path}`),
  ".",
];

function settle(context, path, key, again) {
  // The answer that is typed, or what it still lacks.
  const read = (data) => {
    const status = data.get("status").trim();
    const text = data.get("body").trim();
    if (!/^\d{3}$/.test(status) || status < 200 || status > 599)
      return { lacks: "Type the status that it ended with, 200 to 599." };
    if (text && data.has("empty")) return { lacks: "There is a body, and you say there is none: which is it?" };
    if (!text && !data.has("empty")) return { lacks: "Type the body, or say that there is none." };
    if (!text) return { answer: { status: Number(status) } };
    try {
      return { answer: { status: Number(status), body: readJson(text, "body") } };
    } catch (error) {
      return { lacks: `${error.message[0].toUpperCase()}${error.message.slice(1)}` };
    }
  };
  const until = stateNow(key) === "lost" ? "Still: the request runs again." : "Still: 409 IDEMPOTENCY_IN_DOUBT.";
  confirmDialog({
    title: "Settle this key?",
    text: h(
      "p",
      null,
      "You say that the request ",
      h("strong", null, "happened"),
      " and what it answered. It is recorded for good, and it does not run again.",
    ),
    fields: [
      field(
        "Status",
        h("input", {
          name: "status",
          inputmode: "numeric",
          maxlength: 3,
          size: 5,
          autocomplete: "off",
          placeholder: "none yet",
        }),
        "What the system behind answered, or would have.",
      ),
      field("Body (JSON)", h("textarea", { name: "body", rows: 5, spellcheck: "false" })),
      h(
        "label",
        { class: "field inline" },
        h("input", { type: "checkbox", name: "empty" }),
        h("span", null, "The answer is empty"),
      ),
    ],
    next: (data) => {
      const { answer, lacks } = read(data);
      if (!answer) return h("p", { class: "faint" }, `${until} ${lacks}`);
      if (answer.body === undefined)
        return h(
          "p",
          null,
          "The next caller with this key gets ",
          h("strong", null, answer.status),
          " without a body.",
        );
      return [
        h("p", null, "The next caller with this key gets ", h("strong", null, answer.status), " with this body:"),
        code(cut(pretty(answer.body), BODY_MAX), "Body that the next caller gets"),
      ];
    },
    missing: (data) => read(data).lacks,
    action: "Settle",
    tone: "primary",
    act: async (data) => {
      await post(`${path}/settle`, read(data).answer);
      toast("Key settled");
      again();
    },
  });
}

function release(context, path, key) {
  const happened = key.reason === "response_not_stored";
  confirmDialog({
    title: "Release this key?",
    text: happened
      ? h(
          "p",
          null,
          h("strong", null, "The request happened"),
          ": only its answer was too large to keep. Settle the key instead, unless it must happen once more.",
        )
      : h("p", null, "You say that the request did ", h("strong", null, "not"), " happen. Nobody but you has checked."),
    fields: attest(
      happened
        ? "I know that it happened, and want it to happen again"
        : "I looked at the system behind: the request did not happen",
    ),
    next: () => h("p", null, runsAgain(key)),
    missing: (data) => (data.has("sure") ? undefined : "Tick the box first."),
    action: "Release",
    act: async () => {
      await post(`${path}/settle`, { release: true });
      toast("Key released");
      context.go("/ui/keys?state=in_doubt");
    },
  });
}

function erase(context, path, key, again) {
  confirmDialog({
    title: "Erase what is stored?",
    text: h("p", null, "The request and the answer under ", h("code", null, key.key), " go for good; the key stays."),
    fields: attest("I do not need what is stored"),
    next: () =>
      h(
        "p",
        null,
        "The next caller with this key gets ",
        h("strong", null, "410 erased"),
        " instead of the answer. Nothing runs again.",
      ),
    missing: (data) => (data.has("sure") ? undefined : "Tick the box first."),
    action: "Erase",
    act: async () => {
      await post(`${path}/erase`);
      toast("Content erased");
      again();
    },
  });
}

// What is known of the request whose key is to go.
const KNOWN = {
  settled: (key) => `It ran and ended with ${key.status}.`,
  held: () => "It still runs: a second run would be beside the first.",
  in_doubt: () => "It may have happened: nobody knows.",
  lost: () => "Its lease expired before the outcome was reported: it may have happened.",
  erased: () => "It was used, and what was stored is erased.",
};

function discard(context, path, key) {
  const state = stateNow(key);
  confirmDialog({
    title: "Delete this key?",
    text: h(
      "p",
      null,
      "The record of ",
      h("code", null, key.key),
      " goes, its answer with it. ",
      h("strong", null, KNOWN[state]?.(key) ?? ""),
      " The audit trail keeps that you did this.",
    ),
    fields: attest("It may run again"),
    next: () => h("p", null, runsAgain(key)),
    missing: (data) => (data.has("sure") ? undefined : "Tick the box first."),
    action: "Delete the key",
    act: async () => {
      await remove(path);
      toast("Key deleted");
      context.go("/ui/keys");
    },
  });
}
