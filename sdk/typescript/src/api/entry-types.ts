// The shapes of entries, their policies, imports and enrichment, as the server has them. No calls.

export type EntrySchema = "pkm" | "pkm_test";

/** The columns that an entry may be given. */
export interface EntryColumns {
  readonly source?: string | null;
  readonly intent?: string | null;
  readonly content_type?: string | null;
  readonly title?: string | null;
  readonly author?: string | null;
  readonly capture_text?: string | null;
  readonly extracted_text?: string | null;
  readonly clean_text?: string | null;
  readonly url?: string | null;
  readonly url_canonical?: string | null;
  readonly retrieval_excerpt?: string | null;
  readonly retrieval_version?: string | null;
  readonly clean_word_count?: number | null;
  readonly clean_char_count?: number | null;
  readonly extracted_char_count?: number | null;
  readonly link_count?: number | null;
  readonly link_ratio?: number | null;
  readonly boilerplate_heavy?: boolean | null;
  readonly low_signal?: boolean | null;
  readonly quality_score?: number | null;
  readonly topic_primary?: string | null;
  readonly topic_primary_confidence?: number | null;
  readonly topic_secondary?: string | null;
  readonly topic_secondary_confidence?: number | null;
  readonly keywords?: readonly string[] | null;
  readonly gist?: string | null;
  readonly flags?: Readonly<Record<string, unknown>> | null;
  readonly enrichment_status?: string | null;
  readonly enrichment_model?: string | null;
  readonly prompt_version?: string | null;
  readonly enriched_hash?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>> | null;
  readonly idempotency_policy_key?: string | null;
  readonly idempotency_key_primary?: string | null;
  readonly idempotency_key_secondary?: string | null;
  readonly created_at?: string | null;
}

/** An entry to insert. */
export interface Entry extends EntryColumns {
  readonly source: string;
  readonly entry_id?: number | null;
  readonly id?: string | null;
  readonly revision?: number | null;
  readonly updated_at?: string | null;
}

/** What to change, of the entry with this `id` or `entry_id`. */
export type EntryChange = Omit<Entry, "source"> & { readonly source?: string };

/** What a message, a mail or a page becomes: ready for `insert`. */
export interface NormalizedEntry extends EntryColumns {
  readonly retrieval_update_skipped?: boolean;
}

/** An entry, as far as its columns were asked for. */
export interface EntryRow extends EntryColumns {
  readonly entry_id?: number | null;
  readonly id?: string | null;
  readonly revision?: number | null;
  readonly updated_at?: string | null;
}

/** What was done with an entry. The members that begin with `_batch` come with many at once. */
export interface WrittenRow extends EntryRow {
  readonly action?: "inserted" | "updated" | "skipped";
  readonly matched_on?: "primary" | "secondary";
  /** Other entries that have its keys already. */
  readonly conflicts?: ReadonlyArray<{ readonly entry_id?: number; readonly field?: string; readonly key?: string }>;
  readonly ignored?: readonly string[];
  readonly error?: { readonly code: string; readonly message: string };
  readonly _batch_index?: number;
  readonly _batch_ok?: boolean;
}

/** A column by its name. */
export type Column = keyof EntryRow;

export interface TelegramMessage {
  readonly text: string;
  readonly title?: string;
  readonly author?: string;
  readonly intent?: string;
  readonly source?: { readonly chat_id?: number; readonly message_id?: number; readonly url?: string };
}

export interface EmailMessage {
  readonly raw_text: string;
  readonly from: string;
  readonly subject: string;
  readonly content_type?: "newsletter" | "correspondence_thread";
  readonly intent?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly idempotency_policy_key?: string;
  readonly source?: { readonly message_id?: string; readonly date?: string };
}

export interface WebPage {
  readonly url?: string;
  readonly url_canonical?: string;
  readonly html?: string;
  readonly text?: string;
  readonly clean_text?: string;
  readonly capture_text?: string;
  readonly excerpt?: string;
  readonly title?: string;
  readonly author?: string;
  readonly intent?: string;
  readonly content_type?: string;
}

export interface Policy {
  readonly policy_id: number;
  readonly policy_key: string;
  readonly source: string;
  readonly content_type: string;
  readonly conflict_action: "skip" | "update";
  readonly update_fields: readonly string[] | null;
  readonly secondary_match: "always" | "only_if_primary_missing";
  readonly enabled: boolean;
}

export interface ChangedPolicy extends Policy {
  readonly schemas: readonly EntrySchema[];
}

/** What a change does not name stays; `update_fields: null` means all columns. */
export interface PolicyChange {
  readonly source?: string;
  readonly content_type?: string;
  readonly conflict_action?: "skip" | "update";
  readonly update_fields?: readonly Column[] | null;
  readonly secondary_match?: "always" | "only_if_primary_missing";
  readonly enabled?: boolean;
}

export interface ImportStatus {
  readonly import_id: string;
  readonly status: string;
  readonly step: string;
  readonly schema: EntrySchema;
  readonly mbox_path: string;
  readonly progress: { readonly offset: number; readonly bytes: number | null };
  readonly total_messages: number;
  readonly normalized_ok: number;
  readonly normalize_errors: number;
  readonly inserted: number;
  readonly updated: number;
  readonly skipped: number;
  readonly insert_errors: number;
  readonly tier1_candidates: number;
  readonly tier1_batches: ReadonlyArray<{
    readonly batch_id: string;
    readonly schema: EntrySchema;
    readonly status: string;
    readonly request_count: number;
  }>;
  readonly tier1_enqueued_items: number;
  readonly errors: ReadonlyArray<{ readonly phase: string; readonly index: number; readonly message: string }>;
  readonly error?: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** What a model made of a text. */
export interface Enriched {
  readonly topic_primary: string;
  readonly topic_primary_confidence: number;
  /** The model's own word, where that is `other` because it is not on the list. */
  readonly topic_said?: string;
  readonly topic_secondary: string | null;
  readonly topic_secondary_confidence: number | null;
  readonly keywords: readonly string[];
  readonly gist: string;
  readonly flags: Readonly<Record<string, unknown>>;
  readonly quality_score: number;
  readonly retrieval_excerpt: string;
  readonly retrieval_version: string;
  readonly clean_word_count: number;
  readonly clean_char_count: number;
  readonly extracted_char_count: number | null;
  readonly link_count: number;
  readonly link_ratio: number;
  readonly boilerplate_heavy: boolean;
  readonly low_signal: boolean;
  readonly model: string;
  readonly prompt_mode: string;
  readonly prompt_version: string;
}

/** A text of a batch, or the entry that has it. */
export interface EnrichItem {
  readonly entry_id?: number;
  readonly clean_text?: string;
  readonly title?: string;
  readonly author?: string;
  readonly content_type?: string;
}

export interface QueuedBatch {
  readonly batch_id: string;
  readonly schema: EntrySchema;
  readonly status: "queued" | "submitted" | "collecting" | "completed" | "failed";
  readonly request_count: number;
}

export interface EnrichBatchItem {
  readonly item_id: number;
  readonly entry_id: number | null;
  readonly content_hash: string;
  readonly status: "queued" | "waiting" | "answered" | "completed" | "stale" | "parse_error" | "failed";
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly raw: string | null;
  readonly error?: string;
  readonly updated_at: string;
}

export interface EnrichBatch extends QueuedBatch {
  readonly attempt: number;
  readonly failures: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly completion_window: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly model: string | null;
  readonly import_id: string | null;
  readonly provider_batch_id: string | null;
  readonly provider_status: string | null;
  readonly next_at: string | null;
  readonly error?: string;
  readonly created_at: string;
  readonly updated_at: string;
  /** Where they were asked for. */
  readonly items?: readonly EnrichBatchItem[];
  readonly next_cursor?: string;
}

/** What a client may know of how the server is set up. */
export interface Settings {
  readonly version: string;
  readonly schemas: readonly EntrySchema[];
  readonly columns: readonly string[];
  readonly limits: {
    readonly batch_body_bytes_max: number;
    readonly batch_items_max: number;
    readonly body_bytes_max: number;
    readonly q_chars_max: number;
    readonly q_words_max: number;
    readonly read_days_max: number;
    readonly read_limit_max: number;
  };
  readonly retrieval: { readonly version: string; readonly excerpt_chars_max: number; readonly searched_chars_max: number };
  readonly tracking_parameters: readonly string[];
  readonly configured: {
    readonly gateway: boolean;
    readonly litellm: boolean;
    readonly telegram_secret: boolean;
    readonly email_import_root: boolean;
  };
}
