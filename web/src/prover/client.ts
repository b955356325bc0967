// The page's side of the worker.

import type { Session } from "../api/session";
import type { ListProof, ListQuestion, PolicyKeys, Proof, Question } from "./check";
import type { Reply, Request, Verdict } from "./messages";
import workerUrl from "./worker?worker&url";

/** A worker that says nothing for so long is ended. It waits 30 seconds for the server itself. */
const SILENCE_MS = 60_000;

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL: (url: string) => string };
}

/** The one text that may become a script is the address of the worker. */
const scriptPolicy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy(
  "forum",
  {
    createScriptURL: (url) => {
      if (url !== workerUrl)
        throw new TypeError("Only the worker of the dashboard may be started.");
      return url;
    },
  },
);

interface Pending {
  finish: (reply: Reply) => void;
  fail: (error: Error) => void;
  progress: (done: number, total: number) => void;
}

let worker: Worker | null = null;
let pending: Pending[] = [];
let silence: ReturnType<typeof setTimeout> | undefined;

interface ProveOptions {
  session: Session | null;
  isFresh: boolean;
  progress?: (done: number, total: number) => void;
}

/** Check entries. Whatever goes wrong, the verdict is then not `proven`. */
export function prove(question: Question, options: ProveOptions): Promise<Verdict> {
  return judge(question, options) as Promise<Verdict>;
}

/** Check a list of runs in the same way. */
export function proveList(
  question: ListQuestion,
  options: ProveOptions,
): Promise<Verdict<ListProof>> {
  return judge(question, options) as Promise<Verdict<ListProof>>;
}

async function judge(
  question: Question | ListQuestion,
  options: ProveOptions,
): Promise<Verdict<Proof | ListProof>> {
  const { progress, ...rest } = options;
  try {
    const reply = await ask({ question, ...rest }, progress);
    if ("verdict" in reply) return reply.verdict;
    return { state: "failed", reason: "The worker gave another answer than was asked for." };
  } catch (error) {
    return { state: "failed", reason: (error as Error).message };
  }
}

/** List the keys in the text of a policy. Throws if it is malformed. */
export async function listPolicyKeys(policy: string): Promise<PolicyKeys> {
  const reply = await ask({ keysOf: policy });
  if ("keys" in reply) return reply.keys;
  throw new Error("unreadable" in reply ? reply.unreadable : "The worker did not answer.");
}

function ask(
  request: Request,
  progress: (done: number, total: number) => void = () => {},
): Promise<Reply> {
  return new Promise((finish, fail) => {
    worker ??= startWorker();
    worker.postMessage(request);
    pending.push({ finish, fail, progress });
    listenForSilence();
  });
}

function startWorker(): Worker {
  const started = new Worker((scriptPolicy?.createScriptURL(workerUrl) ?? workerUrl) as string);
  started.onmessage = ({ data }: MessageEvent<Reply>) => {
    if ("progress" in data) pending[0]?.progress(data.progress.done, data.progress.total);
    else pending.shift()?.finish(data);
    listenForSilence();
  };
  started.onerror = (event) => {
    event.preventDefault();
    endWorker(`The worker that checks failed: ${event.message || "it could not be started"}.`);
  };
  started.onmessageerror = () => endWorker("The answer of the worker cannot be read.");
  return started;
}

function listenForSilence(): void {
  clearTimeout(silence);
  if (pending.length === 0) return;
  silence = setTimeout(
    () => endWorker(`The worker said nothing for ${SILENCE_MS / 1000} seconds.`),
    SILENCE_MS,
  );
}

/** End the worker, and fail all that waits for it. The next question starts another one. */
function endWorker(reason: string): void {
  clearTimeout(silence);
  worker?.terminate();
  worker = null;
  const failed = pending;
  pending = [];
  for (const { fail } of failed) fail(new Error(reason));
}
