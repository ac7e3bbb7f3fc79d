// Keys from afar: claim one before you act, complete it with what came of it.

import { sliceOf } from "../canonical/tree.js";
import type { Conflict } from "../with-key.js";
import { listing, segment, type Listing, type Transport } from "./transport.js";

/** A body: JSON or text in `body`, bytes in `body_base64`. */
export interface Body {
  readonly body?: unknown;
  readonly body_base64?: string;
}

/** A request that you are about to serve. */
export interface ClaimRequest extends Body {
  /** Left out, it is derived from the request. */
  readonly key?: string;
  /**
   * Who sends it, such as a user's id; the server keeps its hash alone. It is part of a derived key, and under another key a
   * replay is given to the same principal only.
   */
  readonly principal?: string;
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  readonly content_type?: string;
  readonly ttl_seconds?: number;
  readonly lease_seconds?: number;
}

/** A body as it was given. It is omitted where it could not be kept, and withheld where the reader may not see it. */
export interface StoredBody extends Body {
  readonly body_omitted?: boolean;
  readonly body_withheld?: boolean;
}

/** A recorded answer. */
export interface StoredResponse extends StoredBody {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

interface Seen {
  readonly id: string;
  /** The bare form of the key. */
  readonly key: string;
  readonly route_pattern: string;
  readonly expires_at: string | null;
  /** The key had been used before, long ago. */
  readonly expired: boolean;
  /** Somebody had begun under it and died. */
  readonly lost: boolean;
}

/** What a claim gets. */
export type Claim =
  /** Act, then complete with the token. */
  | (Seen & { readonly action: "process"; readonly token: string; readonly lease_expires_at: string })
  /** It was done; this came of it. `raw` is a body that was given as JSON, as it was given. */
  | (Seen & { readonly action: "replay"; readonly response: StoredResponse; readonly settled_at: string; readonly raw: string | null })
  | (Seen & { readonly action: "conflict"; readonly conflict: Conflict })
  | (Seen & { readonly action: "in_progress"; readonly retry_after: number; readonly lease_seconds_left: number })
  /** It may have happened; a person has to say. */
  | (Seen & { readonly action: "in_doubt"; readonly reason: string; readonly why?: string })
  /** It was done, and what came of it is erased. */
  | (Seen & { readonly action: "erased" });

/** What came of a request. */
export interface Completion extends Body {
  readonly token: string;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * False for an answer that cannot be kept, because it is too large or is a stream: that it was given is recorded, and
   * the next claim gets in_doubt with the reason response_not_stored.
   */
  readonly stored?: boolean;
}

export type KeyState = "held" | "in_doubt" | "settled" | "erased";

export interface KeyRow {
  readonly id: string;
  readonly key: string;
  readonly route_pattern: string;
  readonly state: KeyState;
  readonly method: string;
  readonly path: string;
  readonly content_hash: string;
  readonly created_at: string;
  readonly expires_at: string;
  readonly lease_expires_at?: string;
  readonly settled_at?: string;
  readonly status?: number;
  readonly reason?: string;
}

export interface KeyWhole extends KeyRow {
  readonly request: { readonly method: string; readonly path: string; readonly content_type: string; readonly content_hash: string } & StoredBody;
  readonly response?: StoredResponse;
}

export interface Ended {
  readonly id: string;
  readonly state: "settled" | "released" | "in_doubt";
  readonly replayed: boolean;
}

export class Keys {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Claims a key. After a lost answer the second try may say in_progress until the first lease is over. */
  async claim(request: ClaimRequest): Promise<Claim> {
    const call = { method: "POST", path: "/v1/keys/claim", body: request, repeatable: true } as const;
    const reply = await this.#transport.send(call);
    const claim = reply.body as Claim;
    if (claim.action !== "replay") return claim;
    const isJson = claim.response.body !== undefined && typeof claim.response.body !== "string";
    return { ...claim, raw: isJson ? (sliceOf(reply.text, ["response", "body"]) ?? null) : null };
  }

  /** Records the outcome. Sent again with the same outcome and the newest token it answers the same. */
  complete(id: string, completion: Completion): Promise<Ended> {
    return this.#post(`${segment(id)}/complete`, completion);
  }

  /** Extends the lease. The answer has a new token: carry that one from now on. */
  renew(id: string, token: string): Promise<{ readonly id: string; readonly token: string; readonly lease_expires_at: string }> {
    return this.#post(`${segment(id)}/renew`, { token });
  }

  /** Gives the key back, so that the next claim runs as new. A second try may say lease_lost. */
  release(id: string, token: string): Promise<Ended> {
    return this.#post(`${segment(id)}/release`, { token });
  }

  list(query: { readonly route?: string; readonly state?: KeyState; readonly limit?: number } = {}): Listing<KeyRow> {
    return listing(this.#transport, "/v1/keys", query);
  }

  get(id: string): Promise<KeyWhole> {
    return this.#transport.json({ method: "GET", path: `/v1/keys/${segment(id)}`, repeatable: true });
  }

  /** Forgets a key; an owner may. */
  delete(id: string): Promise<{ readonly id: string; readonly deleted: boolean }> {
    return this.#transport.json({ method: "DELETE", path: `/v1/keys/${segment(id)}`, repeatable: true });
  }

  /** Ends doubt: what happened, or `release: true`; an owner may. */
  settle(id: string, outcome: Omit<Completion, "token" | "stored"> | { readonly release: true }): Promise<Ended> {
    return this.#post(`${segment(id)}/settle`, outcome);
  }

  #post<T>(tail: string, body: unknown): Promise<T> {
    return this.#transport.json({ method: "POST", path: `/v1/keys/${tail}`, body, repeatable: true });
  }
}
