"""Every command, flag, variable and key that deploy/ uses is one that the program has. The program itself is asked."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import yaml
from found import HERE, ROOT, Found

PROGRAM = sys.argv[1]
# Not the program's: it is where scripts find it.
OURS = {"HAPAX_BIN", "HAPAX_TEST_POSTGRES"}


def run(*arguments: str, env: dict[str, str] | None = None) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAPAX_")}
    ended = subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=30, env={**clean, **(env or {})}, check=False
    )
    return ended.stdout


@cache
def flags(command: str) -> frozenset[str]:
    """The flags of a command, such as `token create`; none if there is no such command."""
    text = run(*command.split(), "--help")
    return frozenset(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))


def doctor(env: dict[str, str], *arguments: str) -> str:
    """What `hapax doctor` says of the configuration."""
    with tempfile.TemporaryDirectory() as data:
        text = run("doctor", "--json", "--data", data, "--listen", "127.0.0.1:0", *arguments, env=env)
    return next(item["found"] for item in json.loads(text)["items"] if item["check"] == "config")


def texts() -> Iterator[tuple[str, str]]:
    for path in sorted(HERE.rglob("*")):
        inside = path.relative_to(HERE).parts
        if path.is_file() and inside[0] not in ("secrets", "checks") and "__pycache__" not in inside:
            yield str(path.relative_to(HERE)), path.read_text()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every call of the program: in compose.yaml, in manifests, in units, and in what people are told to type."""
    compose = yaml.safe_load((HERE / "compose.yaml").read_text())
    for name, service in compose["services"].items():
        if service["image"].startswith("hapax:"):
            yield f"compose.yaml {name}", service["command"]
    for path in sorted((HERE / "kubernetes").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            pod: Any = (document or {}).get("spec", {}).get("template")
            for container in pod["spec"]["containers"] if pod else []:
                yield f"{path.name} {document['metadata']['name']}", container["args"]
    for path in sorted((HERE / "systemd").glob("*.service")):
        for line in re.findall(r"^ExecStart=/usr/local/bin/hapax (.+)$", path.read_text(), re.M):
            yield path.name, shlex.split(line)
    known = re.findall(r"^  (\w+) ", run("--help"), re.M)
    spoken = re.compile(rf"\bhapax ((?:{'|'.join(known)})\b[^`|>#\n;&)]*)")
    for name, text in texts():
        for words in spoken.findall(text):
            if "--" in words:
                yield name, words.replace("'", " ").replace('"', " ").split()


def check_commands(found: Found) -> None:
    for where, words in commands():
        command = words[0]
        if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]) and flags(f"{command} {words[1]}") != flags(command):
            command = f"{command} {words[1]}"
        found.holds(flags(command), f"{where}: `hapax {command}` is a command")
        for word in words:
            if word.startswith("--"):
                flag = word.partition("=")[0].rstrip(".,:")
                found.holds(flag in flags(command), f"{where}: `hapax {command}` has the flag {flag}")


def check_variables(found: Found) -> None:
    defaults = tomllib.loads((ROOT / "hapax.default.toml").read_text())
    known = {f"HAPAX_{key.upper()}" for key in defaults} | {f"HAPAX_PROXY_{key.upper()}" for key in defaults["proxy"]}
    listed = re.search(r"^for name in (.*?); do", (HERE / "docker/entrypoint").read_text(), re.M | re.S)
    secrets = set(listed.group(1).replace("\\\n", " ").split()) if listed else set()
    found.holds(secrets, "docker/entrypoint lists the secrets that it reads from files")
    used: dict[str, str] = {}
    for name, text in texts():
        for variable in re.findall(r"\bHAPAX_[A-Z][A-Z0-9_]*[A-Z0-9]\b", text):
            used.setdefault(variable, name)
    for variable, where in sorted(used.items()):
        if variable.endswith("_FILE") and variable not in known:
            found.holds(variable.removesuffix("_FILE") in secrets, f"{where}: docker/entrypoint reads {variable}")
        elif variable not in known and variable not in OURS:
            said = doctor({variable: "x"})
            found.holds(variable not in said, f"{where}: {variable} is a variable of the program, which says: {said}")
        else:
            found.holds(True, variable)


def check_files(found: Found) -> None:
    """Config files are taken as they are."""
    bodies = {"hapax.toml": (HERE / "hapax.toml").read_text()}
    for document in yaml.safe_load_all((HERE / "kubernetes/base/config.yaml").read_text()):
        bodies["kubernetes/base/config.yaml"] = document["data"]["hapax.toml"]
    for name, body in bodies.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "hapax.toml"
            path.write_text(body)
            said = doctor({}, "--config", str(path))
        found.holds(said == "every key and variable is known", f"{name} is a config file, of which the program says: {said}")
    for name in ("hapax.env", "proxy-example.env"):
        env = dict(re.findall(r"^#?(HAPAX_\w+)=(.+)$", (HERE / "systemd" / name).read_text(), re.M))
        env.pop("HAPAX_CONFIG", None)
        said = doctor(env)
        found.holds(said == "every key and variable is known", f"systemd/{name} is taken, the program says: {said}")


def main() -> None:
    found = Found()
    check_commands(found)
    check_variables(found)
    check_files(found)
    found.end()


main()
