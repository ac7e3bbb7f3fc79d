"""compose.yaml and the Dockerfiles beyond their schema: versions, users, ports, secrets, time to stop."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from found import HERE, SHUTDOWN_S, Found

Service = dict[str, Any]
# Its image drops from root to its own user by itself, after it has given it the data folder.
DROPS_BY_ITSELF = {"postgres"}


def seconds(text: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([smh])", text))


def is_pinned(image: str) -> bool:
    """Whether the image has a tag with a whole version: at least a major and a minor number."""
    tag = image.rpartition("/")[2].partition(":")[2]
    return re.match(r"v?\d+\.\d+", tag) is not None


def secrets_made() -> set[str]:
    """What make-secrets makes, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "make-secrets"
        script.write_text((HERE / "make-secrets").read_text())
        for _ in range(2):
            subprocess.run(["bash", script], check=True, capture_output=True, timeout=20)
        files = list((Path(folder) / "secrets").iterdir())
        assert all(file.stat().st_size > 0 for file in files)
        return {file.name for file in files}


def check_service(found: Found, name: str, service: Service, whole: dict[str, Any]) -> None:
    found.holds(is_pinned(service["image"]), f"{name}: {service['image']} has a version")
    found.holds(service.get("read_only") is True, f"{name} has a read-only root")
    found.holds("no-new-privileges:true" in service.get("security_opt", []), f"{name} gains no rights")
    found.holds(service.get("restart") in ("unless-stopped", "no"), f"{name} says when it is started again")
    if name not in DROPS_BY_ITSELF:
        found.holds(service.get("cap_drop") == ["ALL"], f"{name} drops all capabilities")
        is_user = "build" in service or int(service.get("user", "0").partition(":")[0]) > 0
        found.holds(is_user, f"{name} is not root")
    for port in service.get("ports", []):
        found.holds(port.startswith("127.0.0.1:"), f"{name}: {port} is published on loopback only")
    if service["image"].startswith("hapax:"):
        found.holds(seconds(service["stop_grace_period"]) > SHUTDOWN_S, f"{name} has more than shutdown_ms to stop")
    kinds = {"secrets": service.get("secrets", []), "configs": [config["source"] for config in service.get("configs", [])]}
    for kind, names in kinds.items():
        for used in names:
            found.holds(used in whole[kind], f"{name}: {used} is one of the {kind}")
    mounted = {f"/run/secrets/{secret}" for secret in kinds["secrets"]}
    mounted |= {config["target"] for config in service.get("configs", [])}
    for variable, value in service.get("environment", {}).items():
        if variable.endswith("_FILE") or variable == "HAPAX_CONFIG":
            found.holds(value in mounted, f"{name}: {variable} names a file that is mounted")
        elif re.search(r"PASSWORD|TOKEN|KEK|SECRET|DATABASE", variable):
            found.holds(False, f"{name}: {variable} is a secret and is not in a file")


def check_compose(found: Found) -> None:
    whole = yaml.safe_load((HERE / "compose.yaml").read_text())
    services = whole["services"]
    for name, service in services.items():
        check_service(found, name, service, whole)
        for other in service.get("depends_on", {}):
            found.holds(other in services, f"{name} waits for {other}, which is there")
    for name, config in whole["configs"].items():
        found.holds((HERE / config["file"]).is_file(), f"the file of the config {name} is there")
    made = secrets_made()
    for name, secret in whole["secrets"].items():
        file = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", secret["file"]).rpartition("/")[2]
        found.holds(file in made, f"make-secrets makes the secret {name}")
    for instead in re.findall(r"NODE_DATABASE=(\w+)", (HERE / "compose.yaml").read_text() + (HERE / "README.md").read_text()):
        found.holds(instead in made, f"make-secrets makes {instead}")


def check_dockerfile(found: Found, path: Path) -> None:
    text = path.read_text()
    images = re.findall(r"^FROM (\S+)", text, re.M)
    found.holds(images and all(is_pinned(image) for image in images), f"{path.name}: {images} have versions")
    users = re.findall(r"^USER (\S+)", text, re.M)
    found.holds(users and users[-1] not in ("0", "root"), f"{path.name} does not end as root")
    context = HERE.parent if path.name == "Dockerfile" else path.parent
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M):
        for source in line.split()[:-1]:
            found.holds((context / source).exists(), f"{path.name}: {source} is there to be copied")


def check_entrypoint(found: Found) -> None:
    """Secrets get from files to the program, and a wrong one stops the start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Stands for the program: it says what it was started with.
        (folder / "hapax").write_text('#!/bin/sh\necho "$@"\nenv\n')
        (folder / "hapax").chmod(0o755)
        (folder / "token").write_text("from a file\n")
        usual = {"PATH": f"{folder}:/usr/bin:/bin"}

        def start(**env: str) -> subprocess.CompletedProcess[str]:
            words = ["bash", str(HERE / "docker/entrypoint"), "serve", "--no-worker"]
            return subprocess.run(words, env={**usual, **env}, capture_output=True, text=True, timeout=20, check=False)

        lines = start(HAPAX_TOKEN_FILE=f"{folder}/token", HAPAX_LISTEN="[::]:1").stdout.splitlines()
        found.holds("serve --no-worker" in lines, "the entrypoint passes arguments on")
        found.holds("HAPAX_TOKEN=from a file" in lines, "the entrypoint reads a secret from its file")
        found.holds("HAPAX_LISTEN=[::]:1" in lines, "the entrypoint leaves other variables alone")
        found.holds(not any("_FILE=" in line for line in lines), "the program sees no variable that it does not know")
        found.holds(start().returncode == 0, "the entrypoint needs no secret")
        both = start(HAPAX_TOKEN_FILE=f"{folder}/token", HAPAX_TOKEN="x")
        found.holds(both.returncode == 2 and "keep one" in both.stderr, "a secret that is given twice is refused")
        missing = start(HAPAX_KEK_FILE=f"{folder}/gone")
        found.holds(missing.returncode == 2 and "mount it" in missing.stderr, "a secret whose file is missing stops the start")


def main() -> None:
    found = Found()
    check_compose(found)
    check_entrypoint(found)
    for path in [HERE / "Dockerfile", HERE / "postgres" / "pgbouncer.Dockerfile"]:
        check_dockerfile(found, path)
    found.end()


main()
