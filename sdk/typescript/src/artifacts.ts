// The functions of the artifact downloader that hapax grew out of, by their names, over the HTTP API.

import type { Job, JobState, OpClass } from "./api/jobs.js";
import type { Hapax, Reconciled } from "./client.js";
import { fenceOf, runEffect as runOne, type HeldBy } from "./effect.js";
import { HapaxError } from "./errors.js";

export { jobKey, opKey } from "./job-keys.js";

/** Leases that were taken through this module, so that later calls carry their epoch. */
const leases = new WeakMap<Hapax, Map<string, { owner: string; epoch: number }>>();

function leasesOf(client: Hapax): Map<string, { owner: string; epoch: number }> {
  const known = leases.get(client) ?? new Map<string, { owner: string; epoch: number }>();
  leases.set(client, known);
  return known;
}

interface Holder {
  readonly jobId: string;
  readonly owner?: string;
  /** Left out, it is that of the lease that `leaseNextJob` took. */
  readonly epoch?: number;
}

function heldBy(client: Hapax, { jobId, owner, epoch }: Holder): HeldBy {
  const known = leasesOf(client).get(jobId);
  const name = owner ?? known?.owner;
  const fence = epoch ?? (known !== undefined && known.owner === name ? known.epoch : undefined);
  return {
    job_id: jobId,
    ...(name === undefined ? {} : { owner: name }),
    ...(fence === undefined ? {} : { epoch: fence }),
  };
}

/** The id of the job; planning the same artifact again gives the same id. */
export async function planJobIfAbsent(
  client: Hapax,
  job: { readonly workId: string; readonly artifactId: string; readonly canonicalUrl: string; readonly kind?: string },
): Promise<string> {
  const { workId, artifactId, canonicalUrl, kind } = job;
  const plan = { work_id: workId, artifact_id: artifactId, canonical_url: canonicalUrl, ...(kind === undefined ? {} : { kind }) };
  return (await client.jobs.plan(plan)).job_id;
}

/** A job to work on, or null if there is none. */
export async function leaseNextJob(
  client: Hapax,
  ask: { readonly owner: string; readonly ttlS?: number; readonly kinds?: readonly string[] },
): Promise<Job | null> {
  const { owner, ttlS = 120, kinds } = ask;
  const [leased] = await client.jobs.lease({ owner, ttl_s: ttlS, limit: 1, ...(kinds === undefined ? {} : { kinds }) });
  if (leased === undefined) return null;
  leasesOf(client).set(leased.job_id, { owner, epoch: leased.epoch });
  return leased;
}

/** Whether the lease is kept. False: it is somebody else's by now. */
export async function renewLease(client: Hapax, holder: Holder & { readonly ttlS?: number }): Promise<boolean> {
  const fence = fenceOf(heldBy(client, holder));
  return await held(client, holder.jobId, client.jobs.renew(holder.jobId, { ...fence, ttl_s: holder.ttlS ?? 120 }));
}

/** Whether the lease was given back. False: it was not ours any more. */
export async function releaseLease(client: Hapax, holder: Holder): Promise<boolean> {
  const released = await held(client, holder.jobId, client.jobs.release(holder.jobId, fenceOf(heldBy(client, holder))));
  leasesOf(client).delete(holder.jobId);
  return released;
}

async function held(client: Hapax, jobId: string, act: Promise<Job>): Promise<boolean> {
  try {
    await act;
    return true;
  } catch (error) {
    if (!(error instanceof HapaxError) || error.code !== "lease_lost") throw error;
    leasesOf(client).delete(jobId);
    return false;
  }
}

/** Moves a job along. @throws HapaxError `state_transition_denied`, `lease_lost` */
export async function advanceState(
  client: Hapax,
  step: Holder & { readonly toState: JobState; readonly allowedFrom?: readonly JobState[] },
): Promise<void> {
  const { toState, allowedFrom } = step;
  await client.jobs.advance(step.jobId, {
    ...fenceOf(heldBy(client, step)),
    to_state: toState,
    ...(allowedFrom === undefined ? {} : { allowed_from: allowedFrom }),
  });
}

/** The state of a job. */
export async function getCurrentState(client: Hapax, { jobId }: { readonly jobId: string }): Promise<JobState> {
  return (await client.jobs.get(jobId)).state;
}

/** The result of an effect: recorded, or of `effectFn`, which then runs. @throws EffectError if there is none */
export async function runEffect<T>(
  client: Hapax,
  effect: Holder & {
    readonly kind: string;
    readonly opkey: string;
    readonly effectFn: (opKey: string) => T | Promise<T>;
    readonly class?: OpClass;
    readonly advanceTo?: JobState;
  },
): Promise<T> {
  const { kind, opkey, effectFn, advanceTo } = effect;
  return await runOne(client, heldBy(client, effect), kind, {}, effectFn, {
    opKey: opkey,
    ...(effect.class === undefined ? {} : { class: effect.class }),
    ...(advanceTo === undefined ? {} : { advanceTo }),
  });
}

/** The recorded result of an operation, or null if there is none. */
export async function getEffectResult(client: Hapax, { opkey }: { readonly opkey: string }): Promise<unknown> {
  try {
    return (await client.ops.get(opkey)).result;
  } catch (error) {
    if (error instanceof HapaxError && error.status === 404) return null;
    throw error;
  }
}

/** Cleans up after dead workers. An owner's token is needed. */
export function reconcileJobs(client: Hapax, options: { readonly dryRun?: boolean } = {}): Promise<Reconciled> {
  return client.reconcile({ dry_run: options.dryRun ?? false });
}

/** How many leases of dead workers were ended. The server does it all at once: see `reconcileJobs`. */
export async function cleanupStaleLeases(client: Hapax): Promise<number> {
  return (await client.reconcile()).leases_expired;
}

/** How many operations of dead workers are now in doubt. The server does it all at once: see `reconcileJobs`. */
export async function cleanupStaleOps(client: Hapax): Promise<number> {
  return (await client.reconcile()).ops_in_doubt;
}
