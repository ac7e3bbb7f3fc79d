// Every page of the dashboard: its address, and a text that stands there once its data has come.

export function pages(made) {
  return [
    ["overview", "/ui/overview", "Dead letters"],
    ["keys", "/ui/keys", "booking-7f3a"],
    ["key", `/ui/keys/${made.conflict}`, "Conflicts (1)"],
    ["key-in-doubt", `/ui/keys/${made["doubt-3"]}`, "In doubt"],
    ["receipts", "/ui/receipts", "needs clarification"],
    ["receipt", `/ui/receipts/${made.question}`, "What should be done with this?"],
    ["snapshots", "/ui/snapshots", "latin-1"],
    ["snapshot", "/ui/snapshots/courses/latin-1", "Mr Ennius"],
    ["entries", "/ui/entries", "Letter 39 about doing it once"],
    ["entry", `/ui/entries/${made.entry}`, "and rang twice"],
    ["policies", "/ui/entries/policies", "telegram_thought_v1"],
    ["imports", "/ui/imports", "archive.mbox"],
    ["import", `/ui/imports/${made.import}`, "the message has no text"],
    ["jobs", "/ui/jobs", "paper-leased"],
    ["operations-in-doubt", "/ui/jobs?in_doubt=true", "when somebody decides"],
    ["job", `/ui/jobs/${made.download}`, "Plan: download"],
    ["job-in-doubt", `/ui/jobs/${made.doubtful}`, "Resolve…"],
    ["batches", "/ui/batches", "queued"],
    ["batch", `/ui/batches/${made.batch}`, "not yet"],
    ["audit", "/ui/audit", "by itself"],
    ["settings", "/ui/settings", "survives power loss"],
  ];
}
