// What works everywhere: in Node, in browsers, on the edge. Nothing here imports a `node:` module.

export {
  canonical,
  canonicalJson,
  fingerprint,
  fingerprintJson,
  JsonRefused,
  parseJson,
  toJson,
  type Json,
  type Profile,
  type Reason,
} from "./canonical/index.js";
export { Hapax, type AuditAction, type AuditRow, type Health, type Reconciled, type Stats, type Version } from "./client.js";
export type { HapaxOptions, Listing, Page } from "./api/transport.js";
export type { Body, Claim, ClaimRequest, Completion, Ended, KeyRow, KeyState, KeyWhole, StoredBody, StoredResponse } from "./api/keys.js";
export type { Clarification, Intent, ListedReceipt, ReceivedIntent, Receipt, ReceiptAction, ReceiptStatus, Submitted } from "./api/intents.js";
export type { Entity, EntityWhole, Ingested, IngestedBatch, Named, RawJson, Snapshot, SnapshotWhole } from "./api/snapshots.js";
export type { Insertable, ReadQuery, WriteOptions } from "./api/entries.js";
export type {
  ChangedPolicy,
  Column,
  EmailMessage,
  EnrichBatch,
  EnrichBatchItem,
  Enriched,
  EnrichItem,
  Entry,
  EntryChange,
  EntryColumns,
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
} from "./api/entry-types.js";
export type {
  Begun,
  EndedOp,
  Fence,
  Job,
  JobCounts,
  JobEnd,
  JobPlan,
  JobState,
  JobWhole,
  Op,
  OpClass,
  PlannedShort,
  SettledJob,
  Why,
} from "./api/jobs.js";
export { EffectError, runEffect, type EffectOptions, type HeldBy } from "./effect.js";
export { HapaxError, Unavailable } from "./errors.js";
export { idempotent } from "./idempotent.js";
export { jobKey, opKey } from "./job-keys.js";
export type { Clockwork, RetryOptions } from "./retry.js";
export { sha256Hex } from "./sha256.js";
export { uuidV7 } from "./uuid.js";
export { WebStorageKeys, type StorageLike } from "./web-storage.js";
export {
  fetchWithKey,
  withIdempotencyKey,
  type Conflict,
  type KeyStore,
  type OnConflict,
  type OnConflictAnswer,
  type Result,
  type Send,
  type WithKeyOptions,
} from "./with-key.js";
