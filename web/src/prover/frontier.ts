// Roots of Merkle trees (RFC 6962), from hashes that come from left to right.

import { EMPTY_ROOT, hashNode } from "verify-page/tree.js";

/** The whole subtrees of what was added so far, the largest first. */
export class Frontier {
  #subtrees: { hash: Uint8Array; height: number }[] = [];

  /** Add the hash of a whole subtree of 2^height entries. Heights must not rise. */
  add(hash: Uint8Array, height = 0): void {
    let added = { hash, height };
    for (let last = this.#subtrees.at(-1); last?.height === added.height; ) {
      added = { hash: hashNode(last.hash, added.hash), height: added.height + 1 };
      this.#subtrees.pop();
      last = this.#subtrees.at(-1);
    }
    this.#subtrees.push(added);
  }

  root(): Uint8Array {
    const hashes = this.#subtrees.map(({ hash }) => hash);
    return hashes.length ? hashes.reduceRight((right, left) => hashNode(left, right)) : EMPTY_ROOT;
  }
}
