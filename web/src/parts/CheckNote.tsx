import type { EntryCheck } from "../api/proof";
import { Evidence } from "./Evidence";

/** What this browser has found to be wrong, or why it could not check. */
export function CheckNote({ check, run }: { check: EntryCheck | null; run?: string }) {
  const verdict = check?.state.value.verdict;
  if (!verdict || verdict.state === "proven") return null;
  if (verdict.state === "failed") {
    return (
      <p class="note wait" role="status">
        This browser could not check the entries. {verdict.reason} It tries again.
      </p>
    );
  }
  return (
    <div class="note bad stack" role="alert">
      <p>
        <strong>{verdict.reason}</strong> Do not rely on what this page shows.
      </p>
      <Evidence run={run} />
    </div>
  );
}
