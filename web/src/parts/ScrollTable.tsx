import type { ComponentChildren } from "preact";

interface ScrollTableProps {
  label: string;
  class?: string;
  children: ComponentChildren;
}

/** A table that scrolls sideways in itself where it is wider than the page. */
export function ScrollTable({ label, class: name, children }: ScrollTableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
    // biome-ignore lint/a11y/useSemanticElements: a region that scrolls is no form
    <div class="scroll" role="group" aria-label={label} tabIndex={0}>
      <table class={name}>{children}</table>
    </div>
  );
}
