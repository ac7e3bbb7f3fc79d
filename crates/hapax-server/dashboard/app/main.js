// The shell: who is signed in, which page is shown, the frame around it, and the keyboard.

import { get, onSignedOut, post, remove } from "./api.js";
import { banners, beat, startBeat, unreached } from "./banners.js";
import { lostSince, onContact } from "./contact.js";
import { h, replace } from "./dom.js";
import { shortcuts, showShortcuts } from "./keyboard.js";
import { arriveAtLists, holdLists, leaveLists } from "./list.js";
import { backTo, forgetPlaces, leavePlace, newPlace, startPlaces } from "./places.js";
import { loadTimeZone, setTimeZone, startClock, timeZone } from "./time.js";
import { icon, loading, problem, say, toast } from "./ui.js";

// Path, name, the module that draws it, the second key of its shortcut, its icon.
const PAGES = [
  ["overview", "Overview", () => import("./page-overview.js"), "o"],
  ["keys", "Keys", () => import("./page-keys.js"), "k"],
  ["receipts", "Receipts", () => import("./page-receipts.js"), "r"],
  ["snapshots", "Snapshots", () => import("./page-snapshots.js"), "s"],
  ["entries", "Entries", () => import("./page-entries.js"), "e"],
  ["imports", "Imports", () => import("./page-imports.js"), "i"],
  ["jobs", "Jobs", () => import("./page-jobs.js"), "j"],
  ["batches", "Batches", () => import("./page-batches.js"), "b"],
  ["audit", "Audit", () => import("./page-audit.js"), "a"],
  ["settings", "Settings", () => import("./page-settings.js"), "t"],
];

const RANK = { viewer: 0, writer: 1, owner: 2 };

const root = document.getElementById("app");
let session;
let leaving = new AbortController();
let main;
// The address of the page that is shown.
let shownAt;
// The page stayed when it could not look again.
let outdated = false;

// Shows the page of an address, and keeps the view of the page before.
function go(path, { replacing = false } = {}) {
  if (path === location.pathname + location.search) return show();
  leave();
  history[replacing ? "replaceState" : "pushState"](newPlace(), "", path);
  return show();
}

function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

// Keeps the view of the page, unless it has not loaded.
function leave() {
  if (main?.isConnected && !main.querySelector(":scope > .loading, :scope > [data-unreached]")) leavePlace(keep());
}

function parse() {
  const parts = location.pathname.split("/").filter(Boolean).map(decodePart);
  if (parts[0] === "ui") parts.shift();
  return { page: parts[0] ?? "overview", rest: parts.slice(1) };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Shows what the address says. `again`: the page is there and only its data is new, so nothing jumps. `back`: its view
// when it was left.
async function show(again = false, back = undefined) {
  const kept = again === true ? keep() : undefined;
  // A decision about a page that is left is not asked over another one.
  if (!kept) closeDialogs();
  outdated = false;
  shownAt = location.pathname + location.search;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  if (!session) return signIn();
  const { page, rest } = parse();
  const found = PAGES.find(([path]) => path === page);
  document.title = `${found ? found[1] : "Not found"} · hapax`;
  for (const link of document.querySelectorAll("nav a[data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.classList.remove("menu-open");
  document.querySelector(".menu")?.setAttribute("aria-expanded", "false");
  if (!found) {
    replace(
      main,
      h("h1", { tabindex: -1 }, "Nothing is here"),
      h("p", null, "Check the address, or go to ", h("a", { href: "/ui/overview" }, "the overview"), "."),
    );
    return main.querySelector("h1").focus();
  }
  if (!kept) replace(main, loading());
  arriveAtLists((kept ?? back)?.lists);
  const context = {
    rest,
    signal,
    session,
    query: new URLSearchParams(location.search),
    can: (role) => RANK[session.role] >= RANK[role],
    go,
    // What somebody is selecting stays; the next look comes soon.
    refresh: () => (isSelecting() ? undefined : show(true)),
    testModeChanged: beat,
    signOut,
    every: (ms, act) => every(ms, act, signal),
    // A heading for the tab and for history.
    title: (text) => (document.title = `${text} · ${found[1]} · hapax`),
  };
  try {
    const module = await found[2]();
    if (signal.aborted) return undefined;
    const node = await module.show(context);
    if (signal.aborted) return undefined;
    replace(main, node);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return undefined;
    // A page that was there stays there while the server does not answer.
    if (kept && lostSince() !== undefined) {
      outdated = true;
      holdLists(kept.lists);
      return undefined;
    }
    replace(
      main,
      h("h1", { tabindex: -1 }, found[1]),
      lostSince() === undefined ? problem(error, () => show()) : unreached(() => show()),
    );
  }
  if (kept) return restore(kept);
  if (back) return restore(back);
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  if (document.activeElement === document.body || !main.contains(document.activeElement))
    heading?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  say(document.title.split(" · ").slice(0, -1).join(", "));
  return undefined;
}

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

// Where somebody is on the page: how far down, which details are open, what has the focus.
function keep() {
  const focusable = [...main.querySelectorAll(FOCUSABLE)];
  const at = focusable.indexOf(document.activeElement);
  return {
    top: window.scrollY,
    open: [...main.querySelectorAll("details")].map((one) => one.open),
    focus: at < 0 ? undefined : { at, text: focusable[at].textContent },
    lists: leaveLists(),
  };
}

// Whether somebody is selecting text on the page.
function isSelecting() {
  const selection = getSelection();
  return !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(main);
}

function restore({ top, open, focus }) {
  const heading = main.querySelector("h1");
  heading?.setAttribute("tabindex", "-1");
  main.querySelectorAll("details").forEach((one, index) => {
    if (index < open.length) one.open = open[index];
  });
  if (focus) {
    const focusable = [...main.querySelectorAll(FOCUSABLE)];
    const same =
      focusable[focus.at]?.textContent === focus.text
        ? focusable[focus.at]
        : focusable.find((one) => one.textContent === focus.text);
    (same ?? heading)?.focus({ preventScroll: true });
  } else if (document.activeElement === document.body) heading?.focus({ preventScroll: true });
  window.scrollTo(0, top);
}

// Calls `act` every so often while the page is shown and looked at; the next call waits for the last one.
function every(ms, act, signal) {
  const wait = () => {
    const timer = setTimeout(async () => {
      if (!document.hidden) await act();
      if (!signal.aborted) wait();
    }, ms);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  };
  wait();
}

function frame() {
  main = h("main", { id: "main", tabindex: -1 });
  const nav = h(
    "nav",
    { id: "nav", "aria-label": "Pages" },
    PAGES.map(([path, name, , key]) =>
      h(
        "a",
        { href: `/ui/${path}`, "data-page": path, "aria-keyshortcuts": `g ${key}` },
        icon(path),
        h("span", null, name),
      ),
    ),
  );
  const menu = h(
    "button",
    {
      type: "button",
      class: "menu ghost",
      "aria-expanded": "false",
      "aria-controls": "nav",
      "aria-label": "Menu",
      onclick: () => {
        const open = document.body.classList.toggle("menu-open");
        menu.setAttribute("aria-expanded", String(open));
        if (open) nav.querySelector("a").focus();
      },
    },
    icon("menu"),
  );
  const role = session.auth === "none" ? "no sign-in, owner" : session.role;
  replace(
    root,
    h(
      "header",
      { class: "top" },
      menu,
      h("a", { href: "/ui/overview", class: "brand" }, h("span", { class: "mark" }, icon("mark")), "hapax"),
      h("span", { class: "tenant faint", title: `tenant ${session.tenant}` }, role),
      h("span", { class: "grow" }),
      h("a", { href: "/docs", class: "wide-only" }, "API reference"),
      zoneButton(),
      themeButton(),
      h(
        "button",
        { type: "button", class: "ghost wide-only", onclick: () => showShortcuts(PAGES), "aria-keyshortcuts": "?" },
        h("kbd", null, "?"),
        " shortcuts",
      ),
      session.auth === "token"
        ? h(
            "button",
            { type: "button", class: "ghost", onclick: signOut, "aria-label": "Sign out", title: "Sign out" },
            icon("out"),
          )
        : null,
    ),
    banners(),
    nav,
    main,
  );
}

function zoneButton() {
  const text = () => (timeZone() === "utc" ? "UTC" : "local time");
  const button = h(
    "button",
    {
      type: "button",
      class: "ghost",
      title: "Which time zone absolute times are shown in",
      onclick: () => {
        setTimeZone(timeZone() === "utc" ? "local" : "utc");
        button.textContent = text();
        say(`Times in ${text()}`);
      },
    },
    text(),
  );
  return button;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeButton() {
  const label = () => (isDark() ? "Light colours" : "Dark colours");
  const button = h(
    "button",
    {
      type: "button",
      class: "ghost theme",
      "aria-label": label(),
      title: label(),
      onclick: () => {
        const next = isDark() ? "light" : "dark";
        document.documentElement.dataset.theme = next;
        try {
          localStorage.setItem("hapax-theme", next);
        } catch {
          toast("The browser keeps no settings: the colours last as long as the page", "warn");
        }
        button.setAttribute("aria-label", label());
        button.title = label();
        document.dispatchEvent(new Event("hapax-theme"));
      },
    },
    icon("sun"),
  );
  return button;
}

// ---- Session

function signIn(note) {
  forgetPlaces();
  arriveAtLists();
  closeDialogs();
  leaving.abort();
  leaving = new AbortController();
  document.title = "Sign in · hapax";
  const refusal = h("div");
  const token = h("input", {
    type: "password",
    name: "token",
    id: "token",
    required: true,
    autocomplete: "current-password",
    autofocus: true,
    spellcheck: "false",
    "aria-describedby": "token-hint",
  });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h(
    "form",
    {
      class: "sign-in panel",
      onsubmit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        refusal.replaceChildren();
        try {
          await post("/session", { token: token.value.trim() }, { quiet: true });
          token.value = "";
          await start();
        } catch (error) {
          if (error.status === 401) error.message = "this token is not known here, or was revoked";
          replace(refusal, problem(error));
          button.disabled = false;
          token.focus();
        }
      },
    },
    h("h1", null, h("span", { class: "mark" }, icon("mark")), " Sign in to hapax"),
    note ? h("p", { class: "note", role: "status" }, note) : null,
    h("label", { for: "token" }, "Token"),
    token,
    h(
      "p",
      { id: "token-hint", class: "faint" },
      "The first start printed one and keeps it in the file token of the data folder. Another: ",
      h("code", null, "hapax token create --tenant … --role viewer"),
      ".",
    ),
    refusal,
    button,
  );
  replace(root, h("main", { id: "main", class: "alone" }, form));
  token.focus();
}

async function signOut() {
  try {
    await remove("/session", { quiet: true });
  } catch (error) {
    return toast(`Not signed out: ${error.message}`, "bad");
  }
  session = undefined;
  return signIn("You are signed out.");
}

async function start() {
  try {
    session = await get("/session", { quiet: true });
  } catch (error) {
    if (error.status === 401) return signIn();
    return replace(root, h("main", { id: "main", class: "alone" }, h("h1", null, "hapax"), problem(error, start)));
  }
  frame();
  // What holds on every page stands before the page does, so that it moves nothing.
  await startBeat(() => session !== undefined);
  await show();
  // The code of every page is there before it is needed, so that going to one needs no server but for its data.
  for (const [, , load] of PAGES) load().catch(() => undefined);
  return undefined;
}

// ---- Events

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const target = event.target instanceof Element ? event.target : undefined;
  const link = target?.closest("a[href]");
  const href = link?.getAttribute("href");
  if (href?.startsWith("/ui/") && !href.startsWith("/ui/assets/")) {
    event.preventDefault();
    go(href);
  } else if (
    !link &&
    !target?.closest("button, input, select, textarea, label, summary, pre") &&
    getSelection().isCollapsed
  ) {
    // A row leads where its first cell leads.
    const row = target?.closest("tr[data-href]");
    if (row) go(row.dataset.href);
  }
});

// The place that is left is noted under the entry that was shown, before the new one is.
addEventListener("popstate", (event) => {
  // A step within the page, such as past the menu, leaves it as it is.
  if (location.pathname + location.search === shownAt && event.state === null) return;
  leave();
  show(false, backTo(event.state));
});

onContact((since) => {
  if (since !== undefined || !main?.isConnected) return;
  toast("The server answers again");
  if (main.querySelector("[data-unreached]")) show();
  else if (outdated) show(true);
});

onSignedOut(() => {
  session = undefined;
  signIn("The session has ended. Sign in again to go on where you were.");
});

shortcuts(PAGES, go);
startPlaces();
loadTimeZone();
startClock();
start();
