// What keys do: g and a letter goes to a page, / to the search, ? shows this, arrows walk through tables.

import { h } from "./dom.js";
import { say } from "./ui.js";

const CHORD_MS = 1500;

export function shortcuts(pages, go) {
  let chord = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (document.body.classList.contains("menu-open")) {
        document.body.classList.remove("menu-open");
        const menu = document.querySelector(".menu");
        menu?.setAttribute("aria-expanded", "false");
        menu?.focus();
      } else if (target.matches?.("input, textarea")) target.blur();
      return;
    }
    if (target.matches?.("input, textarea, select")) return;
    if (chord && Date.now() - chord < CHORD_MS) {
      chord = 0;
      const page = pages.find(([, , , key]) => key === event.key);
      if (page && document.querySelector("nav")) {
        event.preventDefault();
        go(`/ui/${page[0]}`);
      }
      return;
    }
    if (event.key === "g") chord = Date.now();
    else if (event.key === "/") {
      const search = document.querySelector("main [type=search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "?") {
      if (document.querySelector("nav")) showShortcuts(pages);
    } else if (event.key === "ArrowDown" || event.key === "j") walk(event, 1);
    else if (event.key === "ArrowUp" || event.key === "k") walk(event, -1);
    else if (event.key === "Home" && target.matches?.("a.row-link")) walk(event, -Infinity);
    else if (event.key === "End" && target.matches?.("a.row-link")) walk(event, Infinity);
  });
}

// To the next row of the table. Letters also start it; arrows only go on, since they scroll otherwise.
function walk(event, by) {
  const on = event.target.closest?.("a.row-link");
  const links = [...document.querySelectorAll("main a.row-link")];
  if (links.length === 0 || (!on && event.key.startsWith("Arrow"))) return;
  event.preventDefault();
  const at = on ? links.indexOf(on) + by : 0;
  links[Math.min(links.length - 1, Math.max(0, at))].focus();
}

export function showShortcuts(pages) {
  const line = (keys, text) =>
    h(
      "div",
      null,
      h(
        "dt",
        null,
        keys.map((key) => h("kbd", null, key)),
      ),
      h("dd", null, text),
    );
  const dialog = h(
    "dialog",
    { "aria-labelledby": "keys-title", class: "keys" },
    h("h2", { id: "keys-title" }, "Keyboard"),
    h(
      "dl",
      null,
      line(["/"], "search"),
      line(["j", "k"], "next and previous row"),
      line(["Enter"], "open the row"),
      line(["Esc"], "close, leave a field"),
      line(["?"], "this list"),
      pages.map(([, name, , key]) => line(["g", key], name)),
    ),
    h("form", { method: "dialog", class: "row end" }, h("button", { class: "primary" }, "Close")),
  );
  const before = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  say("Keyboard shortcuts");
}
