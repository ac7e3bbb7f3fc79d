#!/usr/bin/env python3
"""A shop that knows nothing of idempotency: every POST makes a new order, and takes its time.

upstream.py [HOST:PORT]
"""

import itertools
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

orders = itertools.count(1)


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        wanted = self.rfile.read(length).decode()
        order = next(orders)
        print(f"order {order}: {wanted}", flush=True)
        time.sleep(2)
        self.answer(201, {"order": order})

    def do_GET(self):
        self.answer(200, {"path": self.path, "forwarded": self.headers.get("X-Forwarded-For")})

    def answer(self, status, document):
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
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
