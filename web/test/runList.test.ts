import { toHex, writeUtf8 } from "verify-page/bytes.js";
import { hashLeaf } from "verify-page/tree.js";
import { describe, expect, test } from "vitest";
import { describeList, describeProven, describeUnproven, isSameList } from "../src/model/listBadge";
import { type ListProof, MAX_READ_ENTRIES, Prover } from "../src/prover/check";
import { Refuted } from "../src/prover/refuted";
import { compareList, type DirectoryPart } from "../src/prover/runList";
import { FakeLog } from "./fakeLog";

/** A log whose directory has one entry for each pair of runs. */
class ListedLog extends FakeLog {
  readonly names: { index: number; data: Uint8Array; runs: string[] }[] = [];
  readonly runs: string[] = [];

  constructor(count: number, children: string[] = [], since = 0) {
    super(0);
    if (since) this.write("old", "main", 0, "run.open/1", {});
    for (let number = 0; number < count; number += 2) {
      const pair = [`run-${number}`, `run-${number + 1}`];
      for (const run of pair) this.open(run, children.includes(run) ? "run-0" : "");
      this.nameRuns(pair, since);
    }
  }

  open(run: string, parent = ""): void {
    this.write(run, "main", 0, "run.open/1", {});
    this.write(run, "main", 1, "accepted/1", parent ? { parent_run: parent } : {});
  }

  nameRuns(runs: string[], since = 0): void {
    const before = this.names.at(-1);
    const first = this.runs.length;
    const facts = { ...(first ? { first } : since ? { since } : {}), runs };
    const prev = before ? toHex(hashLeaf(before.data)) : "";
    const data = this.write("log", "runs", this.names.length, "runs.open/1", facts, prev);
    this.names.push({ index: this.entries.length - 1, data, runs });
    this.runs.push(...runs);
  }

  write(
    run: string,
    strand: string,
    n: number,
    kind: string,
    facts: object,
    prev = "",
  ): Uint8Array {
    const place = { v: "forum/entry/1", log: this.origin, run, strand, n, prev };
    const data = writeUtf8(JSON.stringify({ ...place, kind, facts, bodies: {} }));
    this.entries.push(data);
    return data;
  }

  /** Answer like a server. */
  directory(first: number, limit: number): DirectoryPart {
    const start = first < 0 ? Math.max(0, this.names.length + first) : first;
    const listed = this.names.slice(start, start + limit);
    const last = listed.at(-1);
    const proof = `c2sp.org/tlog-proof@v1\nindex ${last?.index}\n\n`;
    const entries = listed.map(({ data }) => new TextDecoder().decode(data));
    return { first: start, entries, proof: proof + new TextDecoder().decode(this.checkpoint()) };
  }
}

interface Asked {
  shown?: string[];
  isEnd?: boolean;
  known?: number;
  lie?: (part: DirectoryPart) => DirectoryPart;
  maxRead?: number;
}

function prove(log: ListedLog, asked: Asked = {}): Promise<ListProof> {
  const { shown = [...log.runs].reverse(), isEnd = true, known = 0 } = asked;
  const { lie = (part) => part, maxRead = MAX_READ_ENTRIES } = asked;
  const prover = new Prover(
    log.reader(),
    maxRead,
    async (first, limit) => lie(log.directory(first, limit)),
    async (run) => log.items(run).map(({ index }) => index),
  );
  const { origin, policy } = log;
  return prover.proveList({ origin, policy, seen: null, list: { runs: shown, isEnd }, known });
}

async function kindOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "proven";
  } catch (error) {
    return error instanceof Refuted ? error.kind : String(error);
  }
}

const newestFirst = (log: ListedLog) => [...log.runs].reverse();

describe("a list of runs", () => {
  test.each([MAX_READ_ENTRIES, 1])("is proven whole, with %i entries read", async (maxRead) => {
    const log = new ListedLog(8, ["run-3"]);
    const shown = newestFirst(log).filter((run) => run !== "run-3");
    const proof = await prove(log, { shown, known: 8, maxRead });

    expect(proof).toMatchObject({
      listed: 7,
      from: 1,
      to: 8,
      hidden: ["run-3"],
      newer: 0,
      total: 8,
    });
    expect(describeProven(proof)[0]).toBe(
      `Runs 1 to 8 of the 8 in the directory, none left out, under the checkpoint of size ${proof.size}.`,
    );
    const listing = { runs: shown, isEnd: true, known: 8 };
    const state = { verdict: { state: "proven", proof } as const, listing, progress: null };
    const words = describeList(state, listing, false);
    const isWhole = maxRead > 1;
    expect(words.state).toBe(isWhole ? "ok" : "waiting");
    expect(words.label).toMatch(isWhole ? /^7 runs proven, none left out$/ : /up to entry/);
    // Never proven, whatever was: another list, and one with a filter.
    expect(describeList(state, { ...listing, runs: shown.slice(1) }, false).state).toBe("running");
    expect(describeList(state, listing, true).label).toBe("filtered: not checked");
  });

  test("is proven from any run to the newest", async () => {
    const log = new ListedLog(600);
    for (const count of [1, 3, 50, 599]) {
      const shown = newestFirst(log).slice(0, count);
      const proof = await prove(log, { shown, isEnd: false, known: 600 });
      expect(proof).toMatchObject({ listed: count, from: 601 - count, to: 600, hidden: [] });
    }
  });

  test.each([
    ["the newest", (runs: string[]) => runs.slice(1), "omitted"],
    ["one in the middle", (runs: string[]) => runs.filter((run) => run !== "run-4"), "omitted"],
    ["the oldest", (runs: string[]) => runs.slice(0, -1), "omitted"],
    ["all", () => [], "omitted"],
    ["nothing, and has another order", ([a = "", b = "", ...c]: string[]) => [b, a, ...c], "order"],
    [
      "nothing, and adds one",
      (runs: string[]) => [...runs.slice(0, 3), "x", ...runs.slice(3)],
      "order",
    ],
    ["nothing, and adds one at its end", (runs: string[]) => [...runs, "x"], "order"],
    ["nothing, and shows one twice", ([a = "", ...c]: string[]) => [a, a, ...c], "order"],
  ])("that leaves out %s is refuted", async (_, change, kind) => {
    const log = new ListedLog(8);
    expect(await kindOf(prove(log, { shown: change(newestFirst(log)), known: 8 }))).toBe(kind);
  });

  test("does not have to show runs that opened after it was asked for", async () => {
    const log = new ListedLog(8);
    const shown = newestFirst(log);
    log.open("later");
    log.nameRuns(["later"]);
    const proof = await prove(log, { shown, known: 8 });

    expect(proof).toMatchObject({ newer: 1, listed: 8, to: 8, total: 9 });
    expect(await kindOf(prove(log, { shown, known: 9 }))).toBe("omitted");
  });

  test("may have runs that wait for their place, and none between others", async () => {
    const log = new ListedLog(4);
    const shown = ["waiting", ...newestFirst(log)];

    expect(await prove(log, { shown, known: 4 })).toMatchObject({ unsigned: 1, listed: 4 });
  });

  test("ends with runs from before the directory, which nothing proves", async () => {
    const log = new ListedLog(4, [], 1);
    const proof = await prove(log, { shown: [...newestFirst(log), "old"], known: 4 });

    expect(proof).toMatchObject({ older: 1, listed: 4, hidden: [] });
    expect(describeUnproven(proof).join()).toContain("from before the directory");
    const shown = [...newestFirst(log).slice(0, 3), "old"];
    expect(await kindOf(prove(log, { shown, known: 4 }))).toBe("omitted");
  });
});

describe("a directory", () => {
  const parts = (part: DirectoryPart, entries: string[]) => ({ ...part, entries });
  test.each([
    [
      "a gap",
      (p: DirectoryPart) =>
        parts(
          p,
          p.entries.filter((_, at) => at !== 1),
        ),
    ],
    [
      "another run",
      (p: DirectoryPart) =>
        parts(
          p,
          p.entries.map((e) => e.replace("run-7", "run-9")),
        ),
    ],
    [
      "another log",
      (p: DirectoryPart) =>
        parts(
          p,
          p.entries.map((e) => e.replaceAll("test.", "x.")),
        ),
    ],
  ])("with %s is refuted", async (_, lie) => {
    const kind = await kindOf(prove(new ListedLog(8), { lie }));
    expect(kind).toBe("directory");
  });

  test("whose end is kept back is refuted", async () => {
    const log = new ListedLog(8);
    const short = new ListedLog(6);
    short.key = log.key;
    const shown = newestFirst(short);
    const prover = new Prover(log.reader(), MAX_READ_ENTRIES, async (first, limit) =>
      short.directory(first, limit),
    );
    const { origin, policy } = log;
    const asked = { origin, policy, seen: null, list: { runs: shown, isEnd: true }, known: 0 };

    expect(await kindOf(prover.proveList(asked))).toBe("directory");
  });

  test("that names fewer runs than before is refuted, also in a log that is not read", async () => {
    const log = new ListedLog(6);
    const lie = (part: DirectoryPart) => {
      const entries = part.entries.slice(0, -1);
      const last = log.names[entries.length - 1]?.index;
      return { ...part, entries, proof: part.proof.replace(/index \d+/, `index ${last}`) };
    };
    const shown = ["run-3", "run-2", "run-1", "run-0"];

    const proven = prove(log, { known: 6, lie, shown, maxRead: 1 });

    await expect(proven).rejects.toThrow("it named 6 runs before, and names 4 now");
  });

  test("need not name a run that nobody opened", async () => {
    const log = new ListedLog(2);
    log.write("stray", "side", 0, "note/1", {});

    expect(await prove(log)).toMatchObject({ listed: 2, isWhole: true });
  });

  test("that the server does not give proves nothing", async () => {
    const log = new ListedLog(8);
    const lie = (part: DirectoryPart) => parts(part, part.entries.slice(1));
    expect(await kindOf(prove(log, { lie }))).toContain("something else than the directory");
    const prover = new Prover(log.reader());
    const { origin, policy } = log;
    const asked = { origin, policy, seen: null, list: { runs: [], isEnd: true }, known: 0 };

    await expect(prover.proveList(asked)).rejects.toThrow("cannot be read");
  });
});

test.each([
  [["c", "b", "a"], ["c,b,a"]],
  [[], [""]],
])("what was proven of %j says nothing of %j", (proven, shown) => {
  const [listing, other] = [proven, shown].map((runs) => ({ runs, isEnd: true, known: 0 }));

  expect(isSameList(listing ?? null, other ?? null)).toBe(false);
});

test("a list compares with its names in any order of requests", () => {
  // Two runs waited when the list was made, and were named in another order.
  const runs = ["b", "a", "known"];
  const named = { runs, before: 0, since: 0, index: 9, lastLeaf: new Uint8Array() };
  const shown = { runs: ["a", "b", "known"], isEnd: true };

  expect(compareList(shown, named, 1)).toMatchObject({ listed: 3, newer: 0, hidden: [] });
  expect(() => compareList(shown, named, 3)).toThrow(Refuted);
});
