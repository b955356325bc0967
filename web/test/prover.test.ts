import { toHex } from "verify-page/bytes.js";
import { hashLeaf } from "verify-page/tree.js";
import { describe, expect, test } from "vitest";
import { explainTiles, listKeys, Prover, type Question, type SeenTree } from "../src/prover/check";
import { Refuted, Unanswered } from "../src/prover/refuted";
import { TileTree, tilePath } from "../src/prover/tiles";
import { FakeLog, flip } from "./fakeLog";

function question(log: FakeLog, seenSize = 0): Question {
  const seen: SeenTree | null = seenSize
    ? { size: seenSize, root: toHex(log.root(seenSize)), at: 0 }
    : null;
  return { origin: log.origin, policy: log.policy, seen, run: "a", items: log.items("a") };
}

async function kindOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "proven";
  } catch (error) {
    return error instanceof Refuted ? error.kind : String(error);
  }
}

const tree = (log: FakeLog, size = log.entries.length) => ({
  origin: log.origin,
  size: BigInt(size),
  root: log.root(size),
});

describe("hash tiles", () => {
  test("have the paths of C2SP tlog-tiles", () => {
    expect(tilePath(0, 1234067, 256)).toBe("tile/0/x001/x234/067");
    expect(tilePath(1, 0, 7)).toBe("tile/1/000.p/7");
    expect(tilePath("entries", 1000, 256)).toBe("tile/entries/x001/000");
  });

  // Around the ends of tiles, and anywhere; a failure names the size.
  const random = Array.from({ length: 12 }, () => 1 + Math.floor(Math.random() * 1100));
  const sizes = [1, 2, 255, 256, 257, 511, 512, 513, 768, ...random];

  test.each(sizes)("give the leaves and the earlier roots of a tree of %i", async (size) => {
    const log = new FakeLog(size);
    const opened = await TileTree.open(log.reader(), tree(log));
    const leaves = log.entries.map(hashLeaf);
    for (let index = 0; index < size; index += 1 + Math.floor(size / 40)) {
      expect(await opened.leaf(index)).toEqual(leaves[index]);
    }
    const anywhere = Array.from({ length: 5 }, () => 1 + Math.floor(Math.random() * size));
    const earlier = [1, 255, 256, 257, 512, size - 1, size, ...anywhere];
    for (const at of earlier.filter((count) => count > 0 && count <= size)) {
      expect(await opened.rootAt(at), `at ${at}`).toEqual(log.root(at));
    }
  });

  test.each(["tile/0/000", "tile/0/002.p/88", "tile/1/000.p/2"])(
    "a bit of %s shows",
    async (path) => {
      const log = new FakeLog(600);
      const prover = new Prover(
        log.reader((asked, data) => (asked === path ? flip(data, 40) : data)),
        0,
      );
      expect(await kindOf(prover.prove(question(log)))).toBe("tile");
      expect(log.asked).toContain(path);
    },
  );
});

// All entries are read, or hashes alone.
describe.each([
  ["read whole", 200_000],
  ["read by hashes", 0],
])("a log %s", (_, maxRead) => {
  test.each([1, 3, 256, 600, 1000])("of %i entries is proven", async (size) => {
    const log = new FakeLog(size);
    const proof = await new Prover(log.reader(), maxRead).prove(question(log, Math.ceil(size / 2)));
    expect(proof.proven).toEqual(log.items("a").map(({ index }) => index));
    expect(proof).toMatchObject({ size, root: toHex(log.root()), isWhole: maxRead > 0 });
    expect(proof).toMatchObject({ witnesses: 1, hasQuorum: true });
    expect(proof.cosignatures).toMatchObject([{ time: 1_800_000_000, isLocal: true }]);
  });

  test("entries behind its signed end are not proven", async () => {
    const log = new FakeLog(20);
    const asked = question(log);
    const read = log.reader((path, data) => (path === "checkpoint" ? log.checkpoint(10) : data));
    const proof = await new Prover(read, maxRead).prove(asked);
    expect(proof.proven).toEqual([0, 3, 6, 9]);
    expect(asked.items.length - proof.proven.length).toBe(3);
  });

  test("with an entry that the page shows otherwise is refuted", async () => {
    const log = new FakeLog(300);
    const shown = question(log);
    const [first, second, ...rest] = shown.items;
    if (!first || !second) throw new Error("too few");
    const forms = [
      { ...second, entry: { ...second.entry, facts: { text: "paid" } } },
      { ...second, id: first.id },
      { ...first, index: second.index },
      { ...second, entry: { ...second.entry, run: "b" } },
      { ...second, index: -1 },
      { ...second, index: 1.5 },
    ];
    for (const form of forms) {
      const asked = { ...shown, items: [first, form, ...rest] };
      expect(await kindOf(new Prover(log.reader(), maxRead).prove(asked))).toBe("entry");
    }
  });

  test("an entry with a name that looks like a number is no alteration", async () => {
    const log = new FakeLog(3);
    const text = `{"v":"forum/entry/1","log":"${log.origin}","run":"a","facts":{"b":1,"2":1}}`;
    log.entries[0] = new TextEncoder().encode(text);
    expect(await kindOf(new Prover(log.reader(), maxRead).prove(question(log)))).toBe("proven");
  });

  test("with another checkpoint than was signed is refuted", async () => {
    const log = new FakeLog(300);
    const text = new TextDecoder().decode(log.checkpoint());
    const other = new FakeLog(300);
    const forms = [
      text.replace("\n300\n", "\n301\n"),
      text.replace("\n300\n", "\n299\n"),
      new TextDecoder().decode(other.checkpoint()), // by another key of the same name
      text.replaceAll(/^— test.*\n/gm, ""), // by the witness alone
      "",
      "<!doctype html>",
    ];
    for (const form of forms) {
      const read = log.reader((path, data) =>
        path === "checkpoint" ? new TextEncoder().encode(form) : data,
      );
      expect(await kindOf(new Prover(read, maxRead).prove(question(log)))).toBe("checkpoint");
    }
    const note = log.checkpoint();
    const witnessed = log.reader((path, data) =>
      path === "checkpoint" ? flip(note, note.length - 10) : data,
    );
    expect(await kindOf(new Prover(witnessed, maxRead).prove(question(log)))).toBe("checkpoint");
  });

  test("of another name than the pinned one is refuted", async () => {
    const log = new FakeLog(3);
    const asked = { ...question(log), origin: "other.example" };
    expect(await kindOf(new Prover(log.reader(), maxRead).prove(asked))).toBe("checkpoint");
  });

  test.each([300, 700])("that continues another tree of %i is refuted", async (size) => {
    const log = new FakeLog(700);
    const asked = question(log);
    const seen = { size, root: toHex(log.root(size - 1)), at: 0 };
    const prover = new Prover(log.reader(), maxRead);
    expect(await kindOf(prover.prove({ ...asked, seen }))).toBe("history");
  });

  test("that is shorter than remembered is refuted", async () => {
    const log = new FakeLog(300);
    const asked = { ...question(log), seen: { size: 301, root: "00", at: 0 } };
    expect(await kindOf(new Prover(log.reader(), maxRead).prove(asked))).toBe("shorter");
  });

  test("that cannot be read proves nothing", async () => {
    const log = new FakeLog(300);
    const fails = async (path: string) => {
      if (path !== "checkpoint") throw new Unanswered("status 403");
      return log.checkpoint();
    };
    expect(await kindOf(new Prover(fails, maxRead).prove(question(log)))).toContain("status 403");
    const asked = { ...question(log), policy: "quorum\n" };
    expect(await kindOf(new Prover(log.reader(), maxRead).prove(asked))).toContain("trust file");
  });

  test("grows, and is proven again", async () => {
    const log = new FakeLog(300);
    const prover = new Prover(log.reader(), maxRead);
    await prover.prove(question(log));
    const before = log.asked.length;
    log.append(500);
    const proof = await prover.prove(question(log, 300));
    expect(proof.size).toBe(800);
    if (maxRead) {
      const again = log.asked.slice(before);
      expect(again).toEqual([
        "checkpoint",
        ...[1, 2].map((n) => `tile/entries/00${n}`),
        "tile/entries/003.p/32",
      ]);
    }
  });
});

describe("a log read whole", () => {
  test("with another history than was read before is told from an altered tile", async () => {
    const log = new FakeLog(300);
    // Like a browser, which keeps full tiles.
    const kept = new Map<string, Uint8Array>();
    const fresh = log.reader();
    const caching = async (path: string) => {
      const data = kept.get(path) ?? (await fresh(path));
      if (/\d{3}$/.test(path)) kept.set(path, data);
      return data;
    };
    const prover = new Prover(caching);
    await prover.prove(question(log));
    const asked = question(log, 300);
    log.entries[5] = log.makeEntry(5, "paid");
    log.append(10);
    const again = () => new Prover(fresh).prove(asked);
    expect(await kindOf(explainTiles(() => prover.prove(asked), again))).toBe("history");
  });

  test("stays refuted if the tile is a good one later", async () => {
    const log = new FakeLog(300);
    const altered = log.reader((path, data) => (path.includes("000") ? flip(data, 300) : data));
    const first = () => new Prover(altered).prove(question(log));
    const again = () => new Prover(log.reader()).prove(question(log));
    expect(await kindOf(explainTiles(first, again))).toBe("tile");
  });

  test.each([0, 300, 20_000])("shows a bit that changed at byte %i", async (at) => {
    const log = new FakeLog(300);
    const read = log.reader((path, data) => (path === "tile/entries/000" ? flip(data, at) : data));
    const prover = new Prover(read);
    expect(await kindOf(prover.prove(question(log)))).toBe("tile");
  });

  test("does not build upon what did not lead to the root", async () => {
    const log = new FakeLog(300);
    let isAltered = true;
    const prover = new Prover(
      log.reader((path, data) => {
        return isAltered && path === "tile/entries/000" ? flip(data, 300) : data;
      }),
    );
    expect(await kindOf(prover.prove(question(log)))).toBe("tile");
    isAltered = false;
    expect(await kindOf(prover.prove(question(log)))).toBe("proven");
  });

  test("shows an entry of the run that is left out", async () => {
    const log = new FakeLog(300);
    const asked = question(log);
    const without = asked.items.filter(({ index }) => index !== 30);
    expect(await kindOf(new Prover(log.reader()).prove({ ...asked, items: without }))).toBe(
      "missing",
    );
    const proof = await new Prover(log.reader()).prove({
      ...asked,
      items: asked.items.slice(0, -2),
    });
    expect(proof.newer).toBe(2);
  });
});

describe("a log whose key was rotated", () => {
  test("is proven to a reader who pins an earlier key, by hand-overs that both keys signed", async () => {
    const log = new FakeLog(20);
    const pinned = log.policy;
    log.rotate();
    log.append(5);
    log.rotate();
    log.append(5);
    const asked = { ...question(log), policy: pinned };
    expect(await kindOf(new Prover(log.reader()).prove(asked))).toBe("proven");
    expect(await kindOf(new Prover(log.reader()).prove(question(log)))).toBe("proven");
  });

  test("is refuted if the old key has not signed the hand-over", async () => {
    const log = new FakeLog(20);
    const pinned = log.policy;
    log.rotate(true);
    log.append(5);
    const asked = { ...question(log), policy: pinned };
    expect(await kindOf(new Prover(log.reader()).prove(asked))).toBe("checkpoint");
  });

  test("is not proven by the key that handed it over", async () => {
    const log = new FakeLog(20);
    const [pinned, old] = [log.policy, log.key];
    log.rotate();
    log.append(5);
    log.key = old;
    const asked = { ...question(log), policy: pinned };
    await expect(new Prover(log.reader()).prove(asked)).rejects.toThrow(Unanswered);
  });

  test("is not proven to a reader who pins two keys", async () => {
    const log = new FakeLog(20);
    const [pinned, old] = [log.policy, log.key];
    log.rotate();
    log.key = old;
    const asked = { ...question(log), policy: `${pinned}log ${new FakeLog(1).key.vkey}\n` };
    await expect(new Prover(log.reader()).prove(asked)).rejects.toThrow("several keys");
  });
});

test("the keys of a policy are listed with their ids", () => {
  const log = new FakeLog(0);
  const keys = listKeys(log.policy.trimEnd());
  expect(keys.logs).toEqual([{ name: log.origin, id: log.key.id.toString("hex") }]);
  expect(keys.witnesses).toMatchObject([{ name: log.witness.name, isLocal: true }]);
  expect(() => listKeys("log nonsense\nquorum none\n")).toThrow(Unanswered);
});
