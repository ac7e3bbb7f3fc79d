// The key in a header: bare, or an RFC 8941 string. The server checks it; here it is only read where we hash it.

/** The bare form of a key, or nothing if it is none. */
export function bareKey(header: string): string | undefined {
  const text = header.replace(/^[ \t]+|[ \t]+$/g, "");
  let bare = text;
  if (text.startsWith('"')) {
    const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
    if (quoted === undefined) return undefined;
    bare = quoted.replace(/\\(["\\])/g, "$1");
  }
  return /^[\x21-\x7e]{1,255}$/.test(bare) ? bare : undefined;
}
