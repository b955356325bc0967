// Tiles of a log: C2SP tlog-tiles.

import { equalBytes } from "verify-page/bytes.js";
import type { Checkpoint } from "verify-page/tree.js";
import { Frontier } from "./frontier";
import { Refuted } from "./refuted";

export const TILE_WIDTH = 256;
const TILE_HEIGHT = 8;
const HASH_BYTES = 32;

/** Read a file of the log, such as `tile/0/x001/067`. */
export type ReadFile = (path: string) => Promise<Uint8Array>;

/** Return where a tile is, or an entry bundle: `tile/1/x001/234.p/7`. */
export function tilePath(level: number | "entries", index: number, width: number): string {
  const groups = [String(index % 1000).padStart(3, "0")];
  for (let rest = Math.floor(index / 1000); rest; rest = Math.floor(rest / 1000)) {
    groups.unshift(`x${String(rest % 1000).padStart(3, "0")}`);
  }
  const partial = width < TILE_WIDTH ? `.p/${width}` : "";
  return `tile/${level}/${groups.join("/")}${partial}`;
}

/** Return how many hashes or entries of a tile there are in a tree with `count` at its level. */
function widthOf(index: number, count: number): number {
  return Math.min(TILE_WIDTH, count - index * TILE_WIDTH);
}

/** Read the entries under a tile of level 0, of a tree of this size. */
export async function readEntryBundle(
  read: ReadFile,
  index: number,
  size: number,
): Promise<Uint8Array[]> {
  const width = widthOf(index, size);
  const path = tilePath("entries", index, width);
  const data = await read(path);
  const entries: Uint8Array[] = [];
  let at = 0;
  while (at + 2 <= data.length && entries.length < width) {
    const start = at + 2;
    at = start + (((data[at] ?? 0) << 8) | (data[at + 1] ?? 0));
    entries.push(data.subarray(start, at));
  }
  if (at !== data.length || entries.length !== width) {
    throw new Refuted("tile", `${path} does not hold ${width} entries.`);
  }
  return entries;
}

/**
 * The hashes of a signed tree, of which no more is read than is asked for.
 *
 * A partial tile is the last of its level, and the root is computed from all partial tiles. A full
 * tile has its own root in the tile above it. So every hash that is returned leads to the root.
 */
export class TileTree {
  readonly #read: ReadFile;
  readonly #size: number;
  readonly #tiles = new Map<string, Promise<Uint8Array[]>>();

  private constructor(read: ReadFile, size: number) {
    this.#read = read;
    this.#size = size;
  }

  /** Open the tree of a checkpoint. Throws `Refuted` if the tiles do not give its root. */
  static async open(read: ReadFile, { size, root }: Checkpoint): Promise<TileTree> {
    const tree = new TileTree(read, Number(size));
    if (!equalBytes(await tree.rootAt(Number(size)), root)) {
      throw new Refuted("tile", "The hashes at the end of the tree do not give the signed root.");
    }
    return tree;
  }

  async leaf(index: number): Promise<Uint8Array> {
    const tile = await this.#tile(0, Math.floor(index / TILE_WIDTH));
    return hashAt(tile, index % TILE_WIDTH);
  }

  /** Return the root that the tree had when it had this many entries. */
  async rootAt(size: number): Promise<Uint8Array> {
    const frontier = new Frontier();
    for (let level = countLevels(size) - 1; level >= 0; level--) {
      const count = Math.floor(size / TILE_WIDTH ** level);
      if (count % TILE_WIDTH === 0) continue; // all of them are in the level above
      const tile = await this.#tile(level, Math.floor(count / TILE_WIDTH));
      for (const hash of tile.slice(0, count % TILE_WIDTH)) frontier.add(hash, level * TILE_HEIGHT);
    }
    return frontier.root();
  }

  #tile(level: number, index: number): Promise<Uint8Array[]> {
    const name = `${level}/${index}`;
    const known = this.#tiles.get(name) ?? this.#readTile(level, index);
    this.#tiles.set(name, known);
    return known;
  }

  async #readTile(level: number, index: number): Promise<Uint8Array[]> {
    const width = widthOf(index, Math.floor(this.#size / TILE_WIDTH ** level));
    const path = tilePath(level, index, width);
    const data = await this.#read(path);
    if (data.length !== width * HASH_BYTES) {
      throw new Refuted("tile", `${path} does not hold ${width} hashes.`);
    }
    const hashes = Array.from({ length: width }, (_, at) =>
      data.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES),
    );
    if (width === TILE_WIDTH) {
      const above = await this.#tile(level + 1, Math.floor(index / TILE_WIDTH));
      if (!equalBytes(rootOf(hashes), hashAt(above, index % TILE_WIDTH))) {
        throw new Refuted("tile", `${path} is not the tile of the signed tree.`);
      }
    }
    return hashes;
  }
}

function countLevels(size: number): number {
  let levels = 0;
  for (let count = size; count >= 1; count = Math.floor(count / TILE_WIDTH)) levels++;
  return levels;
}

export function rootOf(hashes: Iterable<Uint8Array>): Uint8Array {
  const frontier = new Frontier();
  for (const hash of hashes) frontier.add(hash);
  return frontier.root();
}

function hashAt(tile: Uint8Array[], at: number): Uint8Array {
  const hash = tile[at];
  if (!hash) throw new Error(`The tile has no hash ${at}.`);
  return hash;
}
