// Talks to the JSON API of the server that gave the page. Signs in by cookie; knows no token.

import { heard, missed } from "./contact.js";
import { parseJson } from "./format.js";

// What the server refused, or what kept us from asking it.
export class Refused extends Error {
  constructor({ status, code, message, details, trace_id, retryAfter }) {
    super(message);
    this.name = "Refused";
    Object.assign(this, { status, code, details: details ?? {}, trace_id, retryAfter });
  }
}

// A read that takes longer is one that nobody answers; a write may take a while.
const READ_MS = 40_000;
const WRITE_MS = 60_000;
// What a proxy answers when the server behind it does not.
const GATEWAY = [502, 503, 504];

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

// What a page tells when it could not look again: nothing where the frame already says that there is no contact.
export function isTold(error) {
  return error.name === "AbortError" || error.status === 0;
}

async function ask(method, path, body, { signal, quiet } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-Hapax-Csrf"] = "1";
  const unreachable = (message) => {
    missed();
    return new Refused({ status: 0, code: "unreachable", message });
  };
  const limit = AbortSignal.timeout(method === "GET" ? READ_MS : WRITE_MS);
  let response;
  let text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      signal: signal ? (AbortSignal.any?.([signal, limit]) ?? signal) : limit,
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable(
      method === "GET"
        ? "the server does not answer; check that it runs, then try again"
        : "the server did not answer: what you asked for may have happened; look before you ask again",
    );
  }
  if (GATEWAY.includes(response.status) && !response.headers.has("x-trace-id"))
    throw unreachable(`a proxy answered ${response.status} in place of the server; check that the server runs`);
  heard();
  if (response.status === 204) return null;
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
