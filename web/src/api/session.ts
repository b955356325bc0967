// Who uses the page: a session of one server process, kept until the last tab of this server is closed.
//
// What a person pastes is exchanged for a session key, which that process alone knows: over plain
// HTTP any key, because any program can take the port of a server that has stopped, and everywhere
// the operator's token. A session key is in no storage that outlives the tabs. A new tab asks the
// others for it over a channel of this origin, and signing out in one tab signs out in all of them.

import { computed, signal } from "@preact/signals";
import { Client, type MeForm, type Scope } from "forumd-client";
import { explainRefusal } from "../model/scopes";
import { keepPinIfPossible, readPin } from "./memory";
import { checkServer, OtherServerError } from "./sameServer";

const STORED_KEY = "forum.key";
const STORED_INSTANCE = "forum.instance";
const SESSION_PREFIX = "forum-session_";
const OPERATOR_PREFIX = "forum-operator_";
const SESSION_PATH = "/ui/session";
const OTHER_SERVER =
  "Another process answers at this address: Forum was started again, or it is another program. " +
  "Your key was not shown to it. Sign in again if you know that it is Forum.";

export interface Session {
  key: string;
  /** The process that the key belongs to; empty for a key that any process of the server knows. */
  instance: string;
}

type Message = { type: "ask" } | { type: "session"; session: Session } | { type: "out" };

const tabs = globalThis.BroadcastChannel ? new BroadcastChannel("forum.session") : null;

export const session = signal<Session | null>(readStored());
export const key = computed(() => session.value?.key ?? "");
/** Whether a key of an earlier page is being exchanged. */
export const isOpening = signal(false);
/** Why the user has to sign in again; empty on the first visit. */
export const signInReason = signal("");

export const client = computed(
  () => new Client(location.origin, key.value || "none", { fetch: fetchAs(session.value) }),
);

/** Who the server says the key is; null until it has answered. */
export const me = signal<MeForm | null>(null);

/** Return why the key may not take an action that needs a scope; empty if it may. */
export function refusalOf(scope: Scope): string {
  return explainRefusal(me.value, scope);
}

/** Return a `fetch` for requests that show a session's key: the process is checked before each. */
export function fetchAs(shown: Session | null): typeof fetch {
  return async (input, init) => {
    try {
      await checkServer(shown?.instance ?? "");
    } catch (error) {
      if (error instanceof OtherServerError && session.value === shown) forget(OTHER_SERVER);
      throw error;
    }
    return fetch(input, init);
  };
}

/** Keep what a person has pasted, or a session for it. Throws the server's refusal. */
export async function signIn(entered: string): Promise<void> {
  const accepted = entered.trim();
  if (needsSession(accepted)) return keep(await openSession(accepted));
  me.value = await new Client(location.origin, accepted).call("GET /api/v1/me");
  keep({ key: accepted, instance: "" });
}

function needsSession(entered: string): boolean {
  if (entered.startsWith(SESSION_PREFIX)) return false;
  return location.protocol !== "https:" || entered.startsWith(OPERATOR_PREFIX);
}

async function openSession(accepted: string): Promise<Session> {
  if (!/^[!-~]+$/.test(accepted)) throw new Error("A key is visible ASCII.");
  const headers = { authorization: `Bearer ${accepted}` };
  return askForSession(SESSION_PATH, { method: "POST", headers });
}

/** Exchange the code of `forum up --open` for a session of the operator. Works once. */
export async function exchangeCode(code: string): Promise<void> {
  const reply = await askForSession("/ui/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  // Keys that the reader pinned before are never replaced by what a server says.
  if (reply.origin && reply.policy && !readPin(reply.origin)) {
    keepPinIfPossible(reply.origin, { policy: reply.policy, at: Date.now(), isHandedOver: true });
  }
  keep({ key: reply.key, instance: reply.instance });
}

interface SignInReply extends Session {
  origin?: string;
  /** The keys of the log, as the process hands them over that this person has started. */
  policy?: string;
}

async function askForSession(path: string, init: RequestInit): Promise<SignInReply> {
  const response = await fetch(path, init);
  const reply = (await response.json()) as SignInReply & { detail?: string };
  if (!response.ok || !reply.key) throw new Error(reply.detail ?? "The server refused it.");
  return reply;
}

export function signOut(reason = ""): void {
  const ended = session.value;
  send({ type: "out" });
  forget(reason);
  if (!ended?.instance) return;
  const headers = { authorization: `Bearer ${ended.key}` };
  // The process forgets the session at its end anyway, if it does not hear of this.
  fetchAs(ended)(SESSION_PATH, { method: "DELETE", headers, keepalive: true }).catch(() => {});
}

function forget(reason: string): void {
  sessionStorage.removeItem(STORED_KEY);
  sessionStorage.removeItem(STORED_INSTANCE);
  signInReason.value = reason;
  me.value = null;
  session.value = null;
}

function keep(opened: Session): void {
  store(opened);
  signInReason.value = "";
  session.value = opened;
  send({ type: "session", session: opened });
}

function store({ key, instance }: Session): void {
  sessionStorage.setItem(STORED_KEY, key);
  sessionStorage.setItem(STORED_INSTANCE, instance);
}

/** The session of this tab. A key that must not be kept is exchanged first. */
function readStored(): Session | null {
  const stored = globalThis.sessionStorage?.getItem(STORED_KEY) ?? "";
  if (!stored || needsSession(stored)) return null;
  return { key: stored, instance: sessionStorage.getItem(STORED_INSTANCE) ?? "" };
}

/** Exchange a key that an earlier release of the page has kept in this tab. */
async function exchangeStored(): Promise<void> {
  const stored = globalThis.sessionStorage?.getItem(STORED_KEY) ?? "";
  if (!stored || session.value) return;
  isOpening.value = true;
  sessionStorage.removeItem(STORED_KEY);
  try {
    await signIn(stored);
  } catch (error) {
    signInReason.value = (error as Error).message;
  }
  isOpening.value = false;
}

function send(message: Message): void {
  tabs?.postMessage(message);
}

tabs?.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  const own = session.value;
  if (data.type === "ask" && own) send({ type: "session", session: own });
  else if (data.type === "session" && !own) {
    store(data.session);
    session.value = data.session;
  } else if (data.type === "out" && own) forget("You have signed out in another tab.");
});

void exchangeStored();
if (!session.value) send({ type: "ask" });
