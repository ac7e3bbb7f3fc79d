// Dialogs that ask before something changes. Nothing is chosen in advance, the button works once everything is said, and
// each says what the next caller will get.

import { lostSince, onContact } from "./contact.js";
import { h, replace } from "./dom.js";
import { hms } from "./time.js";
import { problem } from "./ui.js";

// What the open dialog does when contact is lost or is there again.
let followOpen = () => undefined;
onContact(() => followOpen());

// `next(data)` says what the next caller gets, and follows every keystroke. `missing(data)` is what still has to be said:
// until it is undefined nothing can be sent, by Enter or otherwise. `action` and `tone` may follow what is said. `act` may
// fail: then the dialog stays open and shows why.
export function confirmDialog({ title, text, fields, next, missing, action, tone = "danger", act }) {
  const before = document.activeElement;
  const refusal = h("div");
  const given = (value, data) => (typeof value === "function" ? value(data) : value);
  const outcome = h("div", { class: "next-body" });
  const outcomeBox = next
    ? h(
        "section",
        { class: "next", role: "status", "aria-live": "polite", "aria-atomic": "true" },
        h("h3", null, "What the next caller gets"),
        outcome,
      )
    : null;
  const hint = h("p", { id: "dialog-missing", class: "missing" });
  const go = h("button", { type: "submit", "aria-describedby": "dialog-missing" });
  let busy = false;
  const lacking = (data) =>
    lostSince() === undefined ? missing?.(data) : `No contact since ${hms(lostSince())}: nothing can be sent.`;
  const follow = () => {
    const data = new FormData(form);
    const lacks = lacking(data);
    go.textContent = given(action, data);
    go.className = given(tone, data);
    go.disabled = busy || Boolean(lacks);
    hint.textContent = lacks ?? "";
    if (!next) return;
    const lines = [next(data)].flat();
    const danger = given(tone, data) === "danger";
    outcomeBox.classList.toggle("danger", danger);
    const drawn = h("div", null, lines);
    // What did not change is not read out again.
    if (drawn.textContent !== outcome.textContent) replace(outcome, ...lines);
  };
  const form = h(
    "form",
    {
      method: "dialog",
      oninput: follow,
      onchange: follow,
      onsubmit: async (event) => {
        event.preventDefault();
        const data = new FormData(form);
        if (busy || lacking(data)) return;
        busy = true;
        follow();
        refusal.replaceChildren();
        try {
          await act(data);
          dialog.close();
        } catch (error) {
          refusal.replaceChildren(problem(error));
          busy = false;
          follow();
        }
      },
    },
    h("h2", { id: "dialog-title" }, title),
    h("div", { id: "dialog-text" }, text),
    fields,
    outcomeBox,
    refusal,
    h("div", { class: "row end" }, hint, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go),
  );
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", "aria-describedby": "dialog-text" }, form);
  dialog.addEventListener("close", () => {
    dialog.remove();
    followOpen = () => undefined;
    if (before?.isConnected) before.focus();
  });
  follow();
  followOpen = follow;
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// A box to tick: what a person says they know. Its name is `sure`.
export function attest(text) {
  return h("label", { class: "field inline" }, h("input", { type: "checkbox", name: "sure" }), h("span", null, text));
}

// One of several, none chosen: [{value, label, hint, danger?}].
export function choices(legend, name, options) {
  return h(
    "fieldset",
    { class: "choices" },
    h("legend", null, legend),
    options.map(({ value, label, hint, danger }) =>
      h(
        "label",
        { class: danger ? "choice danger" : "choice" },
        h("input", { type: "radio", name, value, "aria-describedby": `${name}-${value}` }),
        h("span", null, label, h("small", { id: `${name}-${value}`, class: "faint" }, hint)),
      ),
    ),
  );
}
