// Who uses the page: a key, kept until the last tab of this server is closed.
//
// It is in no storage that outlives the tabs. A new tab asks the others for it over a channel of
// this origin, and signing out in one tab signs out in all of them.

import { computed, signal } from "@preact/signals";
import { Client, type MeForm, type Scope } from "forumd-client";
import { explainRefusal } from "../model/scopes";
import { keepPinIfPossible, readPin } from "./memory";

const STORED_KEY = "forum.key";

type Message = { type: "ask" } | { type: "key"; key: string } | { type: "out" };

const tabs = globalThis.BroadcastChannel ? new BroadcastChannel("forum.session") : null;

export const key = signal(globalThis.sessionStorage?.getItem(STORED_KEY) ?? "");
/** Why the user has to sign in again; empty on the first visit. */
export const signInReason = signal("");

export const client = computed(() => new Client(location.origin, key.value || "none"));

/** Who the server says the key is; null until it has answered. */
export const me = signal<MeForm | null>(null);

/** Return why the key may not take an action that needs a scope; empty if it may. */
export function refusalOf(scope: Scope): string {
  return explainRefusal(me.value, scope);
}

/** Keep a key after the server has accepted it. Throws the server's refusal. */
export async function signIn(entered: string): Promise<void> {
  const accepted = entered.trim();
  me.value = await new Client(location.origin, accepted).call("GET /api/v1/me");
  keep(accepted);
}

/** Exchange the code of `forum up --open` for the operator's key. Works once. */
export async function exchangeCode(code: string): Promise<void> {
  const response = await fetch("sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const reply = (await response.json()) as SignInReply;
  if (!response.ok || !reply.key) throw new Error(reply.detail ?? "The code was refused.");
  // Keys that the reader pinned before are never replaced by what a server says.
  if (reply.origin && reply.policy && !readPin(reply.origin)) {
    keepPinIfPossible(reply.origin, { policy: reply.policy, at: Date.now(), isHandedOver: true });
  }
  keep(reply.key);
}

interface SignInReply {
  key?: string;
  origin?: string;
  /** The keys of the log, as the process hands them over that this person has started. */
  policy?: string;
  detail?: string;
}

export function signOut(reason = ""): void {
  send({ type: "out" });
  forget(reason);
}

function forget(reason: string): void {
  sessionStorage.removeItem(STORED_KEY);
  signInReason.value = reason;
  me.value = null;
  key.value = "";
}

function keep(accepted: string): void {
  sessionStorage.setItem(STORED_KEY, accepted);
  signInReason.value = "";
  key.value = accepted;
  send({ type: "key", key: accepted });
}

function send(message: Message): void {
  tabs?.postMessage(message);
}

tabs?.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if (data.type === "ask" && key.value) send({ type: "key", key: key.value });
  else if (data.type === "key" && !key.value) {
    sessionStorage.setItem(STORED_KEY, data.key);
    key.value = data.key;
  } else if (data.type === "out" && key.value) forget("You have signed out in another tab.");
});

if (!key.value) send({ type: "ask" });
