// The state of a job as a badge, and its lease in words. The state alone does not say whether a worker holds it.

import { h } from "./dom.js";
import { cut, short } from "./format.js";
import { countdown, now, time } from "./time.js";
import { badge } from "./ui.js";

// States that somebody has to hold for anything to happen.
const AT_WORK = ["LEASED", "HEAD_DONE", "RESUME_OK", "STREAMING"];
const ERROR_MAX = 160;

// `held`, `left` if nobody holds what somebody was at, else undefined.
export function holding(job) {
  if (job.lease_until && Date.parse(job.lease_until) > now()) return "held";
  return AT_WORK.includes(job.state) ? "left" : undefined;
}

export function jobBadge(job) {
  if (holding(job) !== "left") return badge(job.state);
  return h("span", { class: "row" }, badge(job.state, "warn"), h("span", { class: "faint" }, "nobody holds it"));
}

export function lease(job) {
  if (holding(job) === "left" && !job.lease_until)
    return h(
      "span",
      { class: "faint" },
      job.available_at ? "given back: the next worker takes it" : "it waits for somebody",
    );
  if (!job.lease_until)
    return job.available_at && Date.parse(job.available_at) > now() && job.state === "FAILED"
      ? h("span", { class: "faint" }, "rests, due ", time(job.available_at))
      : "–";
  return h(
    "span",
    null,
    h("span", { class: "mono" }, short(job.owner, 18)),
    " ",
    countdown(job.lease_until, "lease expired"),
  );
}

// The error of a job in a line.
export function errorLine(job) {
  if (job.error === null || job.error === undefined) return "–";
  const { error } = job;
  const text = typeof error === "string" ? error : (error.message ?? error.error ?? JSON.stringify(error));
  const line = cut(typeof text === "string" ? text : JSON.stringify(text), ERROR_MAX);
  return job.state === "DEAD" || job.state === "FAILED" ? h("span", { class: "bad-text" }, line) : line;
}
