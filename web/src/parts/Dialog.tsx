import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  label: string;
  class?: string;
  onClose: () => void;
  children: ComponentChildren;
}

/** A dialog over the page. When it goes, the focus is again where it was. */
export function Dialog({ label, children, ...rest }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => before instanceof HTMLElement && before.focus();
  }, []);
  return (
    <dialog ref={dialog} aria-label={label} {...rest}>
      {children}
    </dialog>
  );
}
