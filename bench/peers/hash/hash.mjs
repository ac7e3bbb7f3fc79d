// Hashes JSON documents as a Node service does that sorts keys by hand, and says what one took.
// Reads lines `SECONDS<tab>FILE`, answers `DIGEST WALL CPU`, both in seconds for one document.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const sorted = (value) => {
    if (Array.isArray(value)) return `[${value.map(sorted).join()}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    const members = Object.keys(value).sort().map((key) => `"${key}":${sorted(value[key])}`);
    return `{${members.join()}}`;
};

const digest = (body) => createHash("sha256").update(sorted(JSON.parse(body))).digest("hex");

const cpuSeconds = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
};

for await (const line of createInterface({ input: process.stdin })) {
    const [seconds, path] = line.split("\t");
    const body = readFileSync(path);
    const begun = performance.now();
    const before = cpuSeconds();
    let count = 0;
    let found;
    do {
        found = digest(body);
        count += 1;
    } while (performance.now() - begun < Number(seconds) * 1000);
    const wall = (performance.now() - begun) / 1000;
    console.log(found, wall / count, (cpuSeconds() - before) / count);
}
