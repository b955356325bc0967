// The signatures under a checkpoint (C2SP tlog-checkpoint and tlog-cosignature), unchecked.

export interface Sighting {
  witness: string;
  /** Milliseconds since 1970, as the witness says. */
  at: number;
}

export interface NoteSignature {
  name: string;
  /** When a witness cosigned, in milliseconds since 1970; null for the signature of the log. */
  at: number | null;
}

const COSIGNATURE_BYTES = 4 + 8 + 64;

/** Return the signatures of a note. Whether they are valid is not checked here. */
export function readSignatures(note: string): NoteSignature[] {
  return [...note.matchAll(/^— (\S+) (\S+)$/gm)].map(([, name = "", signature = ""]) => {
    const bytes = Uint8Array.from(atob(signature), (character) => character.charCodeAt(0));
    if (bytes.length !== COSIGNATURE_BYTES) return { name, at: null };
    const seconds = new DataView(bytes.buffer).getBigUint64(4);
    return { name, at: Number(seconds) * 1000 };
  });
}

/** Return the cosignatures of a note, unchecked as well. */
export function readSightings(note: string): Sighting[] {
  return readSignatures(note).flatMap(({ name, at }) =>
    at === null ? [] : [{ witness: name, at }],
  );
}
