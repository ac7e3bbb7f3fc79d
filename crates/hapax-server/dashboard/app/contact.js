// Contact with the server: every request reports whether it was answered, and the banners show it on every page.

import { freeze } from "./time.js";

const listeners = [];
let last = Date.now();
let since;

// The server answered.
export function heard() {
  last = Date.now();
  if (since === undefined) return;
  since = undefined;
  freeze(undefined);
  tell();
}

// The server did not answer: ages stop at the moment it last did.
export function missed() {
  if (since !== undefined) return;
  since = last;
  freeze(last);
  tell();
}

// The time of the last answer while there is no contact; else undefined.
export function lostSince() {
  return since;
}

// Calls `act` when contact is lost and when it is back.
export function onContact(act) {
  listeners.push(act);
}

function tell() {
  for (const act of listeners) act(since);
}
