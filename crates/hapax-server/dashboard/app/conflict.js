// The requests that were refused because a key stands for another one: each beside what is recorded.

import { changes as jsonChanges, valueAt } from "./diff.js";
import { changeTable, diffView } from "./differences.js";
import { h, replace } from "./dom.js";
import { cut, parseJson, pretty } from "./format.js";
import { interval, kinds } from "./runs.js";
import { time } from "./time.js";
import { field, panel, panelWith } from "./ui.js";

// So many kinds of refused requests are shown; the audit trail has them all.
const SHOWN_MAX = 5;
// So many places are named in the line of a kind.
const NAMED_MAX = 3;

// `more`: there are more than these. Those that differ in the same places are one line, with the places once.
export function conflictPanel(key, conflicts, more) {
  const all = kinds(conflicts, ({ details }) => JSON.stringify(details?.changes ?? details?.changes_count ?? null));
  return panelWith(
    `Conflicts (${conflicts.length}${more ? "+" : ""})`,
    h("span", { class: "faint" }, "last ", time(conflicts[0].at)),
    h(
      "p",
      null,
      "Another request came with this key. It did not run, and what is recorded did not change. Of what came only the places are kept; to see its values too, paste its body.",
    ),
    all.slice(0, SHOWN_MAX).map((kind) => refused(key, kind, more && all.length === 1)),
    all.length > SHOWN_MAX
      ? h("p", { class: "note" }, `${all.length - SHOWN_MAX} more kinds are in the audit trail.`)
      : null,
    compare(key),
  );
}

// "200+ conflicts, every 2.5 s, `total` changed"
function summary({ row, count, every }, more) {
  const changes = Array.isArray(row.details?.changes) ? row.details.changes : [];
  const places = changes
    .slice(0, NAMED_MAX)
    .flatMap((change) => [", ", h("code", null, change.path), ` ${change.kind}`]);
  const rest = changes.length + (row.details?.more ?? 0) - Math.min(changes.length, NAMED_MAX);
  return [
    `${count}${more ? "+" : ""} ${count === 1 ? "conflict" : "conflicts"}`,
    every === undefined ? "" : `, every ${interval(every)}`,
    places,
    rest > 0 ? `, ${rest} more ${rest === 1 ? "place" : "places"}` : "",
  ];
}

// One refused request: what is recorded at each place where it differed, beside what came there.
function refused(key, kind, more) {
  const { at, details } = kind.row;
  const listed = Array.isArray(details?.changes) ? details.changes : [];
  const when = h(
    "p",
    { class: "kind" },
    h("strong", null, summary(kind, more)),
    h("span", { class: "faint" }, kind.count > 1 ? [" from ", time(kind.first.at), " to "] : " ", time(at)),
  );
  if (listed.length === 0) return h("div", null, when, untold(details));
  const label = "Recorded beside what came";
  return h(
    "div",
    null,
    when,
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
      h(
        "table",
        { class: "changes refused" },
        h("caption", { class: "quiet" }, label),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Path", "Recorded", "What came"].map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h(
          "tbody",
          null,
          listed.map((change) =>
            h(
              "tr",
              null,
              h("th", { scope: "row" }, h("code", null, change.path)),
              recorded(key, change),
              h("td", null, h(change.kind === "removed" ? "del" : "ins", null, change.kind)),
            ),
          ),
        ),
      ),
    ),
    details.more ? h("p", { class: "note" }, `${details.more} more are not listed.`) : null,
  );
}

// A refusal of which only a count or the hashes are kept.
function untold(details) {
  const count = details?.changes_count;
  const told = count ? `It differed in ${count} ${count === 1 ? "place" : "places"}. ` : "";
  if (!details?.current_hash)
    return h("p", { class: "note" }, told, "Which ones is not kept, since requests are stored encrypted here.");
  return h(
    "p",
    { class: "note" },
    told,
    "Refused with hash ",
    h("code", null, details.current_hash),
    "; the first was ",
    h("code", null, details.original_hash ?? "–"),
    ".",
  );
}

function recorded(key, { path, kind }) {
  if (kind === "added") return h("td", { class: "faint" }, "absent");
  const own = { "(method)": key.method, "(path)": key.path, "(content-type)": key.request?.content_type };
  const found = Object.hasOwn(own, path) ? { value: own[path] } : valueAt(key.request?.body, path);
  if (found?.value === undefined) return h("td", { class: "faint" }, "not shown");
  const { value } = found;
  return h("td", null, h("del", null, cut(typeof value === "string" ? value : JSON.stringify(value), 2000)));
}

export function comparePanel(key) {
  return panel(null, h("details", null, h("summary", null, "Compare the request with another body"), compare(key)));
}

// The recorded request beside one that is pasted, for whoever holds the log of the refused one.
function compare(key) {
  if (key.request?.body === undefined)
    return h("p", { class: "note" }, "The recorded request has no body to compare with.");
  const result = h("div", { class: "stack", "aria-live": "polite" });
  const box = h("textarea", {
    rows: 5,
    name: "other",
    spellcheck: "false",
    placeholder: '{"paste": "the refused body here"}',
  });
  const form = h(
    "form",
    {
      class: "stack",
      onsubmit: (event) => {
        event.preventDefault();
        const recorded = key.request.body;
        let other;
        try {
          other = parseJson(box.value);
        } catch {
          // Not JSON, so it is compared as text.
          other = box.value;
        }
        const isText = typeof recorded === "string" || typeof other === "string";
        const left = typeof recorded === "string" ? recorded : pretty(recorded);
        const right = typeof other === "string" ? other : pretty(other);
        const found = isText ? [] : jsonChanges(recorded, other);
        replace(
          result,
          diffView(left, right, "Recorded request", "Other request"),
          found.length ? changeTable(found, "Changes by path") : null,
        );
      },
    },
    field("The other body", box, "It stays in this page: nothing is sent."),
    h("div", { class: "row" }, h("button", { type: "submit" }, "Compare side by side")),
  );
  return h("div", { class: "stack" }, form, result);
}
