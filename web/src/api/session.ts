// Who uses the page: a key, kept for this tab until it is closed.

import { computed, signal } from "@preact/signals";
import { Client, type MeForm, type Scope } from "forumd-client";
import { explainRefusal } from "../model/scopes";

const STORED_KEY = "forum.key";

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
  const reply = (await response.json()) as { key?: string; detail?: string };
  if (!response.ok || !reply.key) throw new Error(reply.detail ?? "The code was refused.");
  keep(reply.key);
}

export function signOut(reason = ""): void {
  sessionStorage.removeItem(STORED_KEY);
  signInReason.value = reason;
  me.value = null;
  key.value = "";
}

function keep(accepted: string): void {
  sessionStorage.setItem(STORED_KEY, accepted);
  signInReason.value = "";
  key.value = accepted;
}
