// Times as people read them: relative in the text, absolute in the title, in local time or UTC.

import { h } from "./dom.js";

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

let zone = "local";
// The moment that ages are told at, while the server does not answer.
let frozen;

// Stops every age at a moment, or lets them go on.
export function freeze(at) {
  frozen = at;
  tick();
}

export function now() {
  return frozen ?? Date.now();
}

export function timeZone() {
  return zone;
}

export function setTimeZone(next) {
  zone = next === "utc" ? "utc" : "local";
  try {
    localStorage.setItem("hapax-zone", zone);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  tick();
  document.dispatchEvent(new Event("hapax-zone"));
}

export function loadTimeZone() {
  try {
    zone = localStorage.getItem("hapax-zone") === "utc" ? "utc" : "local";
  } catch {
    zone = "local";
  }
}

// "3 min ago", "in 20 s", from milliseconds.
export function relative(at, moment) {
  const seconds = Math.round((at - moment) / 1000);
  if (Math.abs(seconds) < 1) return "now";
  const text = span(Math.abs(seconds));
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

// "2 h 5 min": the two largest units that count.
export function span(seconds) {
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [unit, size] = UNITS[first];
  const whole = Math.floor(seconds / size);
  const next = UNITS[first + 1];
  const rest = next && whole < 10 ? Math.floor((seconds - whole * size) / next[1]) : 0;
  return rest > 0 ? `${whole} ${unit} ${rest} ${next[0]}` : `${whole} ${unit}`;
}

// "2026-11-16 07:46:24.667 UTC"
export function absolute(at, where = zone) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  if (where === "utc") return `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
  const two = (number, width = 2) => String(number).padStart(width, "0");
  const offset = -date.getTimezoneOffset();
  const sign = offset < 0 ? "-" : "+";
  const far = Math.abs(offset);
  return (
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)} ` +
    `UTC${sign}${two(Math.floor(far / 60))}:${two(far % 60)}`
  );
}

// "07:46:24", always with its seconds.
export function hms(at) {
  return absolute(at).split(" ")[1].slice(0, 8);
}

// "07:46:24", or "07:46" on the minute.
export function clock(at) {
  const [, hours] = absolute(at).split(" ");
  return hours.slice(6, 8) === "00" ? hours.slice(0, 5) : hours.slice(0, 8);
}

// A time that stays true while it is on the page.
export function time(text) {
  if (!text) return "–";
  const at = Date.parse(text);
  if (Number.isNaN(at)) return String(text);
  const element = h("time", { datetime: text, "data-shows": "relative" });
  draw(element, now());
  return element;
}

// The absolute time in the text, the relative one behind it.
export function fullTime(text) {
  if (!text) return "–";
  const at = Date.parse(text);
  if (Number.isNaN(at)) return String(text);
  const element = h("time", { datetime: text, "data-shows": "absolute" });
  draw(element, now());
  return h("span", null, element, " ", h("span", { class: "faint" }, "(", time(text), ")"));
}

// How long is left, counted down each second; past it says `over`.
export function countdown(text, over = "over") {
  if (!text) return "–";
  const element = h("time", { datetime: text, "data-shows": "countdown", "data-over": over });
  draw(element, now());
  return element;
}

function draw(element, moment) {
  const at = Date.parse(element.dateTime);
  element.title = absolute(at);
  let text;
  if (element.dataset.shows === "absolute") text = absolute(at);
  else if (element.dataset.shows === "countdown") {
    const left = Math.ceil((at - moment) / 1000);
    text = left > 0 ? `${span(left)} left` : element.dataset.over;
    element.classList.toggle("soon", left > 0 && left <= 10);
    element.classList.toggle("past", left <= 0);
  } else text = relative(at, moment);
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  if (typeof document === "undefined") return;
  const moment = now();
  for (const element of document.querySelectorAll("time[data-shows]")) draw(element, moment);
}

export function startClock() {
  setInterval(tick, 1000);
}
