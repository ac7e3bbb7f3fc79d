// The stream of figures: one connection, opened again when it breaks, with its state told.

const WAITS_MS = [1000, 2000, 5000, 10_000, 30_000];
// The server sends a sample every 2 s; silence this long is a broken line.
const SILENCE_MS = 20_000;

// Calls `told.series(samples)`, `told.sample(sample)` and `told.state(word, retryAt)` until the signal says stop.
export function follow(path, told, signal) {
  let source;
  let fails = 0;
  let timer;
  let guard;
  const close = () => {
    clearTimeout(timer);
    clearTimeout(guard);
    source?.close();
    source = undefined;
  };
  const again = () => {
    close();
    if (signal.aborted) return;
    const wait = WAITS_MS[Math.min(fails, WAITS_MS.length - 1)];
    fails += 1;
    told.state("waiting", Date.now() + wait);
    timer = setTimeout(open, wait);
  };
  const heard = () => {
    clearTimeout(guard);
    guard = setTimeout(again, SILENCE_MS);
  };
  const read = (event) => {
    heard();
    return JSON.parse(event.data);
  };
  function open() {
    close();
    told.state("connecting");
    source = new EventSource(path, { withCredentials: false });
    guard = setTimeout(again, SILENCE_MS);
    source.addEventListener("series", (event) => {
      fails = 0;
      told.series(read(event).samples);
      told.state("live");
    });
    source.addEventListener("sample", (event) => told.sample(read(event)));
    source.onerror = again;
  }
  // A browser has few connections per server, so a page that nobody looks at gives its own back.
  const look = () => {
    if (document.hidden) {
      close();
      told.state("connecting");
    } else if (!source) open();
  };
  document.addEventListener("visibilitychange", look, { signal });
  signal.addEventListener("abort", close, { once: true });
  open();
  return { now: open };
}
