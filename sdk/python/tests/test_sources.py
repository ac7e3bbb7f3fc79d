"""What is made from something else is up to date, and the texts that people run do run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from .server import REPOSITORY, Server

HERE = Path(__file__).resolve().parents[1]


def run(*command: str, **env: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def first_example() -> str:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    match = re.search(r"## First example\n+```python\n(.*?)```\n+It prints\n+```text\n(.*?)```", text, re.DOTALL)
    assert match
    return match.group(1)


def test_the_sync_side_is_made_from_the_async_side() -> None:
    run(sys.executable, str(HERE / "tools" / "make_sync"), "--check")


def test_the_first_example_of_the_readme_prints_what_it_says(server: Server) -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    printed = run(sys.executable, "-c", first_example(), HAPAX_URL=server.url, HAPAX_TOKEN=server.token)
    assert f"```text\n{printed}```" in text


def test_the_wheel_runs_the_first_example_in_a_fresh_environment(server: Server) -> None:
    fresh = os.environ.get("HAPAX_WHEEL_PYTHON")
    assert fresh, "HAPAX_WHEEL_PYTHON is not set; sdk/python/check builds the wheel, installs it and sets it"
    # Without the sources on its path: what it imports comes from the wheel.
    printed = run(fresh, "-I", "-c", first_example(), HAPAX_URL=server.url, HAPAX_TOKEN=server.token)
    assert printed.startswith("200 False True True")
    assert "site-packages" in run(fresh, "-I", "-c", "import hapax; print(hapax.__file__)")
    typed = "import hapax, pathlib; print((pathlib.Path(hapax.__file__).parent / 'py.typed').exists())"
    assert run(fresh, "-I", "-c", typed) == "True\n"


def test_the_example_client_runs_and_pays_once(server: Server, tmp_path: Path) -> None:
    script = REPOSITORY / "examples" / "python-client" / "client.py"
    env = {"HAPAX_URL": server.url, "HAPAX_TOKEN": server.token}
    first = run(sys.executable, str(script), "--keys", str(tmp_path), **env)
    assert "paid: 200, replayed: False" in first
    assert "the answer got lost, sent again: 200, replayed: True" in first
    assert "another amount under the same key: 409 amount: '1000' → '9900'" in first
    assert "3 letters sent, each once" in first
    assert list(tmp_path.iterdir()) == []
    assert "3 letters sent, each once" in run(sys.executable, str(script), "--keys", str(tmp_path), **env)


def test_no_word_newer_than_python_3_9_is_used_at_run_time() -> None:
    for source in sorted((HERE / "src").rglob("*.py")):
        ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 9))
