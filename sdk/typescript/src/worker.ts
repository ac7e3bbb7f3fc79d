// A worker: leases jobs, runs their handlers, keeps the leases, and records how each attempt ended.

import { TERMINAL, type Job, type JobState } from "./api/jobs.js";
import type { Hapax } from "./client.js";
import { fenceOf, runEffect, type EffectOptions } from "./effect.js";
import { HapaxError, Unavailable } from "./errors.js";
import { randomHex } from "./uuid.js";

export { EffectError, runEffect, type EffectOptions } from "./effect.js";

/** What a handler does with a job. Its result is the job's; an error with `retryable: false` gives the job up. */
export type Handler = (job: HeldJob) => unknown;

/** A handler for jobs of one kind. */
export interface JobDefinition {
  readonly kind: string;
  readonly handler: Handler;
}

/** The handler of a kind: `job("resize", async (held) => { … })`. */
export function job(kind: string, handler: Handler): JobDefinition {
  return { kind, handler };
}

export interface WorkerOptions {
  readonly jobs: readonly JobDefinition[];
  /** How many jobs run at once (default 1). */
  readonly concurrency?: number;
  /** The name of this worker; a new one unless given. */
  readonly owner?: string;
  /** How long a lease lasts; it is renewed each third of it (default 120). */
  readonly ttlSeconds?: number;
  /** How long to wait when there is nothing to do (default 1000). */
  readonly pollMs?: number;
  /** How long a stop waits for handlers before it aborts them and gives their jobs back (default 10 000). */
  readonly stopMs?: number;
  readonly onError?: (error: unknown, doing: string) => void;
  /** Told when the worker starts and when it is asked to stop (default: console.info). */
  readonly onSay?: (line: string) => void;
}

/** The lease is somebody else's by now. Nothing was written. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** A job that this worker holds. After its lease is lost nothing is written under it any more. */
export class HeldJob {
  /** The job as it was leased. */
  readonly job: Job;
  /** Aborted when the lease is lost or the worker stops: stop working. */
  readonly signal: AbortSignal;
  readonly #client: Hapax;
  readonly #abort = new AbortController();
  #state: JobState;

  constructor(client: Hapax, leased: Job) {
    this.#client = client;
    this.job = leased;
    this.signal = this.#abort.signal;
    this.#state = leased.state;
  }

  get state(): JobState {
    return this.#state;
  }

  /** Moves the job along the graph. */
  async advance(to: JobState, more: { readonly result?: unknown; readonly allowedFrom?: readonly JobState[] } = {}): Promise<Job> {
    this.#check();
    const step = {
      ...fenceOf(this.job),
      to_state: to,
      ...(more.result === undefined ? {} : { result: more.result }),
      ...(more.allowedFrom === undefined ? {} : { allowed_from: more.allowedFrom }),
    };
    const moved = await this.#fenced(this.#advanced(step));
    this.#state = moved.state;
    return moved;
  }

  /** After silence the job itself says whether it moved. */
  async #advanced(step: Parameters<Hapax["jobs"]["advance"]>[1]): Promise<Job> {
    try {
      return await this.#client.jobs.advance(this.job.job_id, step);
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const now = await this.#client.jobs.get(this.job.job_id);
      if (now.epoch === this.job.epoch && now.state === step.to_state) return now;
      throw error;
    }
  }

  /** Runs an effect under this job; see `runEffect`. */
  async runEffect<T>(
    kind: string,
    context: Readonly<Record<string, unknown>>,
    fn: (opKey: string) => T | Promise<T>,
    options: EffectOptions = {},
  ): Promise<T> {
    this.#check();
    const guarded = async (opKey: string): Promise<T> => {
      const result = await fn(opKey);
      this.#check();
      return result;
    };
    const result = await this.#fenced(runEffect(this.#client, this.job, kind, context, guarded, options));
    if (options.advanceTo !== undefined) this.#state = (await this.#client.jobs.get(this.job.job_id)).state;
    return result;
  }

  /** Nobody may write under this lease any more. */
  lose(why: string): void {
    if (!this.signal.aborted) this.#abort.abort(new LeaseLost(`job ${this.job.job_id}: ${why}`));
  }

  #check(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  async #fenced<T>(act: Promise<T>): Promise<T> {
    try {
      return await act;
    } catch (error) {
      if (error instanceof HapaxError && error.code === "lease_lost") {
        this.lose(error.message);
        throw this.signal.reason;
      }
      throw error;
    }
  }
}

/** The part of Node's process that is used. */
interface Signals {
  listenerCount(signal: string): number;
  once(signal: string, listener: () => void): unknown;
  removeListener(signal: string, listener: () => void): unknown;
}

/** Calls `stop` on the first Ctrl-C, where there are signals and nobody else listens. Gives what undoes that. */
function onInterrupt(stop: () => void): () => void {
  const { process } = globalThis as { process?: Partial<Signals> };
  if (process?.once === undefined || process.listenerCount?.("SIGINT") !== 0) return () => undefined;
  process.once("SIGINT", stop);
  return () => process.removeListener?.("SIGINT", stop);
}

/** The way of a job to its end, where its handler leaves it. */
const WAY_ON: Readonly<Partial<Record<JobState, JobState>>> = {
  LEASED: "FINALIZED",
  HEAD_DONE: "STREAMING",
  RESUME_OK: "STREAMING",
  STREAMING: "FINALIZED",
  FINALIZED: "INDEXED",
};

export class Worker {
  readonly owner: string;
  readonly #client: Hapax;
  readonly #handlers: ReadonlyMap<string, Handler>;
  readonly #concurrency: number;
  readonly #ttlSeconds: number;
  readonly #pollMs: number;
  readonly #stopMs: number;
  readonly #onError: (error: unknown, doing: string) => void;
  readonly #onSay: (line: string) => void;
  readonly #stopping = new AbortController();
  readonly #running = new Map<HeldJob, Promise<void>>();
  #loop: Promise<void> | undefined;

  constructor(client: Hapax, options: WorkerOptions) {
    this.#client = client;
    this.#handlers = new Map(options.jobs.map(({ kind, handler }) => [kind, handler]));
    if (this.#handlers.size === 0) throw new TypeError("a worker needs at least one job; give jobs: [job(kind, handler)]");
    this.#concurrency = options.concurrency ?? 1;
    this.owner = options.owner ?? `node-${randomHex().slice(0, 12)}`;
    this.#ttlSeconds = options.ttlSeconds ?? 120;
    this.#pollMs = options.pollMs ?? 1000;
    this.#stopMs = options.stopMs ?? 10_000;
    this.#onError = options.onError ?? ((error, doing) => console.error(`hapax worker: ${doing}:`, error));
    this.#onSay = options.onSay ?? ((line) => console.info(`hapax worker: ${line}`));
  }

  /** Works until `stop` is called, or Ctrl-C is pressed where the program does nothing else with it. */
  run(): Promise<void> {
    this.#loop ??= this.#start();
    return this.#loop;
  }

  async #start(): Promise<void> {
    this.#client.checkToken();
    const kinds = [...this.#handlers.keys()].sort().join(", ");
    const forget = onInterrupt(() => {
      this.#onSay("stopping: what runs comes to its end; Ctrl-C again to stop now");
      this.#stopping.abort();
    });
    // Whoever reads the line may press Ctrl-C at once.
    this.#onSay(`jobs of the kinds ${kinds} from ${this.#client.baseUrl}, ${this.#concurrency} at once; Ctrl-C ends it`);
    try {
      await this.#work();
    } finally {
      forget();
    }
  }

  /** Leases nothing more, waits for what runs, and gives back what does not end in time. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
  }

  async #work(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const free = this.#concurrency - this.#running.size;
      const leased = free > 0 ? await this.#lease(free) : [];
      for (const one of leased) this.#take(one);
      if (this.#running.size >= this.#concurrency) await this.#nextEnd();
      else if (leased.length === 0) await this.#pause();
    }
    await this.#windDown();
  }

  async #lease(limit: number): Promise<Job[]> {
    try {
      const kinds = [...this.#handlers.keys()];
      return await this.#client.jobs.lease({ owner: this.owner, ttl_s: this.#ttlSeconds, kinds, limit });
    } catch (error) {
      this.#onError(error, "leasing jobs");
      return [];
    }
  }

  /** A random part is added, so that workers do not ask in step. */
  async #pause(): Promise<void> {
    const { clock } = this.#client;
    await clock.sleep(this.#pollMs * (0.5 + clock.random() / 2), this.#stopping.signal);
  }

  /** Waits until a handler ends, or a stop is asked for. */
  async #nextEnd(): Promise<void> {
    const stop = new Promise<void>((resolve) => {
      this.#stopping.signal.addEventListener("abort", () => resolve(), { once: true });
      if (this.#stopping.signal.aborted) resolve();
    });
    await Promise.race([stop, ...this.#running.values()]);
  }

  #take(leased: Job): void {
    const held = new HeldJob(this.#client, leased);
    const ran = this.#attempt(held).finally(() => this.#running.delete(held));
    this.#running.set(held, ran);
  }

  async #attempt(held: HeldJob): Promise<void> {
    const { job: leased } = held;
    const stopHeartbeat = this.#heartbeat(held);
    try {
      const result: unknown = await this.#handlers.get(leased.kind)?.(held);
      await this.#finish(held, result);
    } catch (error) {
      if (held.signal.aborted) this.#onError(held.signal.reason, `job ${leased.job_id}: nothing more is written`);
      else await this.#fail(held, error);
    } finally {
      stopHeartbeat();
    }
  }

  /** Brings the job to its end, with its result. */
  async #finish(held: HeldJob, result: unknown): Promise<void> {
    while (!TERMINAL.has(held.state)) {
      const to = WAY_ON[held.state];
      if (to === undefined) return;
      await held.advance(to, TERMINAL.has(to) && result !== undefined ? { result } : {});
    }
  }

  async #fail(held: HeldJob, error: unknown): Promise<void> {
    const { job: leased } = held;
    const message = error instanceof Error ? error.message : String(error);
    const retryable = (error as { retryable?: unknown } | null)?.retryable !== false;
    this.#onError(error, `job ${leased.job_id} (${leased.kind})`);
    try {
      await this.#client.jobs.fail(leased.job_id, { ...fenceOf(leased), error: message, retryable });
    } catch (second) {
      this.#onError(second, `recording the failure of job ${leased.job_id}; its lease runs out`);
    }
  }

  /** Renews the lease each third of it. A lease that could not be renewed in its time is lost. */
  #heartbeat(held: HeldJob): () => void {
    const { clock } = this.#client;
    const ttlMs = this.#ttlSeconds * 1000;
    let until = clock.now() + ttlMs;
    const beat = async (): Promise<void> => {
      const startedAt = clock.now();
      try {
        await this.#client.jobs.renew(held.job.job_id, { ...fenceOf(held.job), ttl_s: this.#ttlSeconds });
        until = startedAt + ttlMs;
      } catch (error) {
        if (error instanceof HapaxError && error.code === "lease_lost") held.lose(error.message);
        else if (clock.now() >= until) held.lose("the lease could not be renewed in its time");
        else this.#onError(error, `renewing the lease of job ${held.job.job_id}`);
      }
    };
    const timer = setInterval(() => void beat(), ttlMs / 3);
    held.signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    return () => clearInterval(timer);
  }

  async #windDown(): Promise<void> {
    const all = Promise.all(this.#running.values());
    const late = this.#client.clock.sleep(this.#stopMs);
    await Promise.race([all, late]);
    for (const held of this.#running.keys()) {
      held.lose("the worker stops");
      const { job: leased } = held;
      await this.#client.jobs
        .release(leased.job_id, fenceOf(leased))
        .catch((error: unknown) => this.#onError(error, `giving back job ${leased.job_id}; its lease runs out`));
    }
  }
}
