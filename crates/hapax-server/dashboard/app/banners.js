// Banners above every page: no contact with the server, and test mode.

import { get } from "./api.js";
import { lostSince, onContact } from "./contact.js";
import { h, replace } from "./dom.js";
import { hms } from "./time.js";

const BEAT_MS = 5000;
const LOST_BEAT_MS = 2000;
const ANSWER_MS = 8000;

const contact = h("div", { role: "alert" });
const mode = h("div", { role: "status" });
let testing = false;
let timer;
let isSignedIn = () => false;

export function banners() {
  return h("div", { class: "banners" }, contact, mode);
}

// Asks the server every few seconds whether it is there, and for its mode, while somebody is signed in and looks.
export function startBeat(signedIn) {
  isSignedIn = signedIn;
  clearTimeout(timer);
  return beat();
}

// Asks now.
export async function beat() {
  clearTimeout(timer);
  if (isSignedIn() && !document.hidden) {
    try {
      const [found] = await get("/db/test-mode", { signal: AbortSignal.timeout(ANSWER_MS) });
      testing = found.is_test_mode;
    } catch {
      // The banner shows lost contact; a refusal leaves the mode as it was.
    }
    draw();
  }
  clearTimeout(timer);
  timer = setTimeout(beat, lostSince() === undefined ? BEAT_MS : LOST_BEAT_MS);
}

// Draws the banners. The page scrolls by as much as they grew, so that rows do not move.
function draw() {
  const page = document.getElementById("main");
  const before = page?.getBoundingClientRect().top;
  fill();
  const moved = page ? page.getBoundingClientRect().top - before : 0;
  if (moved) window.scrollBy({ top: moved, behavior: "instant" });
}

function fill() {
  const since = lostSince();
  document.body.classList.toggle("no-contact", since !== undefined);
  if (since === undefined) replace(contact);
  else if (!contact.firstChild)
    replace(
      contact,
      h(
        "p",
        { class: "banner lost" },
        h("strong", null, `No contact since ${hms(since)}`),
        h("span", null, "What you see is as of then, and ages stand still. Nothing you ask for arrives."),
        h("button", { type: "button", class: "small", onclick: beat }, "Try now"),
      ),
    );
  if (!testing) replace(mode);
  else if (!mode.firstChild)
    replace(
      mode,
      h(
        "p",
        { class: "banner testing" },
        h("strong", null, "Test mode"),
        h("span", null, "Entries go to pkm_test, on every node. Keys, jobs and payments are real."),
        h("a", { href: "/ui/settings" }, "Settings"),
      ),
    );
}

// The place of what cannot be loaded without contact.
export function unreached(retry) {
  return h(
    "div",
    { class: "problem", role: "alert", "data-unreached": true },
    h("p", null, h("strong", null, "This cannot be loaded now"), `: no contact since ${hms(lostSince())}.`),
    h("p", null, "It loads by itself once the server answers. What you looked at before is one step back."),
    h(
      "p",
      { class: "row" },
      h("button", { type: "button", class: "small", onclick: () => history.back() }, "Back"),
      h("button", { type: "button", class: "small", onclick: retry }, "Try again"),
    ),
  );
}

onContact((since) => {
  draw();
  // Any request may have missed: the next beat comes soon.
  if (since !== undefined) {
    clearTimeout(timer);
    timer = setTimeout(beat, LOST_BEAT_MS);
  }
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) beat();
});
