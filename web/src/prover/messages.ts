// What a page and its worker say to each other.

import type { Session } from "../api/session";
import type { ListProof, ListQuestion, PolicyKeys, Proof, Question } from "./check";
import type { Refutation } from "./refuted";

export type Request =
  | { keysOf: string }
  | {
      question: Question | ListQuestion;
      /** Whose key the server is shown, if it is the process of this session. */
      session: Session | null;
      /** Read everything again, whatever the browser has in its cache. */
      isFresh: boolean;
    };

export type Verdict<T = Proof> =
  | { state: "proven"; proof: T }
  | { state: "refuted"; kind: Refutation; reason: string }
  | { state: "failed"; reason: string };

/** Replies come in the order of the requests; `progress` may come before a verdict. */
export type Reply =
  | { progress: { done: number; total: number } }
  | { verdict: Verdict<Proof | ListProof> }
  | { keys: PolicyKeys }
  | { unreadable: string };
