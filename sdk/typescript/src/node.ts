// For Node: keys in files, so that a process that died asks again under the same key.

import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

import { randomHex } from "./uuid.js";
import type { KeyStore } from "./with-key.js";

/** Keeps each key in a file of its own. A key that was saved survives a crash and a loss of power. */
export class FileKeys implements KeyStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async load(name: string): Promise<string | null> {
    try {
      return (await readFile(this.#path(name), "utf8")).trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw error;
    }
  }

  async save(name: string, key: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#path(name);
    const draft = `${path}.${randomHex()}.new`;
    try {
      await written(draft, `${key}\n`);
      await rename(draft, path);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
    await this.#syncFolder();
  }

  async clear(name: string): Promise<void> {
    await rm(this.#path(name), { force: true });
  }

  /** A name may hold anything, so the file is named by its hash. */
  #path(name: string): string {
    return join(this.#folder, `${createHash("sha256").update(name).digest("hex")}.key`);
  }

  /** The rename itself must survive a loss of power. Windows knows no such thing as syncing a folder. */
  async #syncFolder(): Promise<void> {
    if (process.platform === "win32") return;
    const folder = await open(this.#folder, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}

async function written(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}
