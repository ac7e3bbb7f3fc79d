// Why a JSON text or a value has no canonical form. The words are those of the server's `details.reason`.

/** Why something was refused. The first six are the input rules of the server. */
export type Reason =
  | "duplicate_key"
  | "lone_surrogate"
  | "number_out_of_range"
  | "too_deep"
  | "invalid_utf8"
  | "syntax"
  /** `js-sorted` only: the old snippet writes keys raw, so this key would not be JSON. */
  | "key_needs_escape"
  /** `thorbis16` only: the old snippet throws when it sorts an array with this object. */
  | "not_sortable"
  /** A JavaScript value that JSON does not have. */
  | "not_json";

/** A refusal: the reason, what was seen, and where. */
export class JsonRefused extends Error {
  override readonly name = "JsonRefused";
  readonly reason: Reason;

  constructor(reason: Reason, message: string) {
    super(message);
    this.reason = reason;
  }
}
