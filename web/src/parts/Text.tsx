// Recorded text. It is untrusted: shown as text only, and with what it hides made visible.

import { useState } from "preact/hooks";
import { formatNumberOf, splitHidden } from "../model/format";

const FIRST_CHARACTERS = 4000;

export function SafeText({ text }: { text: string }) {
  return (
    <>
      {splitHidden(text).map((piece, number) =>
        piece.hidden ? (
          <span key={number} class="hidden-character" title="an invisible character">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}

interface TextBlockProps {
  text: string;
  label: string;
  /** Whether the block is as high as its text. */
  whole?: boolean;
  /** Whether a long text is shown from its beginning to its end at once. */
  isUncut?: boolean;
}

/** A block of recorded text; a long one begins with its first part. */
export function TextBlock({ text, label, whole, isUncut = false }: TextBlockProps) {
  const [open, setOpen] = useState(isUncut);
  const isLong = text.length > FIRST_CHARACTERS && !open;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard */}
      {/* biome-ignore lint/a11y/useSemanticElements: a region that scrolls is no form */}
      <div class={whole ? "text whole" : "text"} role="group" aria-label={label} tabIndex={0}>
        <pre>
          <SafeText text={isLong ? text.slice(0, FIRST_CHARACTERS) : text} />
        </pre>
      </div>
      {isLong && (
        <button type="button" class="plain small" onClick={() => setOpen(true)}>
          Show all {formatNumberOf(text.length, "character")}
        </button>
      )}
    </>
  );
}
