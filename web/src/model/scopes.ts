// What a key may do.

import type { MeForm, Scope } from "forumd-client";

/**
 * Return why a key may not take an action that needs a scope; empty if it may, or if nothing is
 * known of the key: the server decides in any case.
 */
export function explainRefusal(me: Pick<MeForm, "name" | "scopes"> | null, scope: Scope): string {
  if (!me || me.scopes.includes("admin") || me.scopes.includes(scope)) return "";
  return `${me.name} does not have the scope ${scope}.`;
}

/** What a key may do, after "may". */
export function describeScopes(scopes: Scope[]): string {
  return scopes.includes("admin") ? "do everything" : scopes.join(", ");
}
