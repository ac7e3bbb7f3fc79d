// graphile-worker as its documentation recommends for throughput: a local queue, and completions in batches.
// Reads `enqueue COUNT` and `drain COUNT`, answers with the seconds each took. Arguments: the URL, the worker count.
import { createInterface } from "node:readline";
import { runMigrations, makeWorkerUtils, run, Logger } from "graphile-worker";

const [connectionString, workers] = process.argv.slice(2);
const logger = new Logger(() => (level, message) => {
    if (level === "error") console.error(message);
});
const preset = {
    worker: {
        connectionString,
        concurrentJobs: Number(workers),
        maxPoolSize: 10,
        pollInterval: 1000,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
    },
};
await runMigrations({ preset });

const enqueue = async (count) => {
    const utils = await makeWorkerUtils({ preset });
    const begun = performance.now();
    for (let from = 0; from < count; from += 1000) {
        const jobs = Array.from({ length: Math.min(1000, count - from) }, (_, at) => ({
            identifier: "nothing",
            payload: { work_id: "w", artifact_id: `a-${from + at}`, url: `https://example.org/${from + at}` },
            jobKey: `k-${from + at}`,
        }));
        await utils.addJobs(jobs);
    }
    const seconds = (performance.now() - begun) / 1000;
    await utils.release();
    return seconds;
};

const drain = async (count) => {
    let left = count;
    let ended;
    const all = new Promise((resolve) => (ended = resolve));
    const nothing = async () => {
        left -= 1;
        if (left === 0) ended();
    };
    const begun = performance.now();
    const runner = await run({ preset, taskList: { nothing }, parsedCronItems: [], noHandleSignals: true });
    await all;
    // Stopping waits until the last completions are written.
    await runner.stop();
    return (performance.now() - begun) / 1000;
};

for await (const line of createInterface({ input: process.stdin })) {
    const [word, count] = line.split(" ");
    console.log(await (word === "enqueue" ? enqueue : drain)(Number(count)));
}
process.exit(0);
