// The parts that pages are made of: badges, tables, empty states, errors, timelines, code, copying.

import { Refused, isTold } from "./api.js";
import { h, s } from "./dom.js";
import { parseJson, pretty, words } from "./format.js";
import { fullTime } from "./time.js";

// Which tone a state has. The word itself is always shown too.
const TONE = {
  settled: "good",
  executed: "good",
  done: "good",
  completed: "good",
  answered: "good",
  INDEXED: "good",
  DEDUPED: "good",
  FINALIZED: "good",
  inserted: "good",
  ok: "good",
  ready: "good",
  enabled: "good",
  held: "busy",
  running: "busy",
  LEASED: "busy",
  HEAD_DONE: "busy",
  RESUME_OK: "busy",
  STREAMING: "busy",
  submitted: "busy",
  collecting: "busy",
  accepted: "busy",
  planned: "calm",
  PLANNED: "calm",
  queued: "calm",
  pending: "calm",
  waiting: "warn",
  needs_clarification: "warn",
  in_doubt: "warn",
  open: "warn",
  retryable: "warn",
  stale: "warn",
  FAILED: "bad",
  DEAD: "bad",
  failed: "bad",
  rejected: "bad",
  parse_error: "bad",
  erased: "calm",
  SKIPPED_DUPLICATE: "calm",
  skipped: "calm",
  disabled: "calm",
  updated: "busy",
};

export function badge(state, tone) {
  return h("span", { class: `badge ${tone ?? TONE[state] ?? "calm"}` }, words(state));
}

const ICONS = {
  overview: "M2 13h12M4 11V7m4 4V3m4 8V6",
  keys: "M10.5 2a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM8 8l-6 6m2.5-2.5L6 13",
  receipts: "M4 2h8v12l-2-1.2L8 14l-2-1.2L4 14zM6 6h4M6 9h4",
  snapshots: "M2 5l6-3 6 3-6 3zM2 8l6 3 6-3M2 11l6 3 6-3",
  entries: "M3 3h10v10H3zM5.5 6h5M5.5 8.5h5M5.5 11h3",
  imports: "M8 2v8m-3-3l3 3 3-3M2.5 11v3h11v-3",
  jobs: "M2.5 5.5h11v8h-11zM6 5.5V3h4v2.500M2.500 9h11",
  batches: "M2 3h5v4H2zM9 3h5v4H9zM2 9h5v4H2zM9 9h5v4H9z",
  audit: "M3 4l1.500 1.500L7 3M3 8.500L4.500 10 7 7.500M9 4.500h5M9 9h5M3 13h11",
  settings: "M2 5h7m3 0h2M2 11h2m3 0h7M9 3v4M7 9v4",
  mark: "M5 2.500v11M5 9c0-2 1.300-3.200 3-3.200S11 7 11 9v4.500",
  menu: "M2 4h12M2 8h12M2 12h12",
  copy: "M5 5h8v9H5zM3 11V2h8",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  out: "M6 3H3v10h3M7 8h7m-3-3l3 3-3 3",
};

export function icon(name) {
  return s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

// Says something to screen readers without moving anything.
export function say(text) {
  const box = document.getElementById("said");
  box.textContent = "";
  // A region that gets the same text twice in one turn is not read again.
  setTimeout(() => (box.textContent = text), 30);
}

// Tells that a page could not look again, where nothing else does.
export function notFresh(error) {
  if (!isTold(error)) toast(`Not fresh: ${error.message}`, "bad");
}

// A short message that goes by itself.
export function toast(text, tone = "good") {
  let tray = document.querySelector(".toasts");
  if (!tray) document.body.append((tray = h("div", { class: "toasts" })));
  const note = h("div", { class: `toast ${tone}` }, text);
  tray.append(note);
  say(text);
  setTimeout(() => note.remove(), 5000);
}

export function copyButton(text, what = "Copy") {
  const label = h("span", null, what);
  const button = h(
    "button",
    {
      type: "button",
      class: "small ghost",
      onclick: async () => {
        try {
          await copy(text);
          label.textContent = "Copied";
          say("Copied");
        } catch {
          label.textContent = "Select and copy by hand";
        }
        setTimeout(() => (label.textContent = what), 2000);
      },
    },
    icon("copy"),
    label,
  );
  return button;
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Over plain http beyond loopback there is no clipboard object.
  const box = h("textarea", { class: "quiet", "aria-hidden": "true" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (!done) throw new Error("not copied");
}

// A command to paste, in a box of its own.
export function command(text, label = "Command to paste") {
  return h(
    "div",
    { class: "command" },
    h("pre", { tabindex: 0, role: "region", "aria-label": label }, h("code", null, text)),
    copyButton(text),
  );
}

// A curl for this server, with a token where one is needed.
export function curl(session, method, path, body, headers = {}) {
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}'${location.origin}${path}'`];
  if (session?.auth === "token") lines.push(`  -H "Authorization: Bearer $HAPAX_TOKEN"`);
  for (const [name, value] of Object.entries(headers)) lines.push(`  -H '${name}: ${value}'`);
  if (body !== undefined) {
    lines.push(`  -H 'Content-Type: application/json'`);
    lines.push(`  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`);
  }
  return lines.join(" \\\n");
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("h3", null, title), h("p", null, text), more);
}

// What went wrong, where to read about it, and how to try again.
export function problem(error, retry) {
  const known = error instanceof Refused;
  const code = error.code ?? "page_error";
  const faults = Array.isArray(error.details?.errors) ? error.details.errors.slice(0, 20) : [];
  const documented = known && error.status > 0 && !code.startsWith("http_") && code !== "not_json";
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", null, h("strong", null, code), known && error.status ? ` (${error.status})` : "", ": ", error.message),
    faults.length
      ? h(
          "ul",
          null,
          faults.map((fault) => h("li", null, h("code", null, fault.path || "/"), ": ", fault.message)),
        )
      : null,
    error.details?.reason ? h("p", null, "Reason: ", String(error.details.reason)) : null,
    h(
      "p",
      { class: "row" },
      documented ? h("a", { href: `/docs/errors/${encodeURIComponent(code)}` }, `What ${code} means`) : null,
      error.trace_id
        ? h("span", null, "trace ", h("code", null, error.trace_id), " ", copyButton(error.trace_id))
        : null,
      retry ? h("button", { type: "button", class: "small", onclick: retry }, "Try again") : null,
    ),
  );
}

export function loading(text = "Loading…") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
}

// A fact with longer code than this takes two columns.
const WIDE = 44;

// Names and values.
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter((pair) => pair && pair[1] !== undefined && pair[1] !== null)
      .map(([name, value]) => {
        const cell = h("dd", null, value);
        return h(
          "div",
          { class: cell.textContent.length > WIDE && cell.querySelector("code") ? "wide" : null },
          h("dt", null, name),
          cell,
        );
      }),
  );
}

export function panel(title, ...children) {
  return h(
    "section",
    { class: "panel" },
    title ? h("header", { class: "panel-head" }, h("h2", null, title)) : null,
    h("div", { class: "panel-body" }, children),
  );
}

// A panel with something at the right end of its head.
export function panelWith(title, tool, ...children) {
  return h(
    "section",
    { class: "panel" },
    h("header", { class: "panel-head" }, h("h2", null, title), h("div", { class: "row" }, tool)),
    h("div", { class: "panel-body" }, children),
  );
}

// Text that is kept as it is, in a box that scrolls.
export function code(text, label) {
  return h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label }, h("code", null, text));
}

// JSON with its parts in different colours; a large one plain.
export function json(value, label) {
  const text = pretty(value);
  if (text.length > 40_000) return code(text, label);
  const part = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g;
  const box = h("code");
  let from = 0;
  for (const found of text.matchAll(part)) {
    box.append(text.slice(from, found.index));
    const [whole, string, colon, digits] = found;
    const kind = string ? (colon ? "j-name" : "j-text") : digits ? "j-number" : "j-word";
    box.append(h("span", { class: kind }, string ?? whole));
    if (colon) box.append(colon);
    from = found.index + whole.length;
  }
  box.append(text.slice(from));
  return h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": label }, box);
}

// A text as it is, anything else as JSON.
export function shown(value, label) {
  return typeof value === "string" ? code(value, label) : json(value, label);
}

// What happened, oldest first: [{at, title, tone?, body?}].
export function timeline(events, label) {
  return h(
    "ol",
    { class: "timeline", "aria-label": label },
    events.map((event) =>
      h(
        "li",
        { class: event.tone ?? "calm" },
        h("div", { class: "when" }, event.at ? fullTime(event.at) : h("span", { class: "faint" }, "not yet")),
        h("div", { class: "what" }, event.title),
        event.body ? h("div", { class: "more" }, event.body) : null,
      ),
    ),
  );
}

// A field with its label.
export function field(label, control, hint) {
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    control,
    hint ? h("small", { class: "faint" }, hint) : null,
  );
}

// A choice of one of several.
export function select(name, options, value, attributes) {
  const box = h(
    "select",
    { name, ...attributes },
    options.map((option) => {
      const [id, text] = Array.isArray(option) ? option : [option, words(option)];
      return h("option", { value: id }, text);
    }),
  );
  box.value = value ?? "";
  return box;
}

// What stands in a field, as JSON.
export function readJson(text, name) {
  try {
    return parseJson(text);
  } catch (error) {
    throw Object.assign(new Error(`the ${name} is not JSON: ${error.message}`), { code: "not_json" });
  }
}
