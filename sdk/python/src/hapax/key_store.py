"""Where a key is kept before it is first sent, so that a process that dies sends the same one again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Optional, Protocol, Union

_FILE_BYTES_MAX = 64 * 1024


class KeyStore(Protocol):
    """Keeps one key per name. `save` must not return before the key survives a crash."""

    def load(self, name: str) -> Optional[str]: ...

    def save(self, name: str, key: str) -> None: ...

    def clear(self, name: str) -> None: ...


class FileKeyStore:
    """One small file per name in a folder: written beside, synced, then renamed into place."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> Optional[str]:
        """The key kept under this name, or None."""
        try:
            with open(self._path(name), "rb") as file:
                kept = json.loads(file.read(_FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        if kept.get("name") != name or not isinstance(kept.get("key"), str):
            raise ValueError(f"{self._path(name)} holds no key of {name!r}; look at it, then remove it")
        key: str = kept["key"]
        return key

    def save(self, name: str, key: str) -> None:
        """Keeps the key; it is on disk when this returns."""
        descriptor, beside = tempfile.mkstemp(dir=self._folder, prefix=".new-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"name": name, "key": key}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path(name))
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        self._sync_folder()

    def clear(self, name: str) -> None:
        """Forgets the key. Nothing happens if there is none."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return
        self._sync_folder()

    def _path(self, name: str) -> Path:
        # A name may hold anything, and a file name may not.
        return self._folder / (hashlib.sha256(name.encode("utf-8")).hexdigest() + ".json")

    def _sync_folder(self) -> None:
        if os.name != "posix":
            return
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
