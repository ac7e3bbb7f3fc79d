// Where the rows of a list go when its first page comes again. Pure.

// The keys of the first page as it is now, then those that were loaded below it.
// `was` are the keys as they stand, `fresh` those of the first page, `more` whether the first page has a next one.
export function merged(was, fresh, more) {
  if (!more) return { order: fresh, kept: false };
  const known = new Set(fresh);
  const last = was.findLastIndex((key) => known.has(key));
  // Without a row in common, rows between the two may be missing: the list begins anew.
  if (last < 0) return { order: fresh, kept: false };
  const below = was.slice(last + 1).filter((key) => !known.has(key));
  return { order: [...fresh, ...below], kept: below.length > 0 };
}
