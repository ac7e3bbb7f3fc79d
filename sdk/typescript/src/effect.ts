// One effect of a job: done once while its record lasts, and in doubt if its runner dies while it is being done.

import type { Begun, Fence, Job, JobState, OpClass } from "./api/jobs.js";
import { parseJson, toJson } from "./canonical/index.js";
import type { Hapax } from "./client.js";

/** Why an effect has no result. */
export class EffectError extends Error {
  override readonly name = "EffectError";
  /** `in_progress`: somebody is at it. `in_doubt`: it may have happened. `failed`: for good. `waiting`: for an answer. */
  readonly action: "in_progress" | "in_doubt" | "failed" | "waiting";
  readonly opKey: string;
  readonly error: unknown;
  readonly retryable: boolean;

  constructor(begun: Begun & { readonly action: EffectError["action"] }) {
    super(MESSAGES[begun.action](begun));
    this.action = begun.action;
    this.opKey = begun.op_key;
    this.error = begun.error ?? null;
    this.retryable = begun.action !== "failed";
  }
}

const MESSAGES: Readonly<Record<EffectError["action"], (begun: Begun) => string>> = {
  in_progress: (begun) => `${begun.kind} ${begun.op_key} is being done; ask again later`,
  in_doubt: (begun) => `${begun.kind} ${begun.op_key} may have happened and its runner died; look, then resolve it`,
  failed: (begun) => `${begun.kind} ${begun.op_key} failed for good: ${toJson(begun.error ?? null)}`,
  waiting: (begun) => `${begun.kind} ${begun.op_key} waits for an answer`,
};

export interface EffectOptions {
  /** The state of the job after it, recorded together with the result. */
  readonly advanceTo?: JobState;
  /** What a dead runner means (default `at_most_once`: in doubt). */
  readonly class?: OpClass;
  /** In place of the key that the context makes. */
  readonly opKey?: string;
}

/** A job and the lease it is held under. */
export type HeldBy = Pick<Job, "job_id"> & { readonly owner?: string | null; readonly epoch?: number };

/**
 * Runs `fn` unless its result is recorded already; then that result is given. The first caller, too, gets what was
 * recorded: the result as JSON keeps it. Pass the op key on to whoever does the work, if they keep keys.
 *
 * An error of `fn` is recorded as a failure that may be tried again, unless it has `retryable: false`, and thrown.
 *
 * @throws EffectError if there is no result, HapaxError `lease_lost` if the job is no longer held.
 */
export async function runEffect<T>(
  client: Hapax,
  job: HeldBy,
  kind: string,
  context: Readonly<Record<string, unknown>>,
  fn: (opKey: string) => T | Promise<T>,
  options: EffectOptions = {},
): Promise<T> {
  const fence = fenceOf(job);
  const begun = await client.ops.begin({
    ...fence,
    job_id: job.job_id,
    kind,
    ...(options.opKey === undefined ? { context } : { op_key: options.opKey }),
    ...(options.class === undefined ? {} : { class: options.class }),
  });
  if (begun.action === "replay") return begun.result as T;
  if (begun.action !== "execute") throw new EffectError({ ...begun, action: begun.action });
  const token = begun.token!;
  let result: T;
  try {
    result = parseJson(toJson((await fn(begun.op_key)) ?? null)) as T;
  } catch (error) {
    const isFatal = (error as { retryable?: unknown } | null)?.retryable === false;
    const message = error instanceof Error ? error.message : String(error);
    await client.ops.fail(begun.op_key, { ...fence, token, error: message, retryable: !isFatal });
    throw error;
  }
  const advance = options.advanceTo === undefined ? {} : { advance_to: options.advanceTo };
  await client.ops.complete(begun.op_key, { ...fence, token, result, ...advance });
  return result;
}

export function fenceOf(job: HeldBy): Fence {
  return {
    ...(job.owner === undefined || job.owner === null ? {} : { owner: job.owner }),
    ...(job.epoch === undefined ? {} : { epoch: job.epoch }),
  };
}
