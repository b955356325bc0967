// A log with a key, a witness and tiles, as a server would show it.

import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { concatBytes, toHex, writeUtf8 } from "verify-page/bytes.js";
import { EMPTY_ROOT, hashLeaf, hashNode } from "verify-page/tree.js";
import type { Item } from "../src/model/entries";
import { TILE_WIDTH } from "../src/prover/tiles";

interface SigningKey {
  name: string;
  vkey: string;
  id: Buffer;
  secret: KeyObject;
}

function makeKey(name: string, algorithm: number): SigningKey {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const point = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  const material = Buffer.concat([Buffer.from([algorithm]), point]);
  const id = createHash("sha256").update(`${name}\n`).update(material).digest().subarray(0, 4);
  const vkey = `${name}+${id.toString("hex")}+${material.toString("base64")}`;
  return { name, vkey, id, secret: privateKey };
}

const base64 = (data: Uint8Array) => Buffer.from(data).toString("base64");

/** The root of a tree by the definition in RFC 6962 section 2.1. */
function defineRoot(leaves: Uint8Array[]): Uint8Array {
  const [first] = leaves;
  if (!first) return EMPTY_ROOT;
  if (leaves.length === 1) return first;
  const left = 2 ** Math.floor(Math.log2(leaves.length - 1));
  return hashNode(defineRoot(leaves.slice(0, left)), defineRoot(leaves.slice(left)));
}

export class FakeLog {
  readonly origin = "test.example/log";
  key = makeKey(this.origin, 1);
  readonly witness = makeKey("forum.local/witness/0a1b2c3d", 4);
  readonly entries: Uint8Array[];
  /** The files that were asked for. */
  readonly asked: string[] = [];

  constructor(count: number) {
    this.entries = Array.from({ length: count }, (_, index) => this.makeEntry(index));
  }

  get policy(): string {
    return `log ${this.key.vkey}\nwitness w ${this.witness.vkey}\nquorum w\n`;
  }

  /** Every third entry belongs to the run `a`, the others to `b`. */
  makeEntry(index: number, text = ""): Uint8Array {
    const run = index % 3 ? "b" : "a";
    const place = { v: "forum/entry/1", log: this.origin, run, n: index };
    return writeUtf8(JSON.stringify({ ...place, facts: { text }, bodies: {} }));
  }

  append(count: number): void {
    for (let added = 0; added < count; added++)
      this.entries.push(this.makeEntry(this.entries.length));
  }

  /** Hand the log over to another key; with `forger`, that key signs in the place of the old. */
  rotate(isForged = false): void {
    const [old, next] = [this.key, makeKey(this.origin, 1)];
    const since = this.entries.length;
    const text = `forum/key.rotate/2\n${this.origin}\n${since}\n${old.vkey}\n${next.vkey}\n`;
    const [signed, proof] = [isForged ? next : old, next].map(({ secret }) =>
      base64(sign(null, Buffer.from(text), secret)),
    );
    const place = { v: "forum/entry/1", log: this.origin, run: "log", strand: "keys", n: 0 };
    const facts = { old: old.vkey, vkey: next.vkey, since, signed, proof };
    const entry = { ...place, kind: "key.rotate/2", facts, bodies: {} };
    this.entries.push(writeUtf8(JSON.stringify(entry)));
    this.key = next;
  }

  root(size = this.entries.length): Uint8Array {
    return defineRoot(this.entries.slice(0, size).map(hashLeaf));
  }

  /** The items of a run as a page shows them. */
  items(run: string): Item[] {
    return this.entries.flatMap((data, index) => {
      const entry = JSON.parse(new TextDecoder().decode(data));
      return entry.run === run ? [{ id: toHex(hashLeaf(data)), index, entry }] : [];
    });
  }

  checkpoint(size = this.entries.length): Uint8Array {
    const text = `${this.origin}\n${size}\n${base64(this.root(size))}\n`;
    const time = Buffer.alloc(8);
    time.writeBigUInt64BE(1_800_000_000n);
    const seen = Buffer.from(`cosignature/v1\ntime 1800000000\n${text}`);
    const signatures = [
      `— ${this.key.name} ${base64(Buffer.concat([this.key.id, sign(null, Buffer.from(text), this.key.secret)]))}`,
      `— ${this.witness.name} ${base64(Buffer.concat([this.witness.id, time, sign(null, seen, this.witness.secret)]))}`,
    ];
    return writeUtf8(`${text}\n${signatures.join("\n")}\n`);
  }

  /** Answer like a server; `alter` changes what it sends. */
  reader(alter: (path: string, data: Uint8Array) => Uint8Array = (_, data) => data) {
    return async (path: string): Promise<Uint8Array> => {
      this.asked.push(path);
      return alter(path, this.#read(path).slice());
    };
  }

  #read(path: string): Uint8Array {
    if (path === "checkpoint") return this.checkpoint();
    const [, level = "", index = "", width = "256"] =
      path.match(/^tile\/(\w+)\/(\d+)(?:\.p\/(\d+))?$/) ?? [];
    const first = Number(index) * TILE_WIDTH;
    if (level === "entries") {
      const entries = this.entries.slice(first, first + Number(width));
      return concatBytes(
        ...entries.flatMap((data) => [[data.length >> 8, data.length & 255], data]),
      );
    }
    const below = TILE_WIDTH ** Number(level);
    const hashes = Array.from({ length: Number(width) }, (_, at) =>
      defineRoot(this.entries.slice((first + at) * below, (first + at + 1) * below).map(hashLeaf)),
    );
    return concatBytes(...hashes);
  }
}

/** Return a copy with one bit changed. */
export function flip(data: Uint8Array, at: number): Uint8Array {
  const altered = data.slice();
  altered[at] = (altered[at] ?? 0) ^ 1;
  return altered;
}
