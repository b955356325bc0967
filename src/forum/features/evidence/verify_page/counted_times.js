import { readCosignatures } from "./checkpoint.js";
import { unlessRejected } from "./rejected.js";

/** The times by which entries count: those of their writers, as far as witnesses agree. */

/** @typedef {import("./pack_log.js").PackLog} PackLog */
/** @typedef {import("./policy.js").Policy} Policy */

const WITNESS_SECOND_US = 1_000_000n;

/**
 * Return when the witnesses of a policy saw a checkpoint, in microseconds; 0 if unknown.
 * @param {Uint8Array} note
 * @param {Policy | null} policy
 */
function seenTime(note, policy) {
  if (!policy) return 0n;
  const read = () => readCosignatures(note, [...policy.witnesses.values()]);
  return policy.quorumTime(unlessRejected(read, () => [])) * WITNESS_SECOND_US;
}

/**
 * Return whether witnesses saw a checkpoint at a moment or later; never if `seen` is 0.
 *
 * They state whole seconds, and may have cosigned up to a second later.
 * @param {bigint} seen
 * @param {number} moment
 */
export function isSeenSince(seen, moment) {
  return seen > 0n && BigInt(moment) < seen + WITNESS_SECOND_US;
}

/**
 * Return whether witnesses saw a checkpoint before a moment; never if `seen` is 0.
 * @param {bigint} seen
 * @param {number} moment
 */
export function isSeenBefore(seen, moment) {
  return seen > 0n && seen + WITNESS_SECOND_US <= BigInt(moment);
}

export class CountedTimes {
  /**
   * Without a policy, every entry counts by the time of its writer.
   * @param {PackLog} log
   * @param {Policy | null} policy
   */
  constructor(log, policy) {
    /** @type {bigint | null} */
    this.start = log.startNote ? seenTime(log.startNote, policy) : null;
    this.end = seenTime(log.endNote, policy);
    this.seen = log.seen.map(({ note }) => seenTime(note, policy));
    const sizes = [log.start.size, ...log.seen.map(({ size }) => size), log.end.size];
    this.all = [this.start ?? 0n, ...this.seen, this.end];
    this.trees = sizes.map((size, at) => ({ size, time: this.all[at] })).filter(({ time }) => time);
  }

  /**
   * Return the time by which an entry counts whose writer says `ts`.
   * @param {bigint} index
   * @param {number} ts
   */
  timeOf(index, ts) {
    let counted = BigInt(ts);
    const behind = this.trees.find(({ size }) => size > index);
    if (behind && behind.time + WITNESS_SECOND_US <= counted) counted = behind.time + WITNESS_SECOND_US - 1n;
    // A witness whose clock was wrong for a while cannot date an entry before what it follows.
    for (const { size, time } of this.trees) if (size <= index && time > counted) counted = time;
    return Number(counted);
  }

  /**
   * Return what decides which entries are in a period.
   * @param {number} since
   * @param {number} until
   */
  decide(since, until) {
    const isBegun = this.start === null || isSeenBefore(this.start, since);
    return isBegun && isSeenSince(this.end, until) ? "witnessed" : "writer";
  }
}
