// Keys in localStorage, or in anything that looks like it: a page that was reloaded asks again under the same key.

import type { KeyStore } from "./with-key.js";

/** The part of `localStorage` that is used. */
export interface StorageLike {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}

/** Keeps keys in web storage under a prefix. A storage that is full or forbidden throws, and then nothing is sent. */
export class WebStorageKeys implements KeyStore {
  readonly #storage: StorageLike;
  readonly #prefix: string;

  constructor(storage: StorageLike, prefix = "hapax:") {
    this.#storage = storage;
    this.#prefix = prefix;
  }

  load(name: string): string | null {
    return this.#storage.getItem(this.#prefix + name);
  }

  save(name: string, key: string): void {
    this.#storage.setItem(this.#prefix + name, key);
  }

  clear(name: string): void {
    this.#storage.removeItem(this.#prefix + name);
  }
}
