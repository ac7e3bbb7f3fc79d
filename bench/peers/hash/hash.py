"""Hashes JSON documents as a Python service does, and says what one took.

Reads lines `SECONDS<tab>FILE`, answers `DIGEST WALL CPU`, both in seconds for one document.
"""

import hashlib
import json
import sys
import time


def digest(body: bytes) -> str:
    text = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


for line in sys.stdin:
    seconds, path = line.rstrip("\n").split("\t")
    with open(path, "rb") as file:
        body = file.read()
    count = 0
    cpu, begun = time.process_time(), time.perf_counter()
    while count == 0 or time.perf_counter() - begun < float(seconds):
        found = digest(body)
        count += 1
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    print(found, wall / count, cpu / count, flush=True)
