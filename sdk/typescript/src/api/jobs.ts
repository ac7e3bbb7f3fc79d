// Jobs and their operations: planned once per key, leased by one worker at a time, fenced by the epoch of the lease.

import { randomHex } from "../uuid.js";
import { listing, segment, type Listing, type Transport } from "./transport.js";

export type JobState =
  | "PLANNED"
  | "LEASED"
  | "HEAD_DONE"
  | "RESUME_OK"
  | "STREAMING"
  | "FINALIZED"
  | "INDEXED"
  | "DEDUPED"
  | "FAILED"
  | "SKIPPED_DUPLICATE"
  | "DEAD";

/** The states in which a job is never leased again. */
export const TERMINAL: ReadonlySet<JobState> = new Set<JobState>(["INDEXED", "DEDUPED", "SKIPPED_DUPLICATE", "DEAD"]);

export interface Job {
  /** A UUID that is made of the key. */
  readonly job_id: string;
  /** What makes it the same job when it is planned again: 64 hex digits. It is taken wherever an id is. */
  readonly job_key: string;
  readonly kind: string;
  readonly state: JobState;
  /** Where its files are, beneath the server's folder. */
  readonly place: string;
  readonly owner: string | null;
  readonly lease_until: string | null;
  readonly epoch: number;
  readonly attempts: number;
  readonly failures: number;
  readonly max_attempts: number;
  readonly backoff_ms: number | null;
  readonly available_at: string | null;
  readonly work_id: string;
  readonly artifact_id: string;
  readonly canonical_url: string;
  readonly payload: unknown;
  readonly result: unknown;
  readonly error?: unknown;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface Op {
  readonly op_key: string;
  readonly job_id: string;
  readonly kind: string;
  readonly state: "running" | "done" | "retryable" | "failed" | "in_doubt" | "waiting";
  readonly class: OpClass;
  readonly epoch: number;
  readonly tries: number;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly result: unknown;
  readonly error?: unknown;
}

export interface JobWhole extends Job {
  readonly ops: readonly Op[];
}

export interface JobPlan {
  readonly kind?: string;
  readonly work_id: string;
  readonly artifact_id: string;
  readonly canonical_url: string;
  readonly payload?: unknown;
  readonly max_attempts?: number;
  /** How long it rests after its first failure, 0 for not at all, and four times as long after each that follows (default 1000). */
  readonly backoff_ms?: number;
}

/** Why something failed: a text, or JSON that is kept as it is. */
export type Why = string | Readonly<Record<string, unknown>> | readonly unknown[];

/** A job of a batch, as far as planning tells. */
export interface PlannedShort {
  readonly job_id: string;
  readonly job_key: string;
  readonly planned: boolean;
  readonly state: JobState;
}

/** One end of `settle`: `to_state` moves the job, `error` ends its attempt. */
export interface JobEnd extends Fence {
  readonly job_id: string;
  readonly to_state?: JobState;
  readonly allowed_from?: readonly JobState[];
  readonly result?: unknown;
  readonly error?: Why;
  readonly retryable?: boolean;
  readonly retry_after_s?: number;
}

/** `ok` and how the job is now, or `error`, which is what stands under that name in a refusal. */
export interface SettledJob {
  readonly ok?: boolean;
  readonly job_id?: string;
  readonly job_key?: string;
  readonly state?: JobState;
  readonly epoch?: number;
  readonly error?: Readonly<Record<string, unknown>>;
}

/** How many jobs there are. */
export interface JobCounts {
  readonly total: number;
  readonly held: number;
  /** How many operations wait for somebody's word. */
  readonly ops_in_doubt: number;
  readonly states: Readonly<Record<string, number>>;
  readonly items: ReadonlyArray<{ readonly kind: string; readonly state: JobState; readonly count: number; readonly held: number }>;
}

/**
 * Who holds the job, and since which lease. While somebody holds it both are needed: the epoch alone is no lease, since
 * whoever reads the job reads it. Both may be left out on a job with no live lease, except to renew.
 */
export interface Fence {
  readonly owner?: string;
  readonly epoch?: number;
}

export class Jobs {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Plans a job, or answers the one that is there. */
  plan(plan: JobPlan): Promise<Job & { readonly planned: boolean }> {
    return this.#post("", plan, true);
  }

  /** Plans many; one that has not the form of a job refuses them all. */
  async planBatch(jobs: readonly JobPlan[]): Promise<PlannedShort[]> {
    return (await this.#post<{ items: PlannedShort[] }>("/batch", { jobs }, true)).items;
  }

  /** Leases jobs that are due. Not repeated after silence: the lost answer may hold jobs until its lease ends. */
  async lease(ask: {
    readonly owner: string;
    readonly ttl_s?: number;
    readonly kinds?: readonly string[];
    readonly limit?: number;
  }): Promise<Job[]> {
    return (await this.#post<{ jobs: Job[] }>("/lease", ask, false)).jobs;
  }

  /** Keeps the lease for this long from now. */
  renew(jobId: string, holder: Fence & { readonly ttl_s?: number }): Promise<Job> {
    return this.#post(`/${segment(jobId)}/renew`, holder, true);
  }

  /** Gives the lease back at once; progress is kept. */
  release(jobId: string, holder: Fence): Promise<Job> {
    return this.#post(`/${segment(jobId)}/release`, holder, false);
  }

  /** Moves a job along the graph. Not repeated after silence: look at the job first. */
  advance(
    jobId: string,
    step: Fence & { readonly to_state: JobState; readonly allowed_from?: readonly JobState[]; readonly result?: unknown },
  ): Promise<Job> {
    return this.#post(`/${segment(jobId)}/advance`, step, false);
  }

  /** Ends an attempt that failed. Not repeated after silence, since it counts. */
  fail(
    jobId: string,
    why: Fence & { readonly error?: Why; readonly retryable?: boolean; readonly retry_after_s?: number },
  ): Promise<Job> {
    return this.#post(`/${segment(jobId)}/fail`, why, false);
  }

  /** Advances and fails many; two of one job happen in order. Not repeated after silence. */
  async settle(items: readonly JobEnd[]): Promise<SettledJob[]> {
    return (await this.#post<{ items: SettledJob[] }>("/settle", { items }, false)).items;
  }

  /** How many jobs there are, by kind and state. */
  stats(): Promise<JobCounts> {
    return this.#transport.json({ method: "GET", path: "/v1/jobs/stats", repeatable: true });
  }

  list(
    query: {
      readonly state?: JobState;
      readonly kind?: string;
      readonly work_id?: string;
      readonly held?: boolean;
      readonly limit?: number;
    } = {},
  ): Listing<Job> {
    return listing(this.#transport, "/v1/jobs", query);
  }

  get(jobId: string): Promise<JobWhole> {
    return this.#transport.json({ method: "GET", path: `/v1/jobs/${segment(jobId)}`, repeatable: true });
  }

  /** A failed or given-up job starts over; an owner may say so. Not repeated after silence. */
  retry(jobId: string): Promise<Job> {
    return this.#post(`/${segment(jobId)}/retry`, undefined, false);
  }

  #post<T>(tail: string, body: unknown, repeatable: boolean): Promise<T> {
    return this.#transport.json({ method: "POST", path: `/v1/jobs${tail}`, body, repeatable });
  }
}

/** What it means when the runner of an operation dies: see the server's guide on jobs. */
export type OpClass = "tx" | "keyed" | "probe" | "replayable" | "at_most_once";

/** What the runner has to do. */
export interface Begun {
  readonly action: "execute" | "replay" | "in_progress" | "in_doubt" | "failed" | "waiting";
  readonly op_key: string;
  readonly job_id: string;
  readonly kind: string;
  readonly tries: number;
  readonly token?: string;
  readonly result?: unknown;
  readonly error?: unknown;
  readonly asks?: unknown;
}

export interface EndedOp extends Op {
  readonly job_state: JobState;
}

export class Ops {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Begins an operation, or says what became of it. The token is made here, so a lost answer can be asked for again. */
  begin(
    op: Fence & {
      readonly job_id: string;
      readonly kind: string;
      readonly op_key?: string;
      readonly context?: Readonly<Record<string, unknown>>;
      readonly class?: OpClass;
      readonly token?: string;
    },
  ): Promise<Begun> {
    return this.#post("begin", { token: randomHex(), ...op });
  }

  /** Records the result, and moves the job in the same transaction. Sent again it answers the same. */
  complete(opKey: string, end: Fence & { readonly token: string; readonly result: unknown; readonly advance_to?: JobState }): Promise<EndedOp> {
    return this.#post(`${segment(opKey)}/complete`, { ...end, result: end.result ?? null });
  }

  /** Records that it failed, for now or for good. */
  fail(opKey: string, end: Fence & { readonly token: string; readonly error: Why; readonly retryable?: boolean }): Promise<EndedOp> {
    return this.#post(`${segment(opKey)}/fail`, end);
  }

  /** Ends doubt. An owner may always; a writer as the holder of the job. */
  resolve(
    opKey: string,
    resolution: Fence & ({ readonly result: unknown } | { readonly retry: true } | { readonly error: Why }),
  ): Promise<EndedOp> {
    return this.#post(`${segment(opKey)}/resolve`, resolution);
  }

  get(opKey: string): Promise<Op> {
    return this.#transport.json({ method: "GET", path: `/v1/ops/${segment(opKey)}`, repeatable: true });
  }

  #post<T>(tail: string, body: unknown): Promise<T> {
    return this.#transport.json({ method: "POST", path: `/v1/ops/${tail}`, body, repeatable: true });
  }
}
