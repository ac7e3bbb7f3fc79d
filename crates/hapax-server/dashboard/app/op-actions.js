// How an owner ends the doubt about an operation, and what the next worker gets of it.

import { at, post } from "./api.js";
import { choices, confirmDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { cut, pretty, words } from "./format.js";
import { code, field, readJson, toast } from "./ui.js";

const SHOWN_MAX = 2000;

// What is said so far: a resolution, or what it still lacks.
function read(op, data) {
  const choice = data.get("choice");
  if (!choice) return { lacks: "Choose what is true." };
  if (choice === "retry") {
    if (op.class === "at_most_once" && data.get("name").trim() !== op.kind)
      return { lacks: `Type ${op.kind} to run it again.` };
    return { body: { retry: true } };
  }
  const text = data.get(choice).trim();
  if (choice === "error") return text ? { body: { error: text } } : { lacks: "Type why it failed." };
  if (!text) return { lacks: "Type the result; null if it has none." };
  try {
    return { body: { result: readJson(text, "result") } };
  } catch (error) {
    return { lacks: `${error.message[0].toUpperCase()}${error.message.slice(1)}` };
  }
}

export function resolve(op, again) {
  const once = op.class === "at_most_once";
  const part = (choice, control) => h("div", { "data-of": choice, hidden: true }, control);
  const parts = [
    part("result", field("Result (JSON)", h("textarea", { name: "result", rows: 4, spellcheck: "false" }))),
    part("error", field("Why it failed", h("input", { name: "error", autocomplete: "off" }))),
    part(
      "retry",
      once
        ? field(
            `Type ${op.kind} to run it again`,
            h("input", { name: "name", autocomplete: "off", spellcheck: "false", autocapitalize: "off" }),
            "It is an effect that may happen at most once.",
          )
        : null,
    ),
  ];
  const dialog = confirmDialog({
    title: `Resolve ${op.kind}`,
    text: h(
      "p",
      null,
      "Its runner crashed: nobody knows whether it happened. Look at the system behind first. What you say is recorded with your name.",
    ),
    fields: [
      choices("What is true?", "choice", [
        { value: "result", label: "It happened", hint: "Its result is recorded, and it does not run again." },
        { value: "error", label: "It failed for good", hint: "The failure is recorded, and it does not run again." },
        {
          value: "retry",
          label: `It did not happen: run ${op.kind} again`,
          hint: once ? "Danger: if it did happen, it happens twice." : `It is ${words(op.class)}.`,
          danger: true,
        },
      ]),
      parts,
    ],
    next: (data) => {
      const { body, lacks } = read(op, data);
      if (data.get("choice") === "retry")
        return h(
          "p",
          null,
          h("strong", null, `The next worker with this job runs ${op.kind} again: the payment may happen twice.`),
        );
      if (!body) return h("p", { class: "faint" }, `Still in doubt: ${op.kind} is not run. ${lacks}`);
      if (body.error !== undefined)
        return h("p", null, `The next worker is told that ${op.kind} failed: `, h("strong", null, body.error));
      return [
        h("p", null, `The next worker gets this result of ${op.kind}, and does not run it again:`),
        code(cut(pretty(body.result), SHOWN_MAX), "Result that the next worker gets"),
      ];
    },
    missing: (data) => read(op, data).lacks,
    action: (data) =>
      ({ result: "Record the result", error: "Record the failure", retry: `Run ${op.kind} again` })[
        data.get("choice")
      ] ?? "Resolve",
    tone: (data) => (data.get("choice") === "retry" ? "danger" : "primary"),
    act: async (data) => {
      await post(at`/v1/ops/${op.op_key}/resolve`, read(op, data).body);
      toast("Operation resolved");
      again();
    },
  });
  const chosen = () => dialog.querySelector("[name=choice]:checked")?.value;
  dialog.addEventListener("change", () => {
    for (const one of parts) one.hidden = one.dataset.of !== chosen();
  });
}
