// How long to wait before the next try. The choice is pure; sleeping, time and chance can be given by a test.

/** How often to try, and how long to wait in between. */
export interface RetryOptions {
  /** How many tries there are in all (default 8). */
  readonly attempts?: number;
  /** The first wait is up to this long, and the span doubles with each try (default 200). */
  readonly baseMs?: number;
  /** No wait is longer, unless the server asks for it (default 10 000). */
  readonly capMs?: number;
}

/** Time and chance. */
export interface Clockwork {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Waits, or stops waiting when the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** A number from 0 to 1. */
  readonly random: () => number;
}

/** The real ones. */
export const clockwork: Clockwork = { now: Date.now, sleep, random: Math.random };

export interface Backoff {
  readonly attempts: number;
  readonly baseMs: number;
  readonly capMs: number;
}

export function backoffOf(options: RetryOptions | undefined): Backoff {
  return {
    attempts: Math.max(1, options?.attempts ?? 8),
    baseMs: options?.baseMs ?? 200,
    capMs: options?.capMs ?? 10_000,
  };
}

/**
 * The wait after the failed try number `failed` (from 1): a random part of a span that doubles. What the server asks
 * for is a lower bound, and a random part is added, since everybody who was refused then got the same number.
 */
export function waitMs(backoff: Backoff, failed: number, askedMs: number | null, part: number): number {
  const span = Math.min(backoff.capMs, backoff.baseMs * 2 ** Math.min(failed - 1, 31));
  const asked = askedMs === null ? 0 : askedMs + Math.min(backoff.baseMs, backoff.capMs) * part;
  return Math.max(span * part, asked);
}

/** The wait that `Retry-After` asks for, in seconds or as a date. A date is compared with the answer's own `Date`. */
export function retryAfterMs(headers: Headers, now: number): number | null {
  const text = headers.get("retry-after")?.trim();
  if (text === undefined || text === "") return null;
  if (/^[0-9]+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  if (Number.isNaN(at)) return null;
  const sent = Date.parse(headers.get("date") ?? "");
  return Math.max(0, at - (Number.isNaN(sent) ? now : sent));
}

/** Waits. An abort ends the wait early and is no error: the caller looks at its signal. */
function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener("abort", done, { once: true });
  });
}
