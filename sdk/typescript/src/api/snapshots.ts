// Snapshots: a payload is named by its hash and kept once, in a collection such as `courses`.

import { listing, Listing, segment, type Page, type Transport } from "./transport.js";

export interface Ingested {
  readonly ok: boolean;
  /** In the collection `courses`. */
  readonly courseId?: string;
  /** In any other collection. */
  readonly id?: string;
  readonly snapshotId: string;
  /** The payload was there before. */
  readonly idempotent: boolean;
  /** Whether this snapshot is the current one. */
  readonly current: boolean;
  readonly latestSnapshotId: string;
}

export interface IngestedBatch {
  readonly ok: boolean;
  readonly processed: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly results: ReadonlyArray<{
    readonly index: number;
    readonly courseId?: string;
    readonly id?: string;
    readonly snapshotId: string;
    readonly ok: boolean;
    readonly idempotent: boolean;
  }>;
  readonly errors?: ReadonlyArray<{ readonly index: number; readonly error: string; readonly details: Readonly<Record<string, unknown>> }>;
}

/** An entity by its names: `courseId` and `name` in the collection `courses`, `id` and `label` in any other. */
export interface Named {
  readonly courseId?: string;
  readonly id?: string;
  readonly name?: string | null;
  readonly label?: string | null;
}

export interface Entity extends Named {
  readonly currentSnapshotId: string;
  /** How many there are. */
  readonly snapshots: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** An entity with its current payload. */
export interface EntityWhole extends Entity {
  readonly hash: string | null;
  readonly payload: unknown;
}

export interface Snapshot extends Named {
  readonly snapshotId: string;
  readonly hash: string | null;
  readonly current: boolean;
  readonly created_at: string;
  readonly seen_at: string;
  /** How often it was sent. */
  readonly seen: number;
}

/** A snapshot with its payload, and who sent it when. */
export interface SnapshotWhole extends Snapshot {
  readonly aliases: Readonly<Record<string, unknown>>;
  readonly observations: ReadonlyArray<{ readonly at: string; readonly by: string | null; readonly key_match: string | null }>;
  readonly payload: unknown;
}

/** JSON that is sent as it stands: numbers keep their digits. */
export interface RawJson {
  readonly rawJson: string;
}

export class Snapshots {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  ingest(payload: unknown, collection = "courses"): Promise<Ingested> {
    return this.#post(`${segment(collection)}/ingest`, payload);
  }

  /** At most 1000 payloads, each by itself. */
  ingestBatch(payloads: readonly unknown[] | RawJson, collection = "courses"): Promise<IngestedBatch> {
    return this.#post(`${segment(collection)}/ingest/batch`, payloads);
  }

  list(query: { readonly search?: string; readonly limit?: number } = {}, collection = "courses"): Listing<Entity> {
    return listing(this.#transport, `/v1/${segment(collection)}`, query);
  }

  /** The entity as it is now. */
  get(id: string, collection = "courses"): Promise<EntityWhole> {
    return this.#transport.json({ method: "GET", path: `/v1/${segment(collection)}/${segment(id)}`, repeatable: true });
  }

  /** Its snapshots, newest first. */
  history(id: string, collection = "courses", query: { readonly limit?: number } = {}): Listing<Snapshot> {
    const path = `/v1/${segment(collection)}/${segment(id)}/snapshots`;
    return new Listing<Snapshot>((cursor) =>
      this.#transport.json<Page<Snapshot>>({ method: "GET", path, query: { ...query, cursor }, repeatable: true }),
    );
  }

  snapshot(id: string, snapshotId: string, collection = "courses"): Promise<SnapshotWhole> {
    const path = `/v1/${segment(collection)}/${segment(id)}/snapshots/${segment(snapshotId)}`;
    return this.#transport.json({ method: "GET", path, repeatable: true });
  }

  #post<T>(tail: string, payload: unknown): Promise<T> {
    const sent = isRaw(payload) ? { text: payload.rawJson } : { body: payload };
    return this.#transport.json({ method: "POST", path: `/v1/${tail}`, repeatable: true, ...sent });
  }
}

function isRaw(payload: unknown): payload is RawJson {
  const isObject = typeof payload === "object" && payload !== null;
  return isObject && Object.keys(payload).length === 1 && "rawJson" in payload && typeof payload.rawJson === "string";
}
