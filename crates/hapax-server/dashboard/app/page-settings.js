// Settings and health: what keeps the data, how it is set up, the test mode, the session.

import { get, post } from "./api.js";
import { confirmDialog } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { bytes, number, words } from "./format.js";
import { span, time } from "./time.js";
import { badge, command, facts, json, panel, problem, toast } from "./ui.js";

export async function show(context) {
  const { signal, session } = context;
  const [settings, health, mode, stats] = await Promise.all(
    ["/v1/settings", "/health", "/db/test-mode", "/v1/stats"].map((path) => get(path, { signal })),
  );
  const ready = h("span", null, "…");
  const look = async () => {
    try {
      const found = await get("/ready", { signal });
      replace(ready, badge(found.status));
    } catch (error) {
      if (error.name !== "AbortError") replace(ready, badge("not ready", "bad"), " ", problem(error));
    }
  };
  look();
  context.every(5000, look);
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "head" }, h("h1", null, "Settings and health")),
    h(
      "div",
      { class: "two" },
      panel(
        "Health",
        facts([
          ["Takes writes", ready],
          ["Store", settings.store ?? health.store],
          ["Durability", durability(settings.durability ?? health.durability)],
          ["Version", settings.version ?? health.version],
          ["Runs for", span(health.uptime_s)],
          ["Started", settings.started_at ? time(settings.started_at) : null],
          ["Node", settings.node ? h("code", null, plain(settings.node)) : null],
          ["Listens on", settings.listen ? h("code", null, plain(settings.listen)) : null],
        ]),
      ),
      panel(
        "Session",
        facts([
          ["Role", session.role],
          ["Tenant", h("code", null, session.tenant)],
          [
            "Token",
            session.token_id ? h("code", null, session.token_id) : session.auth === "none" ? "none is asked for" : null,
          ],
          ["Name of the token", session.token_name ? plain(session.token_name) : null],
          ["Ends", session.expires_at ? time(session.expires_at) : null],
        ]),
        session.auth === "none"
          ? h("p", { class: "note" }, "The server runs with --insecure-no-auth: everybody on its machine is the owner.")
          : h("div", { class: "row" }, h("button", { type: "button", onclick: context.signOut }, "Sign out")),
      ),
    ),
    testMode(context, mode[0].is_test_mode),
    panel(
      "Since the start of this process",
      facts([
        ["Requests", number(stats.total_requests)],
        ["Replayed", number(stats.replayed_requests)],
        ["Conflicts", number(stats.conflict_requests)],
        ["Expired keys", number(stats.expired_keys)],
        ["Lookup, mean", `${number(stats.avg_lookup_time)} ms`],
        ["Storing, mean", `${number(stats.avg_storage_time)} ms`],
        ["From the cache", `${number(stats.cache_hit_rate * 100)} %`],
        ["Sweeps", `${number(stats.cleanup_operations)}, ${number(stats.cleanup_failures)} failed`],
        ["Storing failed", number(stats.storage_failures)],
      ]),
    ),
    h(
      "div",
      { class: "two" },
      panel(
        "Limits",
        facts(
          Object.entries(settings.limits ?? {}).map(([name, value]) => [
            words(name.replace(/_ms$/, "")),
            amount(name, value),
          ]),
        ),
      ),
      panel(
        "Configuration",
        settings.config
          ? [h("p", { class: "note" }, "Without secrets."), json(settings.config, "Configuration")]
          : h("p", { class: "note" }, "It is shown to an owner or a writer."),
      ),
    ),
    panel(
      "Elsewhere",
      h(
        "div",
        { class: "row" },
        h("a", { href: "/docs" }, "API reference"),
        h("a", { href: "/openapi.json" }, "OpenAPI document"),
        h("a", { href: "/metrics" }, "Metrics"),
      ),
      command(`hapax doctor`, "A command that checks the set-up"),
    ),
  );
}

function amount(name, value) {
  if (name.endsWith("_ms")) return value % 1000 === 0 && value > 0 ? span(value / 1000) : `${value} ms`;
  return name.includes("bytes") ? bytes(value) : number(value);
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function durability(word) {
  return word === "full"
    ? "full: an acknowledged write survives power loss"
    : word === "relaxed"
      ? "relaxed: power loss may take the last moments"
      : words(word);
}

function testMode(context, on) {
  const again = context.refresh;
  const change = () =>
    confirmDialog({
      title: on ? "Turn the test mode off?" : "Turn the test mode on?",
      text: h(
        "p",
        null,
        on
          ? "Entries are read from and written to pkm again, on every node, from the next request on."
          : "Entries are read from and written to pkm_test from the next request on, on every node. What is in pkm stays as it is.",
      ),
      next: () =>
        h(
          "p",
          null,
          on ? "The next caller of any node writes to " : "The next caller of any node, real ones too, writes to ",
          h("strong", null, on ? "pkm" : "pkm_test"),
          ".",
        ),
      action: on ? "Turn off" : "Turn on",
      tone: "primary",
      act: async () => {
        await post("/db/test-mode/set", { is_test_mode: !on });
        toast(on ? "Test mode is off" : "Test mode is on");
        await context.testModeChanged();
        again();
      },
    });
  return panel(
    "Test mode",
    h(
      "div",
      { class: "row" },
      badge(on ? "on" : "off", on ? "warn" : "calm"),
      h("span", null, on ? "Entries go to pkm_test." : "Entries go to pkm."),
      h("span", { class: "grow" }),
      context.can("owner") ? h("button", { type: "button", onclick: change }, on ? "Turn off…" : "Turn on…") : null,
    ),
  );
}
