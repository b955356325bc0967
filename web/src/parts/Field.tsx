import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import "./Field.css";

/** What a control needs to belong to its label, hint and error. */
export interface ControlProps {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string;
}

interface FieldProps {
  label: string;
  hint?: string;
  /** What is wrong with the value; empty if nothing is. */
  fault?: string | undefined;
  children: (control: ControlProps) => ComponentChildren;
}

/** A control of a form with its label, and a hint or the error that concerns it. */
export function Field({ label, hint, fault, children }: FieldProps) {
  const id = useId();
  const noteId = `${id}-note`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": Boolean(fault), "aria-describedby": noteId })}
      {fault ? (
        <p id={noteId} class="small tone-bad" role="alert">
          {fault}
        </p>
      ) : (
        <p id={noteId} class="small quiet">
          {hint}
        </p>
      )}
    </div>
  );
}
