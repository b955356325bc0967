import { concatBytes, equalBytes } from "./bytes.js";
import { reject, require } from "./rejected.js";
import { sha256 } from "./sha256.js";

/** The Merkle tree of RFC 6962 and RFC 9162. */

/**
 * The tree that a log commits to: the log's name, the number of entries, and the root.
 * @typedef {{origin: string, size: bigint, root: Uint8Array}} Checkpoint
 */

export const EMPTY_ROOT = sha256(new Uint8Array());

/**
 * Return the leaf hash of an entry, which is also its id.
 * @param {Uint8Array} data
 */
export function hashLeaf(data) {
  return sha256(concatBytes([0], data));
}

const node = new Uint8Array(65);
node[0] = 1;

/**
 * Return the hash of the node above two neighbours.
 * @param {Uint8Array} left
 * @param {Uint8Array} right
 */
export function hashNode(left, right) {
  node.set(left, 1);
  node.set(right, 33);
  return sha256(node);
}

/**
 * The last node that was hashed at each height, with what is below it: the proofs of neighbours
 * have most of their nodes in common.
 * @type {{left: Uint8Array, right: Uint8Array, above: Uint8Array}[]}
 */
const lastHashed = [];

/**
 * Return the hash of the node above two neighbours, remembered if it was the last at its height.
 * @param {number} height
 * @param {Uint8Array} left
 * @param {Uint8Array} right
 */
function hashNodeAt(height, left, right) {
  const last = lastHashed[height];
  if (last && equalBytes(last.left, left) && equalBytes(last.right, right)) return last.above;
  const above = hashNode(left, right);
  lastHashed[height] = { left, right, above };
  return above;
}

/**
 * Climb from a node to the root of the new tree by a proof; return it, and the root of the old one.
 *
 * This loop is common to both algorithms of RFC 9162.  An inclusion proof has no old tree.
 * @param {Uint8Array[]} nodes
 * @param {Uint8Array} start
 * @param {bigint} fn
 * @param {bigint} sn
 * @param {boolean} hasOld
 */
function climbToRoots(nodes, start, fn, sn, hasOld) {
  let oldRoot = start;
  let newRoot = start;
  for (const [height, node] of nodes.entries()) {
    require(sn, "the proof is too long");
    if (fn & 1n || fn === sn) {
      if (hasOld) oldRoot = hashNode(node, oldRoot);
      newRoot = hashNodeAt(height, node, newRoot);
      while (fn && !(fn & 1n)) {
        fn >>= 1n;
        sn >>= 1n;
      }
    } else {
      newRoot = hashNodeAt(height, newRoot, node);
    }
    fn >>= 1n;
    sn >>= 1n;
  }
  require(sn === 0n, "the proof is too short");
  return { oldRoot, newRoot };
}

/**
 * Check that a tree has this leaf at this index (RFC 9162 section 2.1.3.2).
 * @param {Uint8Array[]} nodes
 * @param {Uint8Array} leaf
 * @param {bigint} index
 * @param {Checkpoint} tree
 */
export function checkInclusion(nodes, leaf, index, tree) {
  if (index >= tree.size) reject(`entry ${index} is beyond the tree of size ${tree.size}`);
  const { newRoot } = climbToRoots(nodes, leaf, index, tree.size - 1n, false);
  if (!equalBytes(newRoot, tree.root)) {
    reject(`entry ${index} is not in the tree of size ${tree.size}`);
  }
}

/**
 * Check that the new tree begins with the old one (RFC 9162 section 2.1.4.2).
 * @param {Uint8Array[]} nodes
 * @param {Checkpoint} oldTree
 * @param {Checkpoint} newTree
 */
export function checkConsistency(nodes, oldTree, newTree) {
  const why = `the tree of size ${newTree.size} does not begin with that of ${oldTree.size}`;
  require(oldTree.size <= newTree.size, why);
  if (oldTree.size === 0n || oldTree.size === newTree.size) {
    // Every tree begins with the empty tree and with itself, so the proof is empty.
    const root = oldTree.size === newTree.size ? newTree.root : EMPTY_ROOT;
    require(!nodes.length && equalBytes(oldTree.root, root), why);
    return;
  }
  let fn = oldTree.size - 1n;
  let sn = newTree.size - 1n;
  while (fn & 1n) {
    fn >>= 1n;
    sn >>= 1n;
  }
  // A tree of 2^k entries is a node of every larger one, and the proof begins above it.
  const [start, ...path] = fn ? nodes : [oldTree.root, ...nodes];
  require(start, why);
  const { oldRoot, newRoot } = climbToRoots(path, start, fn, sn, true);
  require(equalBytes(oldRoot, oldTree.root) && equalBytes(newRoot, newTree.root), why);
}
