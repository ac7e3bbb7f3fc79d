// Intents and their receipts: say what you want once, and see what became of it.

import type { Op } from "./jobs.js";
import { listing, segment, type Listing, type Transport } from "./transport.js";

export type ReceiptStatus = "accepted" | "planned" | "executed" | "failed" | "needs_clarification" | "rejected";

/** What is wanted. Unknown fields are kept and count. */
export interface Intent {
  readonly kind: "intent";
  readonly intent_type?: string;
  readonly source?: string;
  readonly natural_language?: string;
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly confidence?: number;
  readonly target?: { readonly kind: string; readonly key?: string };
  readonly schema_version?: string;
  readonly request_id?: string;
  readonly [name: string]: unknown;
}

/** One step of a plan. */
export interface ReceiptAction {
  readonly step: number;
  readonly action: string;
  readonly path: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface Receipt {
  readonly receipt_id: string;
  readonly intent_id: string | null;
  readonly trace_id: string | null;
  readonly status: ReceiptStatus;
  readonly idempotency_key: string;
  readonly correlation_id: string | null;
  readonly plan: { readonly actions: readonly ReceiptAction[] };
  readonly clarification: Readonly<Record<string, unknown>> | null;
  readonly details: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string; readonly message: string; readonly details: { readonly status_code: number | null } };
}

/** A receipt in a list, with the sentence that people know it by. */
export interface ListedReceipt extends Receipt {
  readonly natural_language: string | null;
  readonly intent_type: string | null;
}

/** An intent as it was received, and its receipt. */
export interface ReceivedIntent {
  readonly intent_id: string;
  readonly receipt_id: string;
  readonly source: string;
  readonly idempotency_key: string;
  readonly received_at: string;
  readonly packet: unknown;
  readonly receipt: Receipt;
  readonly artifacts: readonly Op[];
}

/** A receipt, and whether the intent had been sent before. */
export type Submitted = Receipt & { readonly replayed: boolean };

export interface Clarification {
  readonly id: string;
  readonly receipt_id: string;
  /** `open` or `answered`. */
  readonly status: string;
  readonly asked_at: string;
  readonly field?: string;
  /** What the packet says in words, cut at 200 characters. */
  readonly natural_language?: string;
  readonly question?: string;
  readonly reason?: string;
  readonly choices?: ReadonlyArray<{ readonly id: string; readonly label: string; readonly value: unknown }>;
  readonly answer?: unknown;
}

export class Intents {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Sends an intent. Sent again it answers the same receipt as it is now. A failure downstream is a receipt too: `failed`. */
  async submit(intent: Intent): Promise<Submitted> {
    return await this.#receipt("/v1/intents", intent, true);
  }

  receipt(receiptId: string): Promise<Receipt> {
    return this.#transport.json({ method: "GET", path: `/v1/receipts/${segment(receiptId)}`, repeatable: true });
  }

  intent(intentId: string): Promise<ReceivedIntent> {
    return this.#transport.json({ method: "GET", path: `/v1/intents/${segment(intentId)}`, repeatable: true });
  }

  receipts(query: { readonly status?: ReceiptStatus; readonly limit?: number } = {}): Listing<ListedReceipt> {
    return listing(this.#transport, "/v1/receipts", query);
  }

  /** Runs it again on purpose. Not repeated after silence. */
  replay(receiptId: string): Promise<Submitted> {
    return this.#receipt(`/v1/receipts/${segment(receiptId)}/replay`, undefined, false);
  }

  clarifications(query: { readonly status?: "open" | "answered"; readonly limit?: number } = {}): Listing<Clarification> {
    return listing(this.#transport, "/v1/clarifications", query);
  }

  /** Answers a question; the same receipt goes on. */
  answer(clarificationId: string, answer: { readonly choice_id: string } | { readonly answer_text: string }): Promise<Submitted> {
    return this.#receipt(`/v1/clarifications/${segment(clarificationId)}/answer`, answer, true);
  }

  async #receipt(path: string, body: unknown, repeatable: boolean): Promise<Submitted> {
    const reply = await this.#transport.send({ method: "POST", path, body, repeatable, isAnswer: isFailedReceipt });
    const replayed = reply.headers.get("idempotency-replayed") === "true";
    return { ...(reply.body as Receipt), replayed };
  }
}

/** A 502 of the server's own is a whole receipt whose status is failed: asking again would tell the same. */
function isFailedReceipt(status: number, body: unknown): boolean {
  return status === 502 && typeof body === "object" && body !== null && "receipt_id" in body;
}
