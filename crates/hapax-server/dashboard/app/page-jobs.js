// Jobs: by state, with their leases; one job with its plan and its operations.

import { at, get, isTold, post, query } from "./api.js";
import { confirmDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { capped, short, words } from "./format.js";
import { doubtList, doubtfulJobs } from "./job-doubts.js";
import { errorLine, holding, jobBadge, lease } from "./job-state.js";
import { list } from "./list.js";
import { resolve } from "./op-actions.js";
import { planView } from "./plan.js";
import { countdown, span, time } from "./time.js";
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
  problem,
  shown,
  timeline,
  toast,
} from "./ui.js";

const STATES = [
  "PLANNED",
  "LEASED",
  "HEAD_DONE",
  "RESUME_OK",
  "STREAMING",
  "FINALIZED",
  "INDEXED",
  "DEDUPED",
  "SKIPPED_DUPLICATE",
  "FAILED",
  "DEAD",
];

export function show(context) {
  return context.rest.length ? showOne(context, context.rest[0]) : showAll(context);
}

async function showAll(context) {
  const { session, signal, every } = context;
  const asked = {
    state: context.query.get("state"),
    kind: context.query.get("kind"),
    q: context.query.get("q"),
    held: context.query.get("held"),
  };
  const doubts = context.query.get("in_doubt");
  let doubtful = new Set();
  const bar = h("div", { class: "tabs", role: "group", "aria-label": "States" });
  const counts = async () => {
    const found = await get("/v1/jobs/stats", { signal });
    doubtful = found.ops_in_doubt ? await doubtfulJobs(signal) : new Set();
    const link = (state, name, count) =>
      h(
        "a",
        {
          href: query("/ui/jobs", { ...asked, held: undefined, state }),
          "aria-current": !doubts && !asked.held && (asked.state ?? "") === (state ?? "") ? "true" : null,
        },
        name,
        count === undefined ? "" : " ",
        h("span", null, count === undefined ? "" : capped(count)),
      );
    const focused = bar.contains(document.activeElement) ? document.activeElement.getAttribute("href") : undefined;
    bar.replaceChildren(
      link(undefined, "All"),
      h(
        "a",
        {
          href: query("/ui/jobs", { ...asked, state: undefined, held: true }),
          "aria-current": asked.held ? "true" : null,
        },
        "Held now ",
        h("span", null, capped(found.held)),
      ),
      h(
        "a",
        {
          href: "/ui/jobs?in_doubt=true",
          class: found.ops_in_doubt ? "warn" : null,
          "aria-current": doubts ? "true" : null,
        },
        "Operations in doubt ",
        h("span", null, capped(found.ops_in_doubt ?? 0)),
      ),
      ...STATES.filter(
        (state) => found.states[state] || asked.state === state || state === "FAILED" || state === "DEAD",
      ).map((state) =>
        link(state, state === "DEAD" ? "Dead letters" : words(state.toLowerCase()), found.states[state] ?? 0),
      ),
    );
    if (focused) [...bar.children].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  };
  await counts();
  every(5000, async () => {
    try {
      await counts();
    } catch (error) {
      if (!isTold(error)) bar.replaceChildren(problem(error));
    }
  });
  if (doubts) return frame(bar, doubtList(context).node);
  const form = h(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Jobs",
      onsubmit: (event) => {
        event.preventDefault();
        context.go(query("/ui/jobs", { ...asked, ...Object.fromEntries(new FormData(form)) }));
      },
    },
    field(
      "Job or work id",
      h("input", { type: "search", name: "q", value: asked.q ?? "", autocomplete: "off", spellcheck: "false" }),
    ),
    field(
      "Kind",
      h("input", {
        name: "kind",
        value: asked.kind ?? "",
        placeholder: "download",
        autocomplete: "off",
        spellcheck: "false",
      }),
    ),
    h("button", { type: "submit" }, "Search"),
  );
  const filtered = Object.values(asked).some(Boolean);
  const showsErrors = asked.state === "DEAD" || asked.state === "FAILED";
  const rows = list({
    label: "Jobs",
    every,
    refresh: 4000,
    load: (cursor) => get(query("/v1/jobs", { ...asked, cursor }), { signal }),
    href: (job) => at`/ui/jobs/${job.job_id}`,
    stateOf: (job) => `${holding(job)} ${doubtful.has(job.job_id)}`,
    columns: [
      { name: "Job", class: "main", cell: (job) => h("span", { class: "mono" }, job.work_id) },
      {
        name: "Artifact",
        cell: (job) => h("span", { class: "mono", title: job.artifact_id }, short(job.artifact_id, 24)),
      },
      { name: "Kind", cell: (job) => job.kind },
      {
        name: "State",
        cell: (job) =>
          doubtful.has(job.job_id) ? h("span", { class: "row" }, jobBadge(job), badge("in_doubt")) : jobBadge(job),
      },
      showsErrors
        ? { name: "Error", class: "main", cell: errorLine }
        : { name: "Lease or error", cell: (job) => (job.state === "DEAD" ? errorLine(job) : lease(job)) },
      { name: "Attempts", class: "num", cell: (job) => `${job.attempts}` },
      { name: "Changed", cell: (job) => time(job.updated_at) },
    ],
    none: () =>
      filtered
        ? empty(
            "No job matches",
            "A search takes a whole job id or work id. ",
            h("a", { href: "/ui/jobs" }, "Show all jobs"),
            ".",
          )
        : empty(
            "No jobs yet",
            "A job is planned once per key, and leased by one worker at a time. Plan one:",
            command(
              curl(session, "POST", "/v1/jobs", {
                kind: "demo",
                work_id: "work-1",
                artifact_id: "file-1",
                canonical_url: "https://example.com/file-1",
              }),
            ),
          ),
  });
  return frame([bar, form], rows.node);
}

function frame(filters, rows) {
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Jobs"),
      h("p", null, "Work that is planned once and leased by one worker at a time."),
    ),
    h("div", { class: "stack" }, filters),
    rows,
  );
}

async function showOne(context, id) {
  const { signal, can } = context;
  const job = await get(at`/v1/jobs/${id}`, { signal });
  context.title(job.work_id);
  const again = context.refresh;
  const seenOf = (one) => JSON.stringify(one) + holding(one);
  const seen = seenOf(job);
  context.every(3000, async () => {
    if (document.querySelector("dialog[open]")) return;
    try {
      if (seenOf(await get(at`/v1/jobs/${id}`, { signal })) !== seen) again();
    } catch (error) {
      notFresh(error);
    }
  });
  const plan = await graph(job, signal);
  const doubted = job.ops.filter((op) => op.state === "in_doubt");
  const retryable = job.state === "FAILED" || job.state === "DEAD";
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/jobs" }, "Jobs")),
      h("h1", { class: "mono" }, job.work_id),
      jobBadge(job),
      doubted.length ? badge("in_doubt") : null,
      copyButton(job.job_id, "Copy id"),
      h("span", { class: "grow" }),
      retryable && can("owner")
        ? h("button", { type: "button", class: "primary", onclick: () => retry(job, again) }, "Retry…")
        : null,
    ),
    doubted.length
      ? h(
          "div",
          { class: "problem warn", role: "note" },
          h(
            "p",
            null,
            h("strong", null, `${doubted.map((op) => op.kind).join(", ")} in doubt until somebody decides`),
            ": the runner crashed before it reported the outcome. It may have happened, so no worker runs it.",
          ),
        )
      : null,
    job.error
      ? h(
          "div",
          { class: "problem" },
          h(
            "p",
            null,
            h("strong", null, "Its last attempt failed"),
            job.state === "DEAD" ? ", and it was given up." : ".",
          ),
          shown(job.error, "Error"),
        )
      : null,
    panel(
      "Facts",
      facts([
        ["Kind", job.kind],
        ["Artifact", h("code", null, job.artifact_id)],
        ["Address", h("code", null, job.canonical_url)],
        [
          "Lease",
          job.lease_until
            ? h(
                "span",
                null,
                h("code", null, job.owner),
                " ",
                countdown(job.lease_until, "expired: the next worker takes it"),
              )
            : "nobody holds it",
        ],
        ["Epoch", job.epoch],
        ["Attempts", `${job.attempts}, ${job.failures} failed of at most ${job.max_attempts}`],
        [
          "Due",
          !job.lease_until && ["PLANNED", "FAILED"].includes(job.state) && job.available_at
            ? time(job.available_at)
            : null,
        ],
        ["Planned", time(job.created_at)],
        ["Changed", time(job.updated_at)],
        ["Job id", h("code", null, job.job_id)],
        job.kind === "intent"
          ? ["Receipt", h("a", { href: at`/ui/receipts/${job.job_id}` }, "show the receipt")]
          : null,
      ]),
    ),
    plan
      ? panel(
          `Plan: ${plan.plan}`,
          planView(plan, (node) => document.getElementById(`op-${node.op_key}`)?.scrollIntoView({ block: "center" })),
        )
      : null,
    panel(
      "Operations",
      job.ops.length
        ? timeline(
            job.ops.map((op) => operation(op, can, again)),
            "Operations of the job",
          )
        : h(
            "p",
            { class: "note" },
            "None was begun yet. An operation is one effect on the world; its result is recorded once.",
          ),
    ),
    h(
      "div",
      { class: "two" },
      panel(
        "Payload",
        job.payload === null || job.payload === undefined
          ? h("p", { class: "note" }, "None.")
          : json(job.payload, "Payload"),
      ),
      panel(
        "Result",
        job.result === null || job.result === undefined
          ? h("p", { class: "note" }, "None yet.")
          : json(job.result, "Result"),
      ),
    ),
  );
}

// The plan of a job, if it runs by one.
async function graph(job, signal) {
  const found = await get(at`/v1/jobs/${job.job_id}/graph`, { signal });
  return found.nodes.length ? found : undefined;
}

const TONES = { done: "good", running: "busy", in_doubt: "warn", retryable: "warn", failed: "bad", waiting: "warn" };

function operation(op, can, again) {
  const took = op.finished_at ? (Date.parse(op.finished_at) - Date.parse(op.started_at)) / 1000 : undefined;
  return {
    at: op.started_at,
    tone: TONES[op.state],
    title: h(
      "span",
      { class: "row", id: `op-${op.op_key}` },
      op.kind,
      badge(op.state),
      h(
        "span",
        { class: "faint" },
        words(op.class),
        took === undefined ? "" : `, took ${took < 1 ? `${Math.round(took * 1000)} ms` : span(Math.round(took))}`,
        op.tries > 1 ? `, ${op.tries} tries` : "",
      ),
    ),
    body: [
      h("code", { class: "faint" }, op.op_key),
      op.state === "in_doubt"
        ? h(
            "p",
            null,
            "Its runner crashed: nobody knows whether the effect happened. ",
            can("owner")
              ? h("button", { type: "button", class: "small", onclick: () => resolve(op, again) }, "Resolve…")
              : "An owner can resolve it.",
          )
        : null,
      op.error !== null && op.error !== undefined ? shown(op.error, `Error of ${op.kind}`) : null,
      op.result !== null && op.result !== undefined
        ? h("details", null, h("summary", null, "Result"), json(op.result, `Result of ${op.kind}`))
        : null,
    ],
  };
}

function retry(job, again) {
  const unsettled = job.ops.filter((op) => op.state === "in_doubt");
  confirmDialog({
    title: "Retry this job?",
    text: h("p", null, "It starts over at once, with all its attempts."),
    next: () => [
      h(
        "p",
        null,
        "The next worker gets this job, and the result of every operation that is done: those do not run again.",
      ),
      unsettled.length
        ? h(
            "p",
            null,
            h("strong", null, `${unsettled.map((op) => op.kind).join(", ")} in doubt: `),
            "it stays so until you resolve it.",
          )
        : null,
    ],
    action: "Retry",
    tone: "primary",
    act: async () => {
      await post(at`/v1/jobs/${job.job_id}/retry`);
      toast("Job planned again");
      again();
    },
  });
}
