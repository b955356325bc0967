import type { Scope } from "forumd-client";
import type { ComponentChildren } from "preact";
import { refusalOf } from "../api/session";

interface PermittedProps {
  scope: Scope;
  /** What the action does, after "It cannot". */
  action: string;
  children: ComponentChildren;
}

/** An action that needs a scope; a key without it gets the reason instead. */
export function Permitted({ scope, action, children }: PermittedProps) {
  const refusal = refusalOf(scope);
  if (!refusal) return <>{children}</>;
  return (
    <span class="small quiet">
      {refusal} It cannot {action}.
    </span>
  );
}
