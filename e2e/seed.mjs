// Fills a server through its API with something of everything, markup planted where people can write.

export const PLANTED = "<img src=x onerror=\"document.title='planted'\">";
// A key is visible ASCII, so it has no space.
export const PLANTED_KEY = "<img/src=x/onerror=document.title='planted'>";

// A client that throws on what it does not expect.
export function client(base, token) {
  return async (method, path, body, headers = {}, expected = [200, 201, 202]) => {
    const response = await fetch(base + path, {
      method,
      headers: {
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!expected.includes(response.status)) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
}

// A mailbox with letters, one of which has no text.
export function mailbox(messages = 40) {
  const mails = Array.from({ length: messages }, (_, index) =>
    [
      `From list@example.com Mon Nov 16 07:00:00 2026`,
      `Message-ID: <mail-${index}@example.com>`,
      `Date: Mon, ${1 + (index % 28)} Jun 2026 08:00:00 +0000`,
      `From: "Reader ${index % 5}" <reader${index % 5}@example.com>`,
      `To: list@example.com`,
      `Subject: ${index === 3 ? PLANTED : `Letter ${index} about doing it once`}`,
      `Content-Type: text/plain; charset=utf-8`,
      ``,
      index === 7
        ? ""
        : `This is letter ${index}. It says that a thing which is done once need not be done again, `.repeat(6),
      ``,
    ].join("\n"),
  );
  return mails.join("\n");
}

export async function seed(ask, { mbox } = {}) {
  const made = {};
  const claim = (body) => ask("POST", "/v1/keys/claim", { method: "POST", ...body });
  const complete = (claimed, status, body, headers) =>
    ask("POST", `/v1/keys/${claimed.id}/complete`, { token: claimed.token, status, body, headers });

  // Keys: settled, replayed, with a conflict, held, in doubt, planted.
  for (let index = 0; index < 24; index += 1) {
    const claimed = await claim({
      key: `order-${String(index).padStart(4, "0")}`,
      path: `/api/v1/orders`,
      body: { order: index, total: index * 7 },
    });
    if (index % 3) await complete(claimed, 201, { order: index, id: `o-${index}` }, { location: `/orders/${index}` });
    else await complete(claimed, 422, { error: "no stock" });
  }
  const booking = {
    key: "booking-7f3a",
    path: "/api/v1/bookings/hold",
    body: { room: 12, nights: 3, guest: { name: "Ada", note: PLANTED }, extras: ["breakfast"] },
  };
  const first = await claim(booking);
  await complete(first, 201, { hold: 7, note: PLANTED }, { "content-language": "en", location: "/holds/7" });
  await claim(booking);
  await claim(booking);
  await claim({ ...booking, body: { ...booking.body, nights: 4, extras: ["breakfast", "late checkout"] } });
  made.conflict = first.id;
  const planted = await claim({ key: PLANTED_KEY, path: `/api/v1/notes`, body: { text: PLANTED } });
  await complete(planted, 200, { text: PLANTED }, { "content-language": PLANTED.replaceAll('"', "") });
  made.planted = planted.id;
  made.held = (
    await claim({ key: "held-now", path: "/api/v1/payments/link", body: { amount: 100 }, lease_seconds: 600 })
  ).id;
  for (const name of ["doubt-1", "doubt-2", "doubt-3"]) {
    const lost = { key: name, path: "/api/v1/refunds", body: { refund: name, amount: 1200 }, lease_seconds: 1 };
    made[name] = (await claim(lost)).id;
  }
  made.removable = (await claim({ key: "to-delete", path: "/api/v1/orders", body: { x: 1 } })).id;
  await ask("POST", "/v1/echo", { hello: "world" }, { "Idempotency-Key": "echo-1" });
  await ask("POST", "/v1/echo", { hello: "world" }, { "Idempotency-Key": "echo-1" });

  // Receipts.
  const intent = (more) =>
    ask("POST", "/v1/intents", { kind: "intent", source: "cli", confidence: 0.9, ...more }, {}, [200, 502]);
  made.receipt = (
    await intent({
      intent_type: "create_task",
      natural_language: `buy milk ${PLANTED}`,
      fields: { title: PLANTED, priority: "high" },
    })
  ).receipt_id;
  made.question = (await intent({ natural_language: "the usual, please", fields: { title: "the usual" } })).receipt_id;
  made.answerable = (
    await intent({ natural_language: "the other thing", fields: { title: "the other thing" } })
  ).receipt_id;
  await intent({
    intent_type: "create_task",
    natural_language: "something or other",
    fields: { title: "?" },
    confidence: 0.2,
  });
  await intent({
    target: { kind: "list", key: "groceries" },
    natural_language: "eggs on the list",
    fields: { item: "eggs" },
  });

  // Snapshots.
  const course = (id, name, more) => ask("POST", "/v1/courses/ingest", { course: { id, name, ...more } });
  for (let index = 0; index < 8; index += 1) await course(`course-${index}`, `Course ${index}`, { credits: index });
  const lessons = (count) =>
    Array.from({ length: count }, (_, index) => ({ title: `Lesson ${index + 1}`, minutes: 45 }));
  await course("latin-1", "Latin I", { credits: 4, teacher: "Ms Varro", lessons: lessons(6) });
  await course("latin-1", "Latin I", { credits: 5, teacher: "Ms Varro", lessons: lessons(7), note: PLANTED });
  await course("latin-1", "Latin I, revised", { credits: 5, teacher: "Mr Ennius", lessons: lessons(7), note: PLANTED });
  await course("latin-1", "Latin I, revised", { credits: 5, teacher: "Mr Ennius", lessons: lessons(7), note: PLANTED });

  // An import, first, so that what follows is newer.
  if (mbox) made.import = (await ask("POST", "/import/email/mbox", { mbox_path: mbox })).import_id;

  // Entries; the thought comes twice, so that a policy makes a revision.
  const keep = async (route, body) =>
    (await ask("POST", "/db/insert", await ask("POST", `/normalize/${route}`, body)))[0];
  const thought = await keep("telegram", {
    text: `Once is enough, said the postman. ${PLANTED}`,
    source: { chat_id: 5, message_id: 1 },
  });
  made.entry = thought.entry_id;
  await keep("telegram", {
    text: `Once is enough, said the postman, and rang twice. ${PLANTED}`,
    source: { chat_id: 5, message_id: 1 },
  });
  await keep("telegram", { text: "https://example.com/reading?utm_source=x", source: { chat_id: 5, message_id: 2 } });
  await keep("email", {
    from: "Ada <ada@example.com>",
    subject: `Ledgers weekly ${PLANTED}`,
    raw_text: "A newsletter about ledgers. ".repeat(30),
    source: { message_id: "<n1@example.com>", date: "2026-11-10T08:00:00Z" },
  });
  await ask("POST", "/db/insert", {
    source: "note",
    content_type: "note",
    title: `A note ${PLANTED}`,
    capture_text: "kept by hand",
    metadata: { [PLANTED]: PLANTED },
  });

  // Jobs of a kind that no worker here runs.
  const plan = (work_id, more) =>
    ask("POST", "/v1/jobs", {
      kind: "demo",
      work_id,
      artifact_id: `${work_id}.pdf`,
      canonical_url: `https://example.com/${work_id}.pdf`,
      ...more,
    });
  const lease = async (owner, kinds = ["demo"], ttl_s = 600) =>
    (await ask("POST", "/v1/jobs/lease", { owner, kinds, ttl_s })).jobs[0];
  let job;
  for (const [name, work_id] of [
    ["dead", "paper-dead"],
    ["revivable", "paper-to-revive"],
  ]) {
    made[name] = (await plan(work_id, { max_attempts: 1, payload: { note: PLANTED } })).job_id;
    job = await lease("worker-a");
    await ask("POST", `/v1/jobs/${job.job_id}/fail`, {
      owner: "worker-a",
      epoch: job.epoch,
      error: { message: `no such host ${PLANTED}` },
      retryable: false,
    });
  }
  made.failed = (await plan("paper-failed")).job_id;
  job = await lease("worker-a");
  await ask("POST", `/v1/jobs/${job.job_id}/fail`, {
    owner: "worker-a",
    epoch: job.epoch,
    error: "the disk was full",
    retryable: true,
    retry_after_s: 3600,
  });
  made.leased = (await plan("paper-leased")).job_id;
  job = await lease("worker-b");
  const begun = await ask("POST", "/v1/ops/begin", {
    job_id: job.job_id,
    kind: "FETCH",
    class: "replayable",
    op_key: "op-fetch-1",
    epoch: job.epoch,
    owner: "worker-b",
  });
  await ask("POST", `/v1/ops/${begun.op_key}/complete`, {
    token: begun.token,
    result: { bytes: 4096 },
    epoch: job.epoch,
    owner: "worker-b",
  });
  await ask("POST", "/v1/ops/begin", {
    job_id: job.job_id,
    kind: "PRINT",
    class: "at_most_once",
    op_key: "op-print-1",
    epoch: job.epoch,
    owner: "worker-b",
  });
  // An operation whose runner is gone: the job is given back while it runs, and the next holder finds it in doubt.
  const abandon = async (work_id, op_key) => {
    const { job_id } = await plan(work_id);
    const begin = (held, by) =>
      ask("POST", "/v1/ops/begin", {
        job_id,
        kind: "PAY",
        class: "at_most_once",
        op_key,
        epoch: held.epoch,
        owner: by,
      });
    let held = await lease("worker-c");
    await begin(held, "worker-c");
    await ask("POST", `/v1/jobs/${job_id}/release`, { owner: "worker-c", epoch: held.epoch });
    held = await lease("worker-d");
    await begin(held, "worker-d");
    return job_id;
  };
  made.doubtful = await abandon("paper-in-doubt", "op-pay-1");
  made.resolvable = await abandon("paper-to-resolve", "op-pay-2");
  for (let index = 0; index < 12; index += 1) await plan(`paper-${index}`);
  // A kind with a plan. The worker is refused the loopback address, so it fails by itself.
  made.download = (
    await ask("POST", "/v1/jobs", {
      kind: "download",
      work_id: "book-1",
      artifact_id: "book-1.epub",
      canonical_url: "http://127.0.0.1:9/book-1.epub",
    })
  ).job_id;

  // A batch that waits for a model.
  made.batch = (
    await ask("POST", "/enrich/t1/batch", {
      items: [1, 2, 3].map((index) => ({
        title: `Text ${index} ${PLANTED}`,
        clean_text: `Doing a thing once is enough, says text ${index}. `.repeat(5),
      })),
      metadata: { by: PLANTED },
    })
  ).batch_id;

  // The leases of the doubtful keys are over by now, or soon; a second claim finds out.
  const end = Date.now() + 10_000;
  for (const name of ["doubt-1", "doubt-2", "doubt-3"]) {
    for (;;) {
      const seen = await claim({
        key: name,
        path: "/api/v1/refunds",
        body: { refund: name, amount: 1200 },
        lease_seconds: 1,
      });
      if (seen.action === "in_doubt") break;
      if (Date.now() > end) throw new Error(`${name} is ${seen.action}, not in doubt`);
      await new Promise((done) => setTimeout(done, 200));
    }
  }
  return made;
}
