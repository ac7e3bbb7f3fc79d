// Operations in doubt: the list of all, and which jobs have one.

import { at, get, query } from "./api.js";
import { h } from "./dom.js";
import { words } from "./format.js";
import { list } from "./list.js";
import { time } from "./time.js";
import { badge, empty } from "./ui.js";

const IN_DOUBT = "/v1/ops?state=in_doubt";
const JOBS_MAX = 500;

// The ids of the jobs with an operation in doubt: of so many of the newest.
export async function doubtfulJobs(signal) {
  const found = await get(`${IN_DOUBT}&limit=${JOBS_MAX}`, { signal });
  return new Set(found.items.map((op) => op.job_id));
}

export function doubtList({ signal, every }) {
  return list({
    label: "Operations in doubt",
    every,
    refresh: 4000,
    load: (cursor) => get(query("/v1/ops", { state: "in_doubt", cursor }), { signal }),
    href: (op) => at`/ui/jobs/${op.job_id}`,
    keyOf: (op) => op.op_key,
    columns: [
      { name: "Operation", class: "main", cell: (op) => h("span", { class: "mono" }, op.kind) },
      { name: "State", cell: (op) => badge(op.state) },
      { name: "Job", class: "main", cell: (op) => h("span", { class: "mono" }, op.work_id) },
      { name: "May run", cell: (op) => words(op.class) },
      { name: "Begun", cell: (op) => time(op.started_at) },
      { name: "Ends", cell: () => "when somebody decides" },
    ],
    none: () =>
      empty(
        "No operation is in doubt",
        "One is when its runner crashed before it reported the outcome, and it may not run twice. ",
        h("a", { href: "/ui/jobs" }, "Show all jobs"),
        ".",
      ),
  });
}
