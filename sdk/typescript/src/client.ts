// The client of a hapax server.

import { Entries } from "./api/entries.js";
import { Intents } from "./api/intents.js";
import { Jobs, Ops } from "./api/jobs.js";
import { Keys } from "./api/keys.js";
import { Snapshots } from "./api/snapshots.js";
import { listing, Transport, type HapaxOptions, type Listing } from "./api/transport.js";
import type { Clockwork } from "./retry.js";

export interface Stats {
  readonly total_requests: number;
  readonly replayed_requests: number;
  readonly conflict_requests: number;
  readonly expired_keys: number;
  readonly cleanup_operations: number;
  readonly avg_lookup_time: number;
  readonly avg_storage_time: number;
  readonly cache_hit_rate: number;
  readonly key_generation_errors: number;
  readonly storage_failures: number;
  readonly cleanup_failures: number;
}

export type AuditAction =
  | "idempotency_replay"
  | "idempotency_conflict"
  | "idempotency_expired"
  | "cleanup_idempotency_keys"
  | "key_deleted"
  | "key_settled"
  | "key_released"
  | "key_erased"
  | "job_retried"
  | "op_resolved"
  | "jobs_reconciled"
  | "policy_changed"
  | "test_mode_changed";

export interface AuditRow {
  readonly at: string;
  readonly action: AuditAction;
  readonly actor: string | null;
  readonly key_id: string | null;
  readonly route_pattern: string | null;
  readonly details: unknown;
}

export interface Reconciled {
  readonly leases_expired: number;
  readonly ops_in_doubt: number;
  readonly parts_deleted: number;
  readonly orphans: number;
  readonly healed: number;
  readonly dry_run: boolean;
}

export interface Health {
  readonly status: string;
  readonly version: string;
  readonly store: string;
  readonly durability: "full" | "relaxed" | "best_effort" | "process";
  readonly uptime_s: number;
  readonly time: string;
  readonly leads: readonly string[];
}

export interface Version {
  readonly name: string;
  readonly version: string;
}

/**
 * A client of a hapax server. Calls throw `HapaxError` when the server refused and `Unavailable` when no answer came.
 *
 * Calls that can be sent twice without harm are repeated on 429, 502, 503, 504 and silence. Not repeated after silence:
 * `jobs.lease`, `jobs.release`, `jobs.advance`, `jobs.fail`, `jobs.settle`, `jobs.retry`, `intents.replay`, `entries.toggleTestMode`,
 * and `entries.insert` of entries without a key.
 *
 * ```ts
 * const hapax = new Hapax({ baseUrl: "http://127.0.0.1:8088", token });
 * for await (const key of hapax.keys.list({ state: "in_doubt" })) console.log(key.id, key.reason);
 * ```
 */
export class Hapax {
  readonly keys: Keys;
  readonly intents: Intents;
  readonly snapshots: Snapshots;
  readonly entries: Entries;
  readonly jobs: Jobs;
  readonly ops: Ops;
  readonly #transport: Transport;

  constructor(options: HapaxOptions = {}) {
    this.#transport = new Transport(options);
    this.keys = new Keys(this.#transport);
    this.intents = new Intents(this.#transport);
    this.snapshots = new Snapshots(this.#transport);
    this.entries = new Entries(this.#transport);
    this.jobs = new Jobs(this.#transport);
    this.ops = new Ops(this.#transport);
  }

  /** Throws `HapaxError` unless there is a token, or an empty one was given on purpose. Sends nothing. */
  checkToken(): void {
    this.#transport.checkToken();
  }

  /** Where the server is. */
  get baseUrl(): string {
    return this.#transport.baseUrl;
  }

  /** Time and chance, as this client has them. */
  get clock(): Clockwork {
    return this.#transport.clock;
  }

  /** Cleans up after dead workers; an owner may. */
  reconcile(options: { readonly dry_run?: boolean } = {}): Promise<Reconciled> {
    return this.#transport.json({ method: "POST", path: "/v1/reconcile", body: options, repeatable: true });
  }

  stats(): Promise<Stats> {
    return this.#transport.json({ method: "GET", path: "/v1/stats", repeatable: true });
  }

  audit(query: { readonly action?: AuditAction; readonly key_id?: string; readonly limit?: number } = {}): Listing<AuditRow> {
    return listing(this.#transport, "/v1/audit", query);
  }

  health(): Promise<Health> {
    return this.#transport.json({ method: "GET", path: "/health", repeatable: true });
  }

  /** Which build the server is. */
  version(): Promise<Version> {
    return this.#transport.json({ method: "GET", path: "/version", repeatable: true });
  }
}
