// The worker: reads the log and checks it beside the page, which stays usable meanwhile.

import { checkServer } from "../api/sameServer";
import type { Session } from "../api/session";
import {
  explainTiles,
  type ListProof,
  listKeys,
  MAX_READ_ENTRIES,
  type Proof,
  Prover,
} from "./check";
import type { Reply, Request, Verdict } from "./messages";
import { Refuted, Unanswered } from "./refuted";
import type { DirectoryPart } from "./runList";

const FETCH_TIMEOUT_MS = 30_000;

let session: Session | null = null;
let isFresh = false;
let prover = makeProver();

function makeProver(): Prover {
  return new Prover(readFile, MAX_READ_ENTRIES, readDirectory, readIndexes);
}

/** Read a file of the log from the server that the page came from. */
function readFile(path: string): Promise<Uint8Array> {
  return read(`/tlog/${path}`, cacheMode(path));
}

async function readDirectory(first: number, limit: number): Promise<DirectoryPart> {
  return readJson(`/api/v1/directory?first=${first}&limit=${limit}`);
}

async function readIndexes(run: string, limit: number): Promise<number[]> {
  const query = new URLSearchParams({ run, limit: String(limit) });
  const { entries } = await readJson(`/api/v1/entries?${query}`);
  return entries.map(({ index }: { index: number }) => index);
}

// biome-ignore lint/suspicious/noExplicitAny: whoever uses a reply checks what it holds
async function readJson(path: string): Promise<any> {
  const data = await read(path, "no-store");
  try {
    return JSON.parse(new TextDecoder().decode(data));
  } catch {
    throw new Unanswered(`The server answered ${path} with something else than JSON.`);
  }
}

async function read(path: string, cache: RequestCache): Promise<Uint8Array> {
  try {
    await checkServer(session?.instance ?? "");
    const response = await fetch(path, {
      headers: { authorization: `Bearer ${session?.key || "none"}` },
      cache,
      signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    });
    if (response.status !== 200) {
      throw new Unanswered(`The server answered ${path} with status ${response.status}.`);
    }
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (error instanceof Unanswered) throw error;
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    throw new Unanswered(
      isLate
        ? `The server did not send ${path} within ${FETCH_TIMEOUT_MS / 1000} seconds.`
        : `The server could not be asked for ${path}.`,
    );
  }
}

function cacheMode(path: string): RequestCache {
  // An old checkpoint would look like a log that has become shorter.
  if (path === "checkpoint") return "no-store";
  return isFresh ? "reload" : "default";
}

async function answer(request: Request): Promise<Reply> {
  if ("keysOf" in request) {
    try {
      return { keys: listKeys(request.keysOf) };
    } catch (error) {
      return { unreadable: messageOf(error) };
    }
  }
  session = request.session;
  isFresh = false;
  const { question } = request;
  const progress = (done: number, total: number) => send({ progress: { done, total } });
  const prove = (): Promise<Proof | ListProof> =>
    "list" in question ? prover.proveList(question, progress) : prover.prove(question, progress);
  const proveFresh = () => {
    isFresh = true;
    prover = makeProver();
    return prove();
  };
  try {
    const proof = await (request.isFresh ? proveFresh() : explainTiles(prove, proveFresh));
    return { verdict: { state: "proven", proof } };
  } catch (error) {
    return { verdict: judge(error) };
  }
}

/** Only a contradiction refutes. Every other error says that nothing was proven. */
function judge(error: unknown): Verdict<never> {
  const reason = messageOf(error);
  return error instanceof Refuted
    ? { state: "refuted", kind: error.kind, reason }
    : { state: "failed", reason };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function send(reply: Reply): void {
  self.postMessage(reply);
}

// One after the other: a check continues what the one before has read.
let last: Promise<void> = Promise.resolve();
self.onmessage = ({ data }: MessageEvent<Request>) => {
  last = last.then(async () => send(await answer(data)));
};
