// The gates that wait, asked for once for all parts of the page that show them.

import { signal } from "@preact/signals";
import type { GateForm } from "forumd-client";
import { useEffect } from "preact/hooks";
import { listGates } from "./calls";

/** A gate that opens is seen within two seconds. */
const POLL_MS = 1500;

/** All gates that wait, the nearest deadline first; null until the server has answered. */
export const waitingGates = signal<GateForm[] | null>(null);
export const gatesError = signal<Error | null>(null);

export async function refreshGates(): Promise<void> {
  try {
    const gates = await listGates();
    gates.sort((a, b) => a.deadline.localeCompare(b.deadline));
    // The same list does not draw the page again.
    if (JSON.stringify(gates) !== JSON.stringify(waitingGates.value)) waitingGates.value = gates;
    gatesError.value = null;
  } catch (error) {
    gatesError.value = error as Error;
  }
}

/** Keep `waitingGates` current while the page is looked at. */
export function usePolledGates(): void {
  useEffect(() => {
    const look = () => void (document.hidden || refreshGates());
    look();
    const timer = setInterval(look, POLL_MS);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
      waitingGates.value = null;
    };
  }, []);
}
