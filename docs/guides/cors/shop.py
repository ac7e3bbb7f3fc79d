#!/usr/bin/env python3
"""A shop that pages on https://shop.example may call: it answers their preflights, and knows nothing of idempotency.

shop.py [HOST:PORT]
"""

import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORIGIN = "https://shop.example"
EXPOSED = (
    "Idempotency-Replayed, Idempotency-Expires, X-Idempotency-Replay, X-Idempotency-Conflict, "
    "X-Idempotency-Expired, X-Trace-Id, Retry-After"
)
orders = itertools.count(1)


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_OPTIONS(self):
        self.send_response(204)
        self.send_header("Access-Control-Allow-Origin", ORIGIN)
        self.send_header("Access-Control-Allow-Methods", "GET, POST")
        self.send_header("Access-Control-Allow-Headers", "Content-Type, Idempotency-Key")
        self.send_header("Access-Control-Max-Age", "600")
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps({"order": next(orders)}).encode() + b"\n"
        self.send_response(201)
        self.send_header("Access-Control-Allow-Origin", ORIGIN)
        self.send_header("Access-Control-Expose-Headers", EXPOSED)
        self.send_header("Vary", "Origin")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:3000").rsplit(":", 1)
    shop = ThreadingHTTPServer((host, int(port)), Shop)
    print(f"listening on http://{host}:{shop.server_port}", flush=True)
    shop.serve_forever()
