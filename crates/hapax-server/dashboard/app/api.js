// Talks to the JSON API of the server that gave the page. Signs in by cookie; knows no token.

import { parseJson } from "./format.js";

// What the server refused, or what kept us from asking it.
export class Refused extends Error {
  constructor({ status, code, message, details, trace_id, retryAfter }) {
    super(message);
    this.name = "Refused";
    Object.assign(this, { status, code, details: details ?? {}, trace_id, retryAfter });
  }
}

let signedOut = () => {};

// Says who is told when a session has ended.
export function onSignedOut(tell) {
  signedOut = tell;
}

export const get = (path, options) => ask("GET", path, undefined, options);
export const post = (path, body, options) => ask("POST", path, body, options);
export const put = (path, body, options) => ask("PUT", path, body, options);
export const remove = (path, options) => ask("DELETE", path, undefined, options);

// A path with a query of what is set.
export function query(path, values) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, value);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

// A path whose parts are made safe: at`/v1/keys/${id}`.
export function at(parts, ...values) {
  return parts.reduce((path, part, index) => path + encodeURIComponent(values[index - 1]) + part);
}

async function ask(method, path, body, { signal, quiet } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-Hapax-Csrf"] = "1";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused({
      status: 0,
      code: "unreachable",
      message: "the server does not answer; check that it runs, then try again",
    });
  }
  if (response.status === 204) return null;
  const text = await response.text();
  let value;
  try {
    value = text === "" ? null : parseJson(text);
  } catch {
    value = undefined;
  }
  // A receipt that failed downstream comes with a status of 502 and is still the answer.
  if (response.ok || (value && value.receipt_id)) {
    if (value !== undefined) return value;
    throw new Refused({
      status: response.status,
      code: "not_json",
      message: `${path} answered something that is not JSON; is another service in between?`,
    });
  }
  const refusal = new Refused({
    status: response.status,
    code: value?.error?.code ?? `http_${response.status}`,
    message: value?.error?.message ?? `${path} answered ${response.status}`,
    details: value?.error?.details,
    trace_id: value?.trace_id ?? response.headers.get("x-trace-id"),
    retryAfter: Number(response.headers.get("retry-after")) || undefined,
  });
  if (response.status === 401 && !quiet) signedOut();
  throw refusal;
}
