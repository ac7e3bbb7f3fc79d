// Entries: normalise a text, a mail or a page, insert it once per key, read it again, and have it enriched.

import { uuidV7 } from "../uuid.js";
import type {
  ChangedPolicy,
  Column,
  EmailMessage,
  EnrichBatch,
  Enriched,
  EnrichItem,
  Entry,
  EntryChange,
  EntryRow,
  EntrySchema,
  ImportStatus,
  NormalizedEntry,
  Policy,
  PolicyChange,
  QueuedBatch,
  Settings,
  TelegramMessage,
  WebPage,
  WrittenRow,
} from "./entry-types.js";
import { listing, segment, type Listing, type Transport } from "./transport.js";

export interface WriteOptions {
  /** Columns to answer. */
  readonly returning?: readonly Column[];
  /** Many at once: false keeps nothing of the batch if one item is bad (default true). */
  readonly continue_on_error?: boolean;
}

export interface ReadQuery {
  readonly q?: string;
  readonly days?: number;
  readonly limit?: number;
  readonly returning?: readonly Column[];
}

/** An entry of your own, or one as `normalize…` made it. */
export type Insertable = Entry | NormalizedEntry;

export class Entries {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  normalizeTelegram(message: TelegramMessage): Promise<NormalizedEntry> {
    return this.#post("/normalize/telegram", message);
  }

  normalizeEmail(mail: EmailMessage): Promise<NormalizedEntry> {
    return this.#post("/normalize/email", mail);
  }

  normalizeWebpage(page: WebPage): Promise<NormalizedEntry> {
    return this.#post("/normalize/webpage", page);
  }

  /** Inserts one entry or many. Repeated after silence only where every entry carries a key. */
  insert(entries: Insertable | readonly Insertable[], options: WriteOptions = {}): Promise<WrittenRow[]> {
    const isMany = Array.isArray(entries);
    const list = (isMany ? entries : [entries]) as readonly Insertable[];
    const isKeyed = list.every((entry) => typeof entry.idempotency_key_primary === "string");
    return this.#post("/db/insert", isMany ? { items: entries, ...options } : { ...entries, ...options }, isKeyed);
  }

  /** Changes entries by `id` or `entry_id`; metadata is merged. */
  update(changes: EntryChange | readonly EntryChange[], options: WriteOptions = {}): Promise<WrittenRow[]> {
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

  async policies(schema?: EntrySchema): Promise<Policy[]> {
    const page = await this.#transport.json<{ items: Policy[] }>({ method: "GET", path: "/v1/policies", query: { schema }, repeatable: true });
    return page.items;
  }

  /** Changes a policy. */
  setPolicy(policyKey: string, change: PolicyChange, schema?: EntrySchema): Promise<ChangedPolicy> {
    const path = `/v1/policies/${segment(policyKey)}`;
    return this.#transport.json({ method: "PUT", path, query: { schema }, body: change, repeatable: true });
  }

  /** Imports a mailbox. The same file again joins the import that runs, so it may be repeated. */
  importMbox(asked: {
    readonly mbox_path: string;
    readonly batch_size?: number;
    readonly insert_chunk_size?: number;
    readonly completion_window?: string;
    readonly thread_policy?: "email_correspondence_thread_v1" | "email_thread_refs_v1";
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
  }): Promise<Enriched> {
    return this.#post("/enrich/t1", text);
  }

  /** Enriches many texts later. It carries a key, a new one unless you give yours. */
  enrichT1Batch(
    batch: {
      readonly items: readonly EnrichItem[];
      readonly completion_window?: string;
      readonly force?: boolean;
      readonly metadata?: Readonly<Record<string, unknown>>;
    },
    key: string = uuidV7(),
  ): Promise<QueuedBatch> {
    const headers = { "idempotency-key": key };
    return this.#transport.json({ method: "POST", path: "/enrich/t1/batch", body: batch, headers, repeatable: true });
  }

  enrichStatus(batchId: string, includeItems = false): Promise<EnrichBatch> {
    const query = { include_items: includeItems };
    return this.#transport.json({ method: "GET", path: `/status/t1/batch/${segment(batchId)}`, query, repeatable: true });
  }

  enrichBatches(query: { readonly schema?: EntrySchema; readonly include_terminal?: boolean; readonly limit?: number } = {}): Listing<EnrichBatch> {
    return listing(this.#transport, "/status/t1/batch", query);
  }

  /** What a client may know of how the server is set up. */
  config(): Promise<Settings> {
    return this.#transport.json({ method: "GET", path: "/config", repeatable: true });
  }

  async #mode(call: Parameters<Transport["json"]>[0]): Promise<boolean> {
    const rows = await this.#transport.json<ReadonlyArray<{ is_test_mode: boolean }>>(call);
    return rows[0]?.is_test_mode ?? false;
  }

  #post<T>(path: string, body: unknown, repeatable = true): Promise<T> {
    return this.#transport.json({ method: "POST", path, body, repeatable });
  }
}
