/** Raised for input that is malformed, not in canonical form, or fails a check. */
export class Rejected extends Error {}

/**
 * Raise `Rejected` with this reason.
 * @param {string} why
 * @returns {never}
 */
export function reject(why) {
  throw new Rejected(why);
}

/**
 * Raise `Rejected` with this reason unless a condition holds.
 * @param {unknown} condition
 * @param {string} why
 * @returns {asserts condition}
 */
export function require(condition, why) {
  if (!condition) reject(why);
}

/**
 * Return the result of a function, or what `otherwise` makes of its rejection.
 * @template T, U
 * @param {() => T} read
 * @param {(error: Rejected) => U} otherwise
 * @returns {T | U}
 */
export function unlessRejected(read, otherwise) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    return otherwise(error);
  }
}
