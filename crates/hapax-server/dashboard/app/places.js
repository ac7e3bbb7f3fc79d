// Views of the pages in the tab's history: their rows, scroll position, open details and focus, for the way back.

const PLACES_MAX = 50;

const places = new Map();
let current;
let count = 0;

function fresh() {
  count += 1;
  return `${Date.now()}-${count}`;
}

export function startPlaces() {
  history.scrollRestoration = "manual";
  current = history.state?.place ?? fresh();
  history.replaceState({ place: current }, "");
}

// Keeps the view of the page before another page is shown.
export function leavePlace(view) {
  places.delete(current);
  places.set(current, view);
  if (places.size > PLACES_MAX) places.delete(places.keys().next().value);
}

// Forgets every view: what the next session may see is not known.
export function forgetPlaces() {
  places.clear();
}

// The state of a new entry.
export function newPlace() {
  current = fresh();
  return { place: current };
}

// The view of an entry, if it is known.
export function backTo(state) {
  current = state?.place ?? fresh();
  return places.get(current);
}
