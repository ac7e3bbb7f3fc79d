"""The services of compose.yaml, started without containers: same commands, variables, secrets and roles, on a private server.

`nodes.py PROGRAM`, with HAPAX_TEST_POSTGRES. What a container adds (its user, its file system, its network) is not tried.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml
from found import HERE, Found

PROGRAM = Path(sys.argv[1]).resolve()
ADMIN = os.environ["HAPAX_TEST_POSTGRES"]
START_S = 60
NODES = ["node-1", "node-2", "node-3"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class App(BaseHTTPRequestHandler):
    """Stands for the service behind the proxy. Not a node: on one database it would know the proxy's keys as its own."""

    asked = 0

    def do_POST(self) -> None:
        App.asked += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Says nothing: the check counts."""


class Stage:
    """A folder that stands for what compose.yaml mounts, and the processes that were started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services: dict[str, Any] = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}
        (folder / "bin").mkdir()
        (folder / "bin/hapax").symlink_to(PROGRAM)
        shutil.copy(HERE / "make-secrets", folder)
        subprocess.run([folder / "make-secrets"], check=True, capture_output=True, timeout=20)
        self.secrets = folder / "secrets"
        address = ADMIN.rpartition("@")[2].partition("/")[0]
        for name in ("owner_url", "login_url"):
            url = (self.secrets / name).read_text().replace("postgres:5432", address)
            (self.secrets / name).unlink()
            (self.secrets / name).write_text(url)
        self.app = HTTPServer(("127.0.0.1", 0), App)
        threading.Thread(target=self.app.serve_forever, daemon=True).start()
        # compose.yaml mounts one of the URLs under this name.
        shutil.copy(self.secrets / "login_url", self.secrets / "database_url")

    def roles(self) -> None:
        """As first-start.sh does."""
        passwords = {f"{name.upper()}_PASSWORD": (self.secrets / f"{name}_password").read_text() for name in ("owner", "login")}
        command = ["psql", "--no-psqlrc", "--quiet", ADMIN, "--file", str(HERE / "postgres/roles.sql")]
        subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, **passwords})

    def start(self, name: str) -> subprocess.Popen[bytes]:
        service = self.services[name]
        self.ports[name] = free_port()
        env = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HAPAX_DATA": str(self.folder / name)}
        for variable, value in service["environment"].items():
            value = value.replace("/run/secrets", str(self.secrets)).replace("/etc/hapax/hapax.toml", str(HERE / "hapax.toml"))
            env[variable] = value
        env["HAPAX_LISTEN"] = f"127.0.0.1:{self.ports[name]}"
        if name == "proxy":
            self.ports["admin"] = free_port()
            env["HAPAX_PROXY_ADMIN_LISTEN"] = f"127.0.0.1:{self.ports['admin']}"
            env["HAPAX_PROXY_UPSTREAM"] = f"http://127.0.0.1:{self.app.server_port}"
        with (self.folder / f"{name}.log").open("ab") as log:
            command = ["bash", str(HERE / "docker/entrypoint"), *service["command"]]
            self.running[name] = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)
        return self.running[name]

    def is_ready(self, port: str) -> bool:
        """As the health check of the image asks, until it says yes."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            address = f"127.0.0.1:{self.ports[port]}"
            if subprocess.run([HERE / "docker/ready", address], capture_output=True, timeout=20, check=False).returncode == 0:
                return True
            time.sleep(0.2)
        return False

    def echo(self, name: str, key: str) -> tuple[int, bool]:
        """Sends one request under a key; the status, and whether the answer is a replay."""
        token = (self.secrets / "token").read_text()
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key, "content-type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[name]}/v1/echo", b'{"amount":10}', headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers.get("idempotency-replayed") == "true"
        except urllib.error.HTTPError as refused:
            return refused.code, False

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self.app.shutdown()


def check(found: Found, stage: Stage) -> None:
    stage.roles()
    found.holds(stage.start("migrate").wait(120) == 0, f"`migrate` ends well: {stage.log('migrate')[-300:]}")
    for name in [*NODES, "worker"]:
        stage.start(name)
    for name in NODES:
        found.holds(stage.is_ready(name), f"{name} gets ready: {stage.log(name)[-300:]}")
    stage.start("proxy")
    found.holds(stage.is_ready("admin"), f"the proxy gets ready: {stage.log('proxy')[-300:]}")
    found.holds(stage.echo("node-1", "a") == (200, False), "the first node runs a request")
    found.holds(stage.echo("node-2", "a") == (200, True), "the second node replays it")
    found.holds(stage.echo("proxy", "b") == (200, False), "the proxy passes a request on")
    found.holds(stage.echo("proxy", "b") == (200, True) and App.asked == 1, "the proxy replays it, and asks nobody")
    stage.running["node-1"].send_signal(signal.SIGKILL)
    stage.running["node-1"].wait()
    found.holds(stage.echo("node-3", "a") == (200, True), "what a killed node recorded is replayed by another")
    stage.start("node-1")
    found.holds(stage.is_ready("node-1"), "a killed node starts again")
    found.holds(stage.running["worker"].poll() is None, f"the worker works: {stage.log('worker')[-300:]}")
    for name in [*NODES, "worker"]:
        token = (stage.secrets / "token").read_text()
        said = stage.log(name)
        found.holds(token not in said and not re.search(r"hpx_[0-9a-f]{32}_", said), f"{name} prints no token")
        found.holds("means nothing here" not in said, f"{name} knows all of its variables")
    for name in ["proxy", *NODES, "worker"]:
        stage.running[name].terminate()
    for name in ["proxy", *NODES, "worker"]:
        found.holds(stage.running[name].wait(60) == 0, f"{name} stops well: {stage.log(name)[-300:]}")


def main() -> None:
    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            check(found, stage)
        finally:
            stage.stop()
    found.end()


main()
