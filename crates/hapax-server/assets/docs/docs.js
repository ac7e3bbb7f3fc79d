// Renders /openapi.json: groups, operations, schemas, examples, a curl to copy, and a form to try each operation.
// What comes from the document or from an answer becomes text nodes, never markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
const TOKEN = "hapax-docs-token";
const SHOWN_MAX = 200000;
let api = null;
const operations = new Map();

const at = (id) => document.getElementById(id);

/** An element with attributes and children; text is text. */
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== ""));
  return element;
}

/** Text with `code`, **strong** and links that stay on this server. */
function prose(text) {
  const out = [];
  const parts = String(text || "").split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\(\/[^)\s]*\))/);
  for (const part of parts) {
    const link = /^\[([^\]]+)\]\((\/[^)\s]*)\)$/.exec(part);
    if (link) out.push(h("a", { href: link[2] }, link[1]));
    else if (/^`.+`$/.test(part)) out.push(h("code", null, part.slice(1, -1)));
    else if (/^\*\*.+\*\*$/.test(part)) out.push(h("strong", null, part.slice(2, -2)));
    else if (part) out.push(part);
  }
  return out;
}

const paragraphs = (text) => String(text || "").split("\n\n").filter(Boolean).map((one) => h("p", null, prose(one)));

/** What a reference leads to. */
function followed(value) {
  if (!value || !value.$ref) return value || {};
  let found = api;
  for (const part of value.$ref.slice(2).split("/")) {
    found = found && found[part.replace(/~1/g, "/").replace(/~0/g, "~")];
  }
  return found || {};
}

const nameOf = (schema) => (schema && schema.$ref ? schema.$ref.split("/").pop() : "");

/** A schema in a few words. */
function kind(schema) {
  if (!schema) return "any";
  if (schema.$ref) return nameOf(schema);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.oneOf || schema.anyOf;
  if (choices) return choices.map(kind).join(" | ");
  if (schema.allOf) return schema.allOf.map(nameOf).filter(Boolean).join(" & ") || "object";
  const types = [].concat(schema.type || []);
  if (types.includes("array")) {
    const rest = types.filter((type) => type !== "array");
    return ["list of " + kind(schema.items), ...rest].join(" | ");
  }
  const word = types.join(" | ") || "any";
  return schema.format ? `${word} (${schema.format})` : word;
}

function limits(schema) {
  const said = [];
  const names = { minimum: "from", maximum: "to", minLength: "at least (characters)", maxLength: "at most (characters)",
    minItems: "at least (items)", maxItems: "at most (items)", pattern: "pattern", default: "default" };
  for (const [name, word] of Object.entries(names)) {
    if (schema[name] !== undefined) said.push(`${word} ${typeof schema[name] === "string" ? schema[name] : JSON.stringify(schema[name])}`);
  }
  return said.length ? ` · ${said.join(", ")}` : "";
}

const isDeep = (schema) => {
  const found = followed(schema);
  return Boolean(found.properties || found.allOf || found.oneOf || found.anyOf || found.items && isDeep(found.items));
};

/** The members of a schema. What is nested is made when it is opened, so that a circle does no harm. */
function shape(schema) {
  const found = followed(schema);
  const parts = [];
  if (found.enum) parts.push(h("p", { class: "soft" }, kind(found)));
  for (const one of found.allOf || []) parts.push(shape(one));
  const choices = found.oneOf || found.anyOf || [];
  choices.forEach((one, index) => parts.push(folded(`choice ${index + 1}: ${kind(one)}`, one)));
  if (found.items) parts.push(isDeep(found.items) ? folded(`each: ${kind(found.items)}`, found.items) : h("p", { class: "soft" }, kind(found)));
  const members = Object.entries(found.properties || {});
  if (members.length) {
    const needed = new Set(found.required || []);
    parts.push(h("ul", { class: "fields" }, members.map(([name, value]) => member(name, value, needed.has(name)))));
  }
  if (!parts.length) parts.push(h("p", { class: "soft" }, kind(found)));
  return h("div", null, parts);
}

function member(name, value, needed) {
  const found = followed(value);
  const line = [h("code", null, name), " ", h("span", { class: "soft" }, kind(value) + limits(found))];
  if (needed) line.push(" ", h("span", { class: "need" }, "always"));
  const about = value.description || found.description;
  if (about) line.push(" — ", prose(about));
  return h("li", null, line.flat(), isDeep(value) ? folded(kind(value), value) : null);
}

function folded(label, schema) {
  const details = h("details", null, h("summary", null, label));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(shape(schema));
  });
  return details;
}

/** JSON laid out line by line, its digits and strings untouched. What is not JSON is left as it is. */
function laidOut(text) {
  let out = "", depth = 0, inString = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (inString) {
      out += c;
      if (c === "\\") out += text[i += 1] || "";
      else if (c === '"') inString = false;
    } else if (c === '"') { inString = true; out += c; }
    else if (c === "{" || c === "[") {
      const close = /^\s*[}\]]/.exec(text.slice(i + 1, i + 200));
      if (close) { out += c + close[0].trim(); i += close[0].length; }
      else { depth += 1; out += c + line(); }
    } else if (c === "}" || c === "]") { depth = Math.max(0, depth - 1); out += line() + c; }
    else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

const json = (value) => JSON.stringify(value, null, 2);
const quoted = (text) => `'${String(text).replace(/'/g, "'\\''")}'`;

async function copy(text, button) {
  const word = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy";
  }
  setTimeout(() => { button.textContent = word; }, 1500);
}

/** The form of an operation: what it is filled with, as a request. */
function asked(op, form) {
  let path = op.path;
  const query = new URLSearchParams();
  const headers = [];
  for (const parameter of op.parameters) {
    const value = form.elements[`${op.id}.${parameter.name}`].value;
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value && parameter.in === "query") query.set(parameter.name, value);
    else if (value && parameter.in === "header") headers.push([parameter.name, value]);
  }
  const accept = form.elements[`${op.id}.accept`];
  if (accept && accept.checked) headers.push(["Accept", "application/problem+json"]);
  const field = form.elements[`${op.id}.body`];
  const body = field && field.value.trim() ? field.value : null;
  if (body !== null) headers.push(["Content-Type", "application/json"]);
  const text = query.toString();
  return { path: text ? `${path}?${text}` : path, headers, body };
}

function curl(op, request) {
  const lines = [`curl -i ${op.method === "get" ? "" : `-X ${op.method.toUpperCase()} `}${quoted(location.origin + request.path)}`];
  if (op.role !== "none") lines.push('-H "Authorization: Bearer $HAPAX_TOKEN"');
  for (const [name, value] of request.headers) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (request.body !== null) lines.push(`-d ${quoted(request.body)}`);
  return lines.join(" \\\n  ");
}

async function send(op, form, out) {
  const changes = op.method !== "get" && op.role === "owner";
  if (changes && !window.confirm(`${op.method.toUpperCase()} ${op.path} changes what is stored. Send it?`)) return;
  const request = asked(op, form);
  const headers = new Headers(request.headers);
  const token = at("token").value.trim();
  if (token) headers.set("Authorization", `Bearer ${token}`);
  out.replaceChildren(h("p", null, "Sent; waiting for the answer."));
  const began = performance.now();
  try {
    const answer = await fetch(request.path, {
      method: op.method.toUpperCase(), headers, body: request.body, mode: "same-origin", credentials: "omit", cache: "no-store", redirect: "error",
    });
    const text = await answer.text();
    const took = Math.round(performance.now() - began);
    const isJson = (answer.headers.get("content-type") || "").includes("json");
    const shown = (isJson ? laidOut(text) : text).slice(0, SHOWN_MAX);
    const code = isJson && /"code":\s*"(\w+)"/.exec(text);
    out.replaceChildren(
      h("p", null, h("span", { class: `status ${answer.ok ? "ok" : "no"}` }, `${answer.status} ${answer.statusText}`), ` in ${took} ms, ${text.length} characters `,
        !answer.ok && code ? h("a", { href: `/docs/errors/${code[1]}` }, `what ${code[1]} means`) : null),
      h("h4", null, "Headers"), h("pre", { tabindex: 0, "aria-label": "Headers of the answer" }, [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n")),
      h("h4", null, "Body"), h("pre", { tabindex: 0, "aria-label": "Body of the answer" }, shown || "(empty)"));
  } catch (why) {
    out.replaceChildren(h("p", { class: "no" }, `There was no answer: ${why.message || why}`));
  }
}

function field(op, parameter) {
  const id = `${op.id}.${parameter.name}`;
  const schema = followed(parameter.schema);
  const value = parameter.in === "path" ? schema.default || parameter.example || "" : "";
  const options = schema.enum || (schema.type === "boolean" ? ["true", "false"] : null);
  const input = options
    ? h("select", { id, name: id }, h("option", { value: "" }, "(left out)"), options.map((one) => h("option", { value: one }, String(one))))
    : h("input", { id, name: id, value, autocomplete: "off", spellcheck: "false", placeholder: parameter.in === "path" ? "" : String(schema.default ?? parameter.example ?? ""), required: parameter.required });
  return h("div", { class: "row" },
    h("label", { for: id }, h("code", null, parameter.name), " ", h("span", { class: "soft" }, `${parameter.in} · ${kind(parameter.schema)}${limits(schema)}`)),
    h("span", { class: "soft" }, prose(parameter.description)), input);
}

function tryIt(op) {
  const out = h("div", { role: "status", "aria-live": "polite" });
  const line = h("pre", { tabindex: 0, "aria-label": "curl" });
  const button = h("button", { type: "button", onclick: () => copy(line.textContent, button) }, "Copy the curl");
  const parts = op.parameters.map((parameter) => field(op, parameter));
  if (op.body) {
    const id = `${op.id}.body`;
    const area = h("textarea", { id, name: id, spellcheck: "false" });
    area.value = op.body.example === undefined ? "" : json(op.body.example);
    parts.push(h("div", { class: "row" }, h("label", { for: id }, "Body, JSON"), area));
  }
  const accept = h("input", { type: "checkbox", id: `${op.id}.accept`, name: `${op.id}.accept` });
  parts.push(h("p", null, accept, " ", h("label", { for: `${op.id}.accept` }, "Errors as RFC 9457")));
  const form = h("form", null, parts, line,
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "send" }, "Send"), button), out);
  const update = () => { line.textContent = curl(op, asked(op, form)); };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(op, form, out); });
  update();
  return form;
}

function responses(op) {
  const items = Object.entries(op.value.responses).map(([status, given]) => {
    const response = followed(given);
    const good = status < "400";
    const contents = Object.entries(response.content || {});
    const codes = response["x-codes"];
    const body = codes
      ? [" ", codes.flatMap((code, index) => [index ? ", " : "", h("a", { href: `/docs/errors/${code}` }, code)])].flat()
      : [" ", prose(response.description)].flat();
    const names = Object.keys(response.headers || {}).filter((name) => name !== "X-Trace-Id");
    return h("li", null, h("span", { class: `status ${good ? "ok" : "no"}` }, status), body,
      names.length ? h("span", { class: "soft" }, ` · headers ${names.join(", ")}`) : null,
      codes ? null : contents.map(([type, content]) => [
        folded(`${type}: ${kind(content.schema)}`, content.schema),
        content.example === undefined ? null : h("pre", { tabindex: 0, "aria-label": "Example of the answer" }, json(content.example)),
      ]).flat());
  });
  return h("ul", { class: "statuses" }, items);
}

/** What is within an operation, made when it is opened. */
function inside(op) {
  const link = h("button", { type: "button", onclick: () => copy(`${location.origin}/docs#${op.id}`, link) }, "Copy the link");
  const parts = [paragraphs(op.value.description),
    h("p", { class: "soft" }, op.role === "none" ? "Open: no token is needed. " : `Needs a token with the role ${op.role} or higher. `, h("code", null, op.id), " ", link)];
  if (op.body) {
    parts.push(h("h3", null, "Body"), h("p", { class: "soft" }, kind(op.body.schema)), shape(op.body.schema));
    if (op.body.example !== undefined) parts.push(h("pre", { tabindex: 0, "aria-label": "Example of a body" }, json(op.body.example)));
  }
  parts.push(h("h3", null, "Answers"), responses(op), h("h3", null, "Try it"), tryIt(op));
  return h("div", null, parts.flat());
}

function card(op) {
  const details = h("details", { class: "operation", id: op.id },
    h("summary", null, h("span", { class: `method ${op.method}` }, op.method.toUpperCase()), h("span", { class: "path" }, op.path),
      h("span", null, prose(op.value.summary)), h("span", { class: "role" }, op.role === "none" ? "open" : op.role)));
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    if (details.children.length === 1) details.append(inside(op));
    if (location.hash !== `#${op.id}`) history.replaceState(null, "", `#${op.id}`);
  });
  op.card = details;
  return details;
}

function read(path, method, value) {
  const content = value.requestBody && followed(value.requestBody).content;
  const op = { id: value.operationId, path, method, value, role: value["x-role"],
    parameters: (value.parameters || []).map(followed), body: content && content["application/json"] };
  op.words = `${op.id} ${path} ${method} ${value.summary} ${value.description}`.toLowerCase();
  operations.set(op.id, op);
  return op;
}

function render() {
  at("version").textContent = api.info.version;
  const groups = new Map(api.tags.map((tag) => [tag.name, []]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((one) => item[one])) {
      groups.get(item[method].tags[0]).push(read(path, method, item[method]));
    }
  }
  const main = at("content");
  main.replaceChildren(h("section", { "aria-label": "About" }, paragraphs(api.info.description),
    h("p", null, h("a", { href: "/openapi.json", download: "openapi.json" }, "openapi.json"))));
  for (const tag of api.tags) {
    const group = groups.get(tag.name);
    main.append(h("section", { "aria-labelledby": `door-${tag.name}` }, h("h2", { id: `door-${tag.name}` }, tag.name), paragraphs(tag.description), group.map(card)));
    const items = group.map((op) => {
      op.entry = h("li", null, h("a", { href: `#${op.id}` }, h("span", { class: `method ${op.method}` }, op.method.toUpperCase()), " ", op.id));
      return op.entry;
    });
    at("index").append(h("section", null, h("h2", null, h("a", { href: `#door-${tag.name}` }, tag.name)), h("ul", null, items)));
  }
}

function search() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const op of operations.values()) {
    const fits = words.every((word) => op.words.includes(word));
    op.card.hidden = op.entry.hidden = !fits;
    count += fits ? 1 : 0;
  }
  for (const section of document.querySelectorAll("#index section, main section[aria-labelledby]")) {
    section.hidden = !section.querySelector("li:not([hidden]), details.operation:not([hidden])");
  }
  at("found").textContent = words.length ? `${count} of ${operations.size}` : "";
}

/** Opens the operation that the address names. */
function go() {
  const op = operations.get(decodeURIComponent(location.hash.slice(1)));
  if (!op) return;
  op.card.hidden = false;
  op.card.open = true;
  op.card.scrollIntoView({ behavior: "instant" });
  op.card.querySelector("summary").focus({ preventScroll: true });
}

async function start() {
  const token = at("token");
  try { token.value = sessionStorage.getItem(TOKEN) || ""; } catch { /* Nothing is kept then. */ }
  const keep = () => {
    try {
      if (token.value) sessionStorage.setItem(TOKEN, token.value);
      else sessionStorage.removeItem(TOKEN);
    } catch { /* Nothing is kept then. */ }
  };
  token.addEventListener("input", keep);
  at("token-form").addEventListener("submit", (event) => event.preventDefault());
  at("token-forget").addEventListener("click", () => { token.value = ""; keep(); token.focus(); });
  at("search").addEventListener("input", search);
  window.addEventListener("hashchange", go);
  try {
    const answer = await fetch("/openapi.json", { credentials: "omit" });
    api = await answer.json();
    render();
    go();
  } catch (why) {
    at("state").textContent = `The document could not be read: ${why.message || why}`;
  }
}

start();
