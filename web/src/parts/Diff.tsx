import { useMemo } from "preact/hooks";
import { diffLines, foldSame } from "../model/diff";
import { own } from "../model/own";
import { SafeText } from "./Text";

const SIGNS = { same: " ", removed: "−", added: "+", folded: "…" };

interface DiffProps {
  label: string;
  /** Null if there is no text before, or none after. */
  before: string | null;
  after: string | null;
}

/** Two texts, line by line; a sign says what was removed and what was added. */
export function Diff({ label, before, after }: DiffProps) {
  const lines = useMemo(() => foldSame(diffLines(before, after)), [before, after]);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a region that scrolls is no form
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
    <div class="text" role="group" aria-label={label} tabIndex={0}>
      <pre>
        {lines.map(({ kind, text }, number) => (
          <span key={`${number} ${kind}`} class={`diff ${kind}`}>
            {own(SIGNS, kind)} <SafeText text={text} />
          </span>
        ))}
      </pre>
    </div>
  );
}
