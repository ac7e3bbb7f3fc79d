#!/usr/bin/env python3
"""A gateway to try intents on: it does each action once per key, and prints what it did.

gateway.py [HOST:PORT]
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

done = {}


class Gateway(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        key = call["idempotency_key"]
        if key not in done:
            done[key] = {"id": f"task-{len(done) + 1}"}
            print(f"{self.path} {json.dumps(call['payload'])}", flush=True)
        body = json.dumps(done[key]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8077").rsplit(":", 1)
    gateway = ThreadingHTTPServer((host, int(port)), Gateway)
    print(f"listening on http://{host}:{gateway.server_port}", flush=True)
    gateway.serve_forever()
