// Jobs: by state, with their leases; one job with its plan and its operations.

import { at, get, post, query } from "./api.js";
import { h } from "./dom.js";
import { capped, short, words } from "./format.js";
import { planView } from "./plan.js";
import { countdown, span, time } from "./time.js";
import {
  badge,
  command,
  confirmDialog,
  copyButton,
  curl,
  empty,
  facts,
  field,
  json,
  list,
  panel,
  problem,
  readJson,
  select,
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
  const bar = h("div", { class: "tabs", role: "group", "aria-label": "States" });
  const counts = async () => {
    const found = await get("/v1/jobs/stats", { signal });
    const link = (state, name, count) =>
      h(
        "a",
        {
          href: query("/ui/jobs", { ...asked, held: undefined, state }),
          "aria-current": !asked.held && (asked.state ?? "") === (state ?? "") ? "true" : null,
        },
        name,
        count === undefined ? "" : " ",
        h("span", null, count === undefined ? "" : capped(count)),
      );
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
      ...STATES.filter(
        (state) => found.states[state] || asked.state === state || state === "FAILED" || state === "DEAD",
      ).map((state) =>
        link(state, state === "DEAD" ? "Dead letters" : words(state.toLowerCase()), found.states[state] ?? 0),
      ),
    );
  };
  await counts();
  every(5000, async () => {
    try {
      await counts();
    } catch (error) {
      if (error.name !== "AbortError") bar.replaceChildren(problem(error));
    }
  });
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
  const rows = list({
    label: "Jobs",
    every,
    refresh: 4000,
    load: (cursor) => get(query("/v1/jobs", { ...asked, cursor }), { signal }),
    href: (job) => at`/ui/jobs/${job.job_id}`,
    columns: [
      { name: "Job", class: "main", cell: (job) => h("span", { class: "mono" }, job.work_id) },
      {
        name: "Artifact",
        cell: (job) => h("span", { class: "mono", title: job.artifact_id }, short(job.artifact_id, 24)),
      },
      { name: "Kind", cell: (job) => job.kind },
      { name: "State", cell: (job) => badge(job.state) },
      { name: "Lease", cell: (job) => lease(job) },
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
  return h(
    "div",
    null,
    h(
      "div",
      { class: "head" },
      h("h1", null, "Jobs"),
      h("p", null, "Work that is planned once and leased by one worker at a time."),
    ),
    h("div", { class: "stack" }, bar, form),
    rows.node,
  );
}

function lease(job) {
  if (!job.lease_until)
    return job.available_at && Date.parse(job.available_at) > Date.now() && job.state === "FAILED"
      ? h("span", { class: "faint" }, "rests, due ", time(job.available_at))
      : "–";
  return h(
    "span",
    null,
    h("span", { class: "mono" }, short(job.owner, 18)),
    " ",
    countdown(job.lease_until, "lease over"),
  );
}

async function showOne(context, id) {
  const { signal, can } = context;
  const job = await get(at`/v1/jobs/${id}`, { signal });
  context.title(job.work_id);
  const again = context.refresh;
  const seen = JSON.stringify(job);
  context.every(3000, async () => {
    if (document.querySelector("dialog[open]")) return;
    try {
      if (JSON.stringify(await get(at`/v1/jobs/${id}`, { signal })) !== seen) again();
    } catch (error) {
      if (error.name !== "AbortError") toast(`Not fresh: ${error.message}`, "bad");
    }
  });
  const plan = await graph(job, signal);
  const retryable = job.state === "FAILED" || job.state === "DEAD";
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumb" }, h("a", { href: "/ui/jobs" }, "Jobs")),
      h("h1", { class: "mono" }, job.work_id),
      badge(job.state),
      copyButton(job.job_id, "Copy id"),
      h("span", { class: "grow" }),
      retryable && can("owner")
        ? h("button", { type: "button", class: "primary", onclick: () => retry(job, again) }, "Retry…")
        : null,
    ),
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
                countdown(job.lease_until, "over: the next worker takes it"),
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
            "Its runner was lost: nobody knows whether the effect happened. ",
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
  confirmDialog({
    title: "Retry this job?",
    text: h(
      "p",
      null,
      "It starts over at once, with all its attempts. What its operations recorded stays: a settled one is not done again.",
    ),
    action: "Retry",
    tone: "primary",
    act: async () => {
      await post(at`/v1/jobs/${job.job_id}/retry`);
      toast("Job planned again");
      again();
    },
  });
}

function resolve(op, again) {
  const text = h("textarea", { name: "value", rows: 4, spellcheck: "false" });
  confirmDialog({
    title: `Resolve ${op.kind}`,
    text: h("p", null, "Look at the system behind first. Whatever you choose is recorded with your name."),
    fields: [
      field(
        "What is true",
        select(
          "choice",
          [
            ["retry", "It did not happen: do it"],
            ["result", "It happened, with this result"],
            ["error", "It failed for good, with this error"],
          ],
          "retry",
        ),
      ),
      field("Result (JSON) or error (text)", text),
    ],
    action: "Resolve",
    tone: "primary",
    act: async (data) => {
      const choice = data.get("choice");
      const value = data.get("value").trim();
      const body =
        choice === "retry"
          ? { retry: true }
          : choice === "result"
            ? { result: readJson(value || "null", "result") }
            : { error: value || "resolved by hand" };
      await post(at`/v1/ops/${op.op_key}/resolve`, body);
      toast("Operation resolved");
      again();
    },
  });
}
