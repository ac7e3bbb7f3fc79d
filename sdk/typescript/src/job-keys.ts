// The keys of jobs and operations, as the server makes them. They are SHA-256 over the `py-json` form.

import { canonicalJson, toJson } from "./canonical/index.js";
import { treeOf } from "./canonical/json.js";
import { write } from "./canonical/profiles.js";
import { Members, readTree } from "./canonical/tree.js";
import { sha256Hex } from "./sha256.js";

/** The key of a job: one per work, artifact, address and kind. */
export function jobKey(job: {
  readonly workId: string;
  readonly artifactId: string;
  readonly canonicalUrl: string;
  readonly kind?: string;
}): string {
  const kind = job.kind ?? "download";
  const hashed = {
    v: 1,
    kind: "JOB",
    role: roleOf(kind),
    work_id: job.workId,
    artifact_id: job.artifactId,
    url: job.canonicalUrl,
  };
  return sha256Hex(canonicalJson(toJson(hashed), "py-json"));
}

/** How a kind stands in its keys. One called "artifact" must not take the keys of downloads. */
function roleOf(kind: string): string {
  if (kind === "download") return "artifact";
  return kind === "artifact" ? "kind:artifact" : kind;
}

/**
 * The key of an operation of a job. A context is an object, or its JSON text where a number must stay as it is written
 * (`1.0` is not `1` here). What it says of v, kind and job_id does not count. The server's keys are made of a job's `job_key`.
 */
export function opKey(kind: string, jobId: string, context: Readonly<Record<string, unknown>> | string = {}): string {
  const tree = typeof context === "string" ? readTree(context, "python") : treeOf(context);
  if (!(tree instanceof Members)) throw new TypeError("the context of an operation is an object");
  const ours = treeOf({ v: 1, kind, job_id: jobId }) as Members;
  const names = new Set(ours.list.map(([name]) => name));
  const theirs = tree.list.filter(([name]) => !names.has(name));
  return sha256Hex(write(new Members([...theirs, ...ours.list]), "py-json"));
}
