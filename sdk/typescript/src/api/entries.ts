// Entries: normalise a text, a mail or a page, insert it once per key, read it again, and have it enriched.

import { uuidV7 } from "../uuid.js";
import { listing, segment, type Listing, type Transport } from "./transport.js";

/** An entry: flat fields, ready for `insert`. */
export type Entry = Readonly<Record<string, unknown>>;

/** A row that was written, and what was done. */
export interface EntryRow {
  readonly action?: "inserted" | "updated" | "skipped";
  readonly entry_id?: number;
  readonly id?: string;
  readonly _batch_index?: number;
  readonly _batch_ok?: boolean;
  readonly error?: { readonly code: string; readonly message: string };
  readonly [name: string]: unknown;
}

export interface WriteOptions {
  /** Columns to answer. */
  readonly returning?: readonly string[];
  /** Many at once: false keeps nothing of the batch if one item is bad (default true). */
  readonly continue_on_error?: boolean;
}

export interface ReadQuery {
  readonly q?: string;
  readonly days?: number;
  readonly limit?: number;
  readonly returning?: readonly string[];
}

export interface Policy {
  readonly policy_key: string;
  readonly conflict_action: "skip" | "update";
  readonly update_fields: readonly string[] | null;
  readonly enabled: boolean;
  readonly [name: string]: unknown;
}

export interface ImportStatus {
  readonly import_id: string;
  readonly status?: "running" | "completed" | "failed";
  readonly total_messages: number;
  readonly normalized_ok: number;
  readonly normalize_errors: number;
  readonly inserted: number;
  readonly updated: number;
  readonly skipped: number;
  readonly insert_errors: number;
  readonly errors: ReadonlyArray<{ readonly phase: string; readonly index: number; readonly message: string }>;
  readonly [name: string]: unknown;
}

export interface EnrichBatch {
  readonly batch_id: string;
  readonly status: string;
  readonly schema: string;
  readonly request_count: number;
  readonly [name: string]: unknown;
}

export class Entries {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  normalizeTelegram(message: Readonly<Record<string, unknown>>): Promise<Entry> {
    return this.#post("/normalize/telegram", message);
  }

  normalizeEmail(mail: Readonly<Record<string, unknown>>): Promise<Entry> {
    return this.#post("/normalize/email", mail);
  }

  normalizeWebpage(page: Readonly<Record<string, unknown>>): Promise<Entry> {
    return this.#post("/normalize/webpage", page);
  }

  /** Inserts one entry or many. Repeated after silence only where every entry carries a key. */
  insert(entries: Entry | readonly Entry[], options: WriteOptions = {}): Promise<EntryRow[]> {
    const isMany = Array.isArray(entries);
    const list = (isMany ? entries : [entries]) as readonly Entry[];
    const isKeyed = list.every((entry) => typeof entry["idempotency_key_primary"] === "string");
    return this.#post("/db/insert", isMany ? { items: entries, ...options } : { ...entries, ...options }, isKeyed);
  }

  /** Changes entries by `id` or `entry_id`; metadata is merged. */
  update(changes: Entry | readonly Entry[], options: WriteOptions = {}): Promise<EntryRow[]> {
    return this.#post("/db/update", Array.isArray(changes) ? { items: changes, ...options } : { ...changes, ...options });
  }

  /** The newest entries. */
  readLast(query: ReadQuery = {}): Promise<EntryRow[]> {
    return this.#post("/db/read/last", query);
  }

  /** Those with these words, the best first. */
  readFind(query: ReadQuery & { readonly q: string }): Promise<EntryRow[]> {
    return this.#post("/db/read/find", query);
  }

  /** Those with these words, the newest first. */
  readContinue(query: ReadQuery & { readonly q: string }): Promise<EntryRow[]> {
    return this.#post("/db/read/continue", query);
  }

  /** One entry, whole. */
  readPull(entryId: number): Promise<EntryRow> {
    return this.#post("/db/read/pull", { entry_id: entryId });
  }

  /** Whether writes go to `pkm_test`. */
  testMode(): Promise<boolean> {
    return this.#mode({ method: "GET", path: "/db/test-mode", repeatable: true });
  }

  setTestMode(isTestMode: boolean): Promise<boolean> {
    return this.#mode({ method: "POST", path: "/db/test-mode/set", body: { is_test_mode: isTestMode }, repeatable: true });
  }

  /** Turns the test mode into the other. Not repeated after silence. */
  toggleTestMode(): Promise<boolean> {
    return this.#mode({ method: "POST", path: "/db/test-mode/toggle", repeatable: false });
  }

  async policies(schema?: "pkm" | "pkm_test"): Promise<Policy[]> {
    const page = await this.#transport.json<{ items: Policy[] }>({ method: "GET", path: "/v1/policies", query: { schema }, repeatable: true });
    return page.items;
  }

  setPolicy(
    policyKey: string,
    change: {
      readonly source?: string;
      readonly content_type?: string;
      readonly conflict_action?: "skip" | "update";
      readonly update_fields?: readonly string[] | null;
      readonly secondary_match?: string;
      readonly enabled?: boolean;
    },
  ): Promise<Policy> {
    return this.#transport.json({ method: "PUT", path: `/v1/policies/${segment(policyKey)}`, body: change, repeatable: true });
  }

  /** Imports a mailbox. The same file again joins the import that runs, so it may be repeated. */
  importMbox(asked: {
    readonly mbox_path: string;
    readonly batch_size?: number;
    readonly insert_chunk_size?: number;
    readonly completion_window?: string;
    readonly thread_policy?: string;
    readonly async?: boolean;
  }): Promise<ImportStatus> {
    return this.#post("/import/email/mbox", asked);
  }

  importStatus(importId: string): Promise<ImportStatus> {
    return this.#transport.json({ method: "GET", path: `/import/${segment(importId)}`, repeatable: true });
  }

  /** Enriches one text. What was answered once is not paid for again. */
  enrichT1(text: {
    readonly title?: string;
    readonly author?: string;
    readonly content_type?: string;
    readonly clean_text: string;
    readonly force?: boolean;
  }): Promise<Readonly<Record<string, unknown>>> {
    return this.#post("/enrich/t1", text);
  }

  /** Enriches many texts later. It carries a key, a new one unless you give yours. */
  enrichT1Batch(
    batch: {
      readonly items: readonly Readonly<Record<string, unknown>>[];
      readonly completion_window?: string;
      readonly metadata?: Readonly<Record<string, unknown>>;
    },
    key: string = uuidV7(),
  ): Promise<EnrichBatch> {
    const headers = { "idempotency-key": key };
    return this.#transport.json({ method: "POST", path: "/enrich/t1/batch", body: batch, headers, repeatable: true });
  }

  enrichStatus(batchId: string, includeItems = false): Promise<EnrichBatch> {
    const query = { include_items: includeItems };
    return this.#transport.json({ method: "GET", path: `/status/t1/batch/${segment(batchId)}`, query, repeatable: true });
  }

  enrichBatches(query: { readonly schema?: string; readonly include_terminal?: boolean; readonly limit?: number } = {}): Listing<EnrichBatch> {
    return listing(this.#transport, "/status/t1/batch", query);
  }

  async #mode(call: Parameters<Transport["json"]>[0]): Promise<boolean> {
    const rows = await this.#transport.json<ReadonlyArray<{ is_test_mode: boolean }>>(call);
    return rows[0]?.is_test_mode ?? false;
  }

  #post<T>(path: string, body: unknown, repeatable = true): Promise<T> {
    return this.#transport.json({ method: "POST", path, body, repeatable });
  }
}
