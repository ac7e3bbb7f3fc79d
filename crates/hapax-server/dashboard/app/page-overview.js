// The overview: how it goes now, and over the last minutes, live.

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { capped, micros, number } from "./format.js";
import { heard } from "./contact.js";
import { follow } from "./live.js";
import { absolute, clock, span } from "./time.js";
import { command, curl, say, toast } from "./ui.js";

const SAMPLES_MAX = 720;

const CHARTS = [
  {
    name: "Requests",
    unit: "per second",
    show: number,
    series: [
      ["requests", (sample) => sample.requests],
      ["replays", (sample) => sample.replays],
    ],
  },
  {
    name: "Refused and waiting",
    unit: "per second",
    show: number,
    series: [
      ["in progress", (sample) => sample.in_progress],
      ["expired", (sample) => sample.expired],
      ["conflicts", (sample) => sample.conflicts],
      ["errors", (sample) => sample.errors],
    ],
  },
  {
    name: "Lookup",
    unit: "time to find a key",
    show: micros,
    series: [
      ["half are below", (sample) => sample.lookup_us_p50],
      ["99 % are below", (sample) => sample.lookup_us_p99],
    ],
  },
  {
    name: "Jobs",
    unit: "now; at most 10k are counted",
    show: capped,
    series: [
      ["ready", (sample) => sample.jobs.ready],
      ["running", (sample) => sample.jobs.running],
      ["failed", (sample) => sample.jobs.failed],
      ["dead", (sample) => sample.jobs.dead],
    ],
  },
  {
    name: "In doubt",
    unit: "now; at most 10k are counted",
    show: capped,
    series: [
      ["keys", (sample) => sample.in_doubt],
      ["operations", (sample) => sample.ops_in_doubt],
    ],
  },
  {
    name: "Sweeps",
    unit: "keys removed per second",
    show: number,
    series: [["swept", (sample) => sample.swept]],
  },
];

export async function show(context) {
  plotterIsThere();
  const state = h("span", { class: "status", role: "status" }, "Connecting…");
  const cards = h("div", { class: "cards five" });
  const charts = CHARTS.map(chart);
  const teach = h("div");
  let samples = [];
  let retryAt;

  const draw = () => {
    if (samples.length === 0) return;
    drawCards(cards, samples.at(-1));
    for (const one of charts) one.draw(samples);
    const quiet = samples.every((sample) => !sample.requests);
    if (quiet && !teach.firstChild) {
      replace(
        teach,
        h(
          "div",
          { class: "panel empty" },
          h("h3", null, "Nothing has been asked in this window"),
          h("p", null, "Send this twice and watch the requests and replays move."),
          command(curl(context.session, "POST", "/v1/echo", { hello: "world" }, { "Idempotency-Key": "first-call" })),
        ),
      );
    } else if (!quiet) replace(teach);
  };
  const tellState = (word, at) => {
    retryAt = at;
    state.className = `status ${word}`;
    if (word === "live") state.textContent = "Live";
    else if (word === "connecting") state.textContent = "Connecting…";
    else drawWait();
  };
  const drawWait = () => {
    if (!retryAt) return;
    const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    state.textContent = `Not connected; the figures are old. Next try in ${span(left)}`;
  };
  const line = follow(
    "/v1/live",
    {
      series: (all) => {
        samples = all.slice(-SAMPLES_MAX);
        draw();
      },
      sample: (sample) => {
        heard();
        samples = [...samples.slice(1 - SAMPLES_MAX), sample];
        draw();
      },
      state: (word, at) => {
        if (word === "waiting") {
          if (!state.classList.contains("waiting")) say("Live figures are not connected");
          // A stream does not tell why it was refused. If the session has ended, this leads to the sign-in.
          get("/session", { signal: context.signal }).catch((error) => {
            if (error.name !== "AbortError" && error.status !== 0 && error.status !== 401)
              toast(`Not connected: ${error.message}`, "bad");
          });
        }
        tellState(word, at);
      },
    },
    context.signal,
  );
  context.every(1000, drawWait);
  const redraw = () => {
    for (const one of charts) one.again();
    draw();
  };
  for (const event of ["hapax-theme", "hapax-zone"])
    document.addEventListener(event, redraw, { signal: context.signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw, { signal: context.signal });
  // The first call comes once the page stands, and only then a chart knows its width.
  const watch = new ResizeObserver(() => {
    draw();
    charts.forEach((one) => one.fit());
  });
  charts.forEach((one) => watch.observe(one.box));
  context.signal.addEventListener("abort", () => watch.disconnect(), { once: true });
  addEventListener("online", () => line.now(), { signal: context.signal });

  // The first figures come by a plain request, so that a stream that is full or cut off leaves no empty page.
  const first = await get("/v1/overview", { signal: context.signal });
  if (samples.length === 0) {
    samples = (first.samples ?? []).slice(-SAMPLES_MAX);
    if (samples.length === 0 && first.now?.jobs) samples = [first.now];
  }
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "head" },
      h("h1", null, "Overview"),
      state,
      h("span", { class: "grow" }),
      first.node
        ? h(
            "span",
            { class: "faint" },
            "node ",
            h("code", null, typeof first.node === "string" ? first.node : (first.node.name ?? first.node.id ?? "")),
          )
        : null,
    ),
    cards,
    teach,
    h(
      "div",
      { class: "charts" },
      charts.map((one) => one.figure),
    ),
  );
}

function drawCards(box, now) {
  const jobs = now.jobs;
  const card = (name, value, hint, href, tone) =>
    h(
      href ? "a" : "div",
      { class: "card", href },
      h("span", { class: "name" }, name),
      h("span", { class: `value ${tone ?? ""}` }, value),
      h("span", { class: "hint" }, hint),
    );
  const focused = document.activeElement?.closest?.(".card")?.getAttribute("href");
  replace(
    box,
    card("Requests", `${number(now.requests)}/s`, `${number(now.replays)}/s replayed`, "/ui/keys"),
    card(
      "Conflicts",
      `${number(now.conflicts)}/s`,
      "another body, same key",
      "/ui/audit?action=idempotency_conflict",
      now.conflicts > 0 ? "warn" : "",
    ),
    card(
      "Keys in doubt",
      capped(now.in_doubt),
      "keys that wait for a person",
      "/ui/keys?state=in_doubt",
      now.in_doubt > 0 ? "warn" : "",
    ),
    card(
      "Operations in doubt",
      capped(now.ops_in_doubt),
      "effects that wait for a person",
      "/ui/jobs?in_doubt=true",
      now.ops_in_doubt > 0 ? "warn" : "",
    ),
    card("Lookup p99", micros(now.lookup_us_p99), `half below ${micros(now.lookup_us_p50)}`),
    card("Jobs ready", capped(jobs.ready), `${capped(jobs.running)} running`, "/ui/jobs"),
    card(
      "Jobs failed",
      capped(jobs.failed),
      "rest, then run again",
      "/ui/jobs?state=FAILED",
      jobs.failed > 0 ? "warn" : "",
    ),
    card(
      "Dead letters",
      capped(jobs.dead),
      "given up; a person retries",
      "/ui/jobs?state=DEAD",
      jobs.dead > 0 ? "bad" : "",
    ),
    card("Receipts open", capped(now.receipts_open), "not yet at their end", "/ui/receipts"),
    card("Imports running", capped(now.imports_running), "mailboxes", "/ui/imports"),
    card("Batches open", capped(now.batches_open), "Tier-1 enrichment", "/ui/batches"),
  );
  if (focused) [...box.children].find((one) => one.getAttribute("href") === focused)?.focus();
}

// ---- Charts

function chart(spec) {
  const box = h("div", { class: "plot", "aria-hidden": "true" });
  const values = spec.series.map(() => h("b", null, "–"));
  const key = h(
    "ul",
    { class: "key" },
    spec.series.map(([name], index) => h("li", { class: `series-${index + 1}` }, h("span", null, name), values[index])),
  );
  const figure = h(
    "figure",
    { class: "panel chart" },
    h("figcaption", null, h("h2", null, spec.name), h("span", null, spec.unit)),
    box,
    key,
  );
  let plot;
  const again = () => {
    plot?.destroy();
    plot = undefined;
  };
  const draw = (samples) => {
    const data = [
      samples.map((sample) => Date.parse(sample.at) / 1000),
      ...spec.series.map(([, of]) => samples.map((sample) => of(sample) ?? null)),
    ];
    spec.series.forEach(([, of], index) => {
      const text = spec.show(of(samples.at(-1)) ?? null);
      if (values[index].textContent !== text) values[index].textContent = text;
    });
    if (!box.isConnected || box.clientWidth === 0) return;
    if (plot) plot.setData(data);
    else plot = new window.uPlot(options(spec, box, figure), data, box);
  };
  const fit = () => {
    if (plot && box.clientWidth > 0 && plot.width !== box.clientWidth)
      plot.setSize({ width: box.clientWidth, height: box.clientHeight });
  };
  return { figure, box, draw, again, fit };
}

function options(spec, box, figure) {
  const style = getComputedStyle(box);
  const ink = style.color;
  // A probe resolves the pair of colours to the one that is shown now.
  const probe = h("span");
  figure.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const soft = colour("--soft");
  const grid = { stroke: colour("--line"), width: 1 };
  const lines = spec.series.map(([name], index) => ({
    label: name,
    stroke: colour(`--series-${index + 1}`),
    width: 1.75,
    points: { show: false },
    spanGaps: false,
  }));
  probe.remove();
  const font = `11px ${style.fontFamily}`;
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    legend: { show: false },
    cursor: { y: false, points: { size: 6, fill: ink } },
    hooks: {
      setCursor: [
        (plot) => {
          const index = plot.cursor.idx;
          box.title =
            index === null || index === undefined
              ? ""
              : `${absolute(plot.data[0][index] * 1000)}: ` +
                spec.series.map(([name], at) => `${name} ${spec.show(plot.data[at + 1][index])}`).join(", ");
        },
      ],
    },
    // A window of two minutes at least: the first few samples stand at its end.
    scales: {
      x: { range: (_, low, high) => [Math.min(low ?? 0, (high ?? 0) - 120), high ?? 1] },
      y: { range: (_, low, high) => [0, Math.max(1, (high ?? 1) * 1.1)] },
    },
    axes: [
      {
        stroke: soft,
        grid: { show: false },
        ticks: grid,
        font,
        space: 70,
        size: 32,
        values: (_, all) => all.map((at) => clock(at * 1000)),
      },
      {
        stroke: soft,
        grid,
        ticks: { show: false },
        font,
        size: 58,
        values: (_, all) => all.map((value) => spec.show(value)),
      },
    ],
    series: [{}, ...lines],
  };
}

// The page names uPlot, which runs before any module: the policy lets no script add another.
function plotterIsThere() {
  if (!window.uPlot) throw new Error("the charts could not be loaded; load the page again");
}
