// Our types against those that are generated from spec/openapi.json. There is nothing to run: it compiles, or it does not.
// Answers of the document must fit into our types, and what we let callers send must fit into the document's.

import type { Claim, Entry, EntryChange, Hapax, Listing, Submitted } from "hapax";

import type { operations } from "../dist-test/openapi.js";

type Name = keyof operations;
type Json<T> = T extends { readonly content: { readonly "application/json": infer Body } } ? Body : never;
type Good<R> = { [Status in keyof R]: Status extends 200 | 201 | 202 ? Json<R[Status]> : never }[keyof R];

/** What the document says that an operation answers, takes, and takes in its query. */
type Answer<N extends Name> = Good<operations[N]["responses"]>;
type Body<N extends Name> = Json<NonNullable<operations[N] extends { readonly requestBody?: infer Sent } ? Sent : never>>;
type Query<N extends Name> = NonNullable<operations[N]["parameters"]["query"]>;
type Items<T> = T extends { readonly items: ReadonlyArray<infer Item> } ? Item : never;

/** What a method of ours gives, and takes. */
type Method = (...args: never[]) => unknown;
type Told<M extends Method> = Awaited<ReturnType<M>>;
type Each<M extends Method> = Told<M> extends ReadonlyArray<infer Item> ? Item : ReturnType<M> extends Listing<infer Item> ? Item : never;
type Sent<M extends Method, At extends number> = NonNullable<Parameters<M>[At]>;

/** True where a `From` can be used as a `To`. An empty type would pass for anything, so it does not. */
type Fits<From, To> = [From] extends [never] ? "there is nothing to compare" : [From] extends [To] ? true : { from: From; to: To };
/** The same for what we send, which has no member either that the document does not know. Some take members of any name. */
type Members<T> = T extends unknown ? keyof T : never;
type Stray<From, To> = string extends Members<From> ? never : Exclude<Members<From>, Members<To>>;
type Sends<From, To> = [Stray<From, To>] extends [never] ? Fits<From, To> : { stray: Stray<From, To> };
/** An operation without a body and without a query. */
type AnswersOnly<N extends Name, M extends Method> = [answer: Fits<Answer<N>, Told<M>>];
type AnswersTo<N extends Name, M extends Method, At extends number> = [answer: Fits<Answer<N>, Told<M>>, body: Sends<Sent<M, At>, Body<N>>];
type Lists<N extends Name, M extends Method, At extends number> = [item: Fits<Items<Answer<N>>, Each<M>>, query: Sends<Sent<M, At>, Query<N>>];

type Keys = Hapax["keys"];
type Intents = Hapax["intents"];
type Snapshots = Hapax["snapshots"];
type Entries = Hapax["entries"];
type Jobs = Hapax["jobs"];
type Ops = Hapax["ops"];

/** A claim with everything that may come with it, so that each of our cases can be compared with it. */
type Claimed<Action extends Claim["action"]> = Required<Omit<Answer<"claim_key">, "action">> & { readonly action: Action };
type Case<Action extends Claim["action"]> = Omit<Extract<Claim, { readonly action: Action }>, "raw">;

/** The operations that the client calls. */
export interface Called {
  claim_key: [
    Sends<Sent<Keys["claim"], 0>, Body<"claim_key">>,
    Fits<Answer<"claim_key">["action"], Claim["action"]>,
    Fits<Claim["action"], Answer<"claim_key">["action"]>,
    Fits<Claimed<"process">, Case<"process">>,
    Fits<Claimed<"replay">, Case<"replay">>,
    Fits<Claimed<"conflict">, Case<"conflict">>,
    Fits<Claimed<"in_progress">, Case<"in_progress">>,
    Fits<Claimed<"in_doubt">, Case<"in_doubt">>,
    Fits<Claimed<"erased">, Case<"erased">>,
  ];
  complete_key: AnswersTo<"complete_key", Keys["complete"], 1>;
  renew_key: [Fits<Answer<"renew_key">, Told<Keys["renew"]>>, Sends<{ token: Sent<Keys["renew"], 1> }, Body<"renew_key">>];
  release_key: [Fits<Answer<"release_key">, Told<Keys["release"]>>, Sends<{ token: Sent<Keys["release"], 1> }, Body<"release_key">>];
  list_keys: Lists<"list_keys", Keys["list"], 0>;
  get_key: AnswersOnly<"get_key", Keys["get"]>;
  delete_key: AnswersOnly<"delete_key", Keys["delete"]>;
  settle_key: AnswersTo<"settle_key", Keys["settle"], 1>;
  list_audit: Lists<"list_audit", Hapax["audit"], 0>;
  send_intent: [Fits<Answer<"send_intent">, Omit<Submitted, "replayed">>, Sends<Sent<Intents["submit"], 0>, Body<"send_intent">>];
  get_receipt: AnswersOnly<"get_receipt", Intents["receipt"]>;
  get_intent: AnswersOnly<"get_intent", Intents["intent"]>;
  list_receipts: Lists<"list_receipts", Intents["receipts"], 0>;
  replay_receipt: [Fits<Answer<"replay_receipt">, Omit<Told<Intents["replay"]>, "replayed">>];
  list_clarifications: Lists<"list_clarifications", Intents["clarifications"], 0>;
  answer_clarification: [
    Fits<Answer<"answer_clarification">, Omit<Told<Intents["answer"]>, "replayed">>,
    Sends<Sent<Intents["answer"], 1>, Body<"answer_clarification">>,
  ];
  // Payloads are whatever the caller has; the server checks them by the schema of the collection.
  ingest_snapshot: AnswersOnly<"ingest_snapshot", Snapshots["ingest"]>;
  ingest_snapshots: AnswersOnly<"ingest_snapshots", Snapshots["ingestBatch"]>;
  list_entities: Lists<"list_entities", Snapshots["list"], 0>;
  get_entity: AnswersOnly<"get_entity", Snapshots["get"]>;
  list_snapshots: Lists<"list_snapshots", Snapshots["history"], 2>;
  get_snapshot: AnswersOnly<"get_snapshot", Snapshots["snapshot"]>;
  normalize_telegram: AnswersTo<"normalize_telegram", Entries["normalizeTelegram"], 0>;
  normalize_email: AnswersTo<"normalize_email", Entries["normalizeEmail"], 0>;
  normalize_webpage: AnswersTo<"normalize_webpage", Entries["normalizeWebpage"], 0>;
  // What `normalize…` answers goes in as well: the server makes `source`, though the document does not promise it.
  insert_entries: [
    Fits<Answer<"insert_entries">[number], Each<Entries["insert"]>>,
    Sends<Entry & Omit<Sent<Entries["insert"], 1>, "continue_on_error">, Body<"insert_entries">>,
    Sends<{ items: readonly Entry[] } & Sent<Entries["insert"], 1>, Body<"insert_entries">>,
  ];
  update_entries: [
    Fits<Answer<"update_entries">[number], Each<Entries["update"]>>,
    Sends<EntryChange & Omit<Sent<Entries["update"], 1>, "continue_on_error">, Body<"update_entries">>,
    Sends<{ items: readonly EntryChange[] } & Sent<Entries["update"], 1>, Body<"update_entries">>,
  ];
  read_last: [Fits<Answer<"read_last">[number], Each<Entries["readLast"]>>, Sends<Sent<Entries["readLast"], 0>, Body<"read_last">>];
  read_find: [Fits<Answer<"read_find">[number], Each<Entries["readFind"]>>, Sends<Sent<Entries["readFind"], 0>, Body<"read_find">>];
  read_continue: [Fits<Answer<"read_continue">[number], Each<Entries["readContinue"]>>, Sends<Sent<Entries["readContinue"], 0>, Body<"read_continue">>];
  read_pull: [Fits<Answer<"read_pull">, Told<Entries["readPull"]>>, Sends<{ entry_id: Sent<Entries["readPull"], 0> }, Body<"read_pull">>];
  get_test_mode: [Fits<Answer<"get_test_mode">[number]["is_test_mode"], Told<Entries["testMode"]>>];
  set_test_mode: [
    Fits<Answer<"set_test_mode">[number]["is_test_mode"], Told<Entries["setTestMode"]>>,
    Sends<{ is_test_mode: Sent<Entries["setTestMode"], 0> }, Body<"set_test_mode">>,
  ];
  toggle_test_mode: [Fits<Answer<"toggle_test_mode">[number]["is_test_mode"], Told<Entries["toggleTestMode"]>>];
  list_policies: [Fits<Items<Answer<"list_policies">>, Each<Entries["policies"]>>, Sends<{ schema: Sent<Entries["policies"], 0> }, Query<"list_policies">>];
  set_policy: [...AnswersTo<"set_policy", Entries["setPolicy"], 1>, Sends<{ schema: Sent<Entries["setPolicy"], 2> }, Query<"set_policy">>];
  import_mbox: AnswersTo<"import_mbox", Entries["importMbox"], 0>;
  get_import: AnswersOnly<"get_import", Entries["importStatus"]>;
  enrich_text: AnswersTo<"enrich_text", Entries["enrichT1"], 0>;
  enrich_batch: AnswersTo<"enrich_batch", Entries["enrichT1Batch"], 0>;
  list_batches: Lists<"list_batches", Entries["enrichBatches"], 0>;
  get_batch: [...AnswersOnly<"get_batch", Entries["enrichStatus"]>, Sends<{ include_items: Sent<Entries["enrichStatus"], 1> }, Query<"get_batch">>];
  get_config: AnswersOnly<"get_config", Entries["config"]>;
  plan_job: AnswersTo<"plan_job", Jobs["plan"], 0>;
  plan_jobs: [Fits<Items<Answer<"plan_jobs">>, Each<Jobs["planBatch"]>>, Sends<{ jobs: Sent<Jobs["planBatch"], 0> }, Body<"plan_jobs">>];
  lease_jobs: [Fits<Answer<"lease_jobs">["jobs"][number], Each<Jobs["lease"]>>, Sends<Sent<Jobs["lease"], 0>, Body<"lease_jobs">>];
  renew_job: AnswersTo<"renew_job", Jobs["renew"], 1>;
  release_job: AnswersTo<"release_job", Jobs["release"], 1>;
  advance_job: AnswersTo<"advance_job", Jobs["advance"], 1>;
  fail_job: AnswersTo<"fail_job", Jobs["fail"], 1>;
  settle_jobs: [Fits<Items<Answer<"settle_jobs">>, Each<Jobs["settle"]>>, Sends<{ items: Sent<Jobs["settle"], 0> }, Body<"settle_jobs">>];
  count_jobs: AnswersOnly<"count_jobs", Jobs["stats"]>;
  list_jobs: Lists<"list_jobs", Jobs["list"], 0>;
  get_job: AnswersOnly<"get_job", Jobs["get"]>;
  retry_job: AnswersOnly<"retry_job", Jobs["retry"]>;
  begin_op: AnswersTo<"begin_op", Ops["begin"], 0>;
  complete_op: AnswersTo<"complete_op", Ops["complete"], 1>;
  fail_op: AnswersTo<"fail_op", Ops["fail"], 1>;
  resolve_op: AnswersTo<"resolve_op", Ops["resolve"], 1>;
  get_op: AnswersOnly<"get_op", Ops["get"]>;
  reconcile: AnswersTo<"reconcile", Hapax["reconcile"], 0>;
  get_stats: AnswersOnly<"get_stats", Hapax["stats"]>;
  get_health: AnswersOnly<"get_health", Hapax["health"]>;
  get_version: AnswersOnly<"get_version", Hapax["version"]>;
}

/** The operations whose types do not fit. Where this does not compile, the message names them; look at `Called` for why. */
type Misfit = { [N in keyof Called]: [Called[N][number]] extends [true] ? never : N }[keyof Called];
export const doAllFit: [Misfit] extends [never] ? true : Misfit = true;

/** The operations that the client does not offer, and why. */
export const NOT_OFFERED = {
  get_dashboard: "for people: a page",
  get_dashboard_home: "for people: a page",
  get_dashboard_page: "for people: a page",
  get_dashboard_asset: "for people: a part of a page",
  begin_session: "the dashboard's; programs send a token",
  get_session: "the dashboard's; programs send a token",
  end_session: "the dashboard's; programs send a token",
  list_collections: "the dashboard's; a program knows its collection",
  list_entries: "the dashboard's; programs search with `readFind`",
  get_entry: "the dashboard's; entries are read whole by `readPull`",
  get_job_graph: "the dashboard's; a job is read with its operations",
  list_ops: "an operator's list of doubt; a job is read with its operations",
  watch_live: "the dashboard's stream",
  get_overview: "the dashboard's; `stats` is for programs",
  get_settings: "the dashboard's",
  get_docs: "for people: a page",
  get_docs_asset: "for people: a part of a page",
  get_error_page: "for people: a page",
  list_error_pages: "for people: a page",
  get_openapi: "the document itself",
  get_metrics: "for a monitor, and no JSON",
  get_ready: "for a load balancer; `health` is for programs",
  ingest_telegram_update: "Telegram calls it",
  echo: "to try out a key with `fetchWithKey`, which calls it by its address",
  list_entry_revisions: "the dashboard's; entries are read whole by `readPull`",
  list_imports: "the dashboard's; an import is asked for by its id",
  diff_snapshots: "the dashboard's; both snapshots can be read whole",
  erase_key: "an operator's word, by `hapax` at the server or the dashboard",
  erase_subject: "an operator's word, by `hapax` at the server or the dashboard",
  sweep: "the server does so by itself every hour",
} as const satisfies { readonly [N in Exclude<Name, keyof Called>]: string };

/** No operation is in both tables, and none is called that the document does not have. */
export const isApart: [keyof Called & keyof typeof NOT_OFFERED] extends [never] ? true : false = true;
export const isKnown: Fits<keyof Called, Name> = true;

/** What does not fit is seen: a null that we do not have, a word that the document has not, a member too few, one too many. */
// @ts-expect-error
export const lacksNull: Fits<Answer<"get_op">, { readonly finished_at: string }> = true;
// @ts-expect-error
export const hasOtherWord: Sends<{ to_state: "DONE" }, Body<"advance_job">> = true;
// @ts-expect-error
export const lacksMember: Sends<{ token: string }, Body<"complete_key">> = true;
// @ts-expect-error
export const hasStray: Sends<{ token: string; status: number; storde: false }, Body<"complete_key">> = true;
// @ts-expect-error
export const comparesNothing: Fits<never, string> = true;
