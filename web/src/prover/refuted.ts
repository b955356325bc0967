// Why a check does not end well.

export type Refutation =
  | "checkpoint" // it is not what a pinned key signed
  | "shorter" // the log has fewer entries than this browser remembers
  | "history" // the log does not continue what this browser remembers
  | "tile" // the tiles are not those of the signed tree
  | "entry" // an entry on the page is not the one in the tree
  | "missing" // an entry of the run is in the tree and not on the page
  | "directory" // the directory of the runs has a gap, or is not that of the tree
  | "omitted" // a run is in the directory and not in the list
  | "order"; // a run of the list is not in the directory, or elsewhere in it

/** Raised where the server contradicts what was signed or remembered. */
export class Refuted extends Error {
  constructor(
    readonly kind: Refutation,
    message: string,
  ) {
    super(message);
  }
}

/** Raised where the server does not give what the check needs. Nothing follows from that. */
export class Unanswered extends Error {}
