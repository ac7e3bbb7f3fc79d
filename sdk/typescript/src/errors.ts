// What went wrong, in two kinds: the server said no, or we could not find out.

/** The server refused. `retryable` says whether the same call may succeed later. */
export class HapaxError extends Error {
  override readonly name = "HapaxError";
  /** The code of the refusal, such as `lease_lost`. */
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly traceId: string | null;
  readonly status: number;
  readonly retryable: boolean;
  /** How long the server asks to wait. */
  readonly retryAfterMs: number | null;

  constructor(refusal: {
    code: string;
    message: string;
    details?: Readonly<Record<string, unknown>>;
    traceId?: string | null;
    status: number;
    retryable?: boolean;
    retryAfterMs?: number | null;
  }) {
    super(refusal.message);
    this.code = refusal.code;
    this.details = refusal.details ?? {};
    this.traceId = refusal.traceId ?? null;
    this.status = refusal.status;
    this.retryable = refusal.retryable ?? isTransient(refusal.status, refusal.code);
    this.retryAfterMs = refusal.retryAfterMs ?? null;
  }
}

/** We could not find out: no answer came, or none in time. Whether the call took effect is not known. */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
  readonly retryable = true;

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}

const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Whether a refusal may be gone next time. The code counts for more than the status. */
export function isTransient(status: number, code?: string): boolean {
  if (code === "IDEMPOTENCY_IN_PROGRESS") return true;
  if (code === "IDEMPOTENCY_IN_DOUBT" || code === "IDEMPOTENCY_CONFLICT") return false;
  return TRANSIENT.has(status);
}

/** A refusal as a body says it: our envelope, a problem document, or nothing of the kind. */
export function refusalOf(status: number, body: unknown, headers: Headers, retryAfterMs: number | null): HapaxError {
  const whole = record(body);
  const inner = record(whole["error"]);
  const code = text(inner["code"]) ?? text(whole["code"]) ?? `http_${status}`;
  const message = text(inner["message"]) ?? text(whole["detail"]) ?? text(whole["title"]) ?? `the answer was ${status}`;
  const details = "details" in inner ? record(inner["details"]) : record(whole["details"]);
  const traceId = text(whole["trace_id"]) ?? headers.get("x-trace-id");
  return new HapaxError({ code, message, details, traceId, status, retryAfterMs });
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
