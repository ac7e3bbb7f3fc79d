// Bytes and their spellings, for Node and browsers alike.

/** Base64 of bytes. */
export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  // In parts: an argument list has a limit.
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/**
 * A body inside JSON: text where the bytes are UTF-8, so that a person can read it, else base64. Both give the bytes back.
 * Text with many characters to escape is longer than base64; then that is taken.
 */
export function bodyOf(bytes: Uint8Array): { body: string } | { body_base64: string } {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { body_base64: toBase64(bytes) };
  }
  const escapes = JSON.stringify(text).length - text.length;
  return escapes > bytes.length / 3 + 4 ? { body_base64: toBase64(bytes) } : { body: text };
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
