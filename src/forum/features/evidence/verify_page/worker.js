import { writeUtf8 } from "./bytes.js";
import { BundleReader } from "./contents.js";
// Made by build.py from the tables of verify.py.
import { CHOICE_TABLE, KIND_TABLE } from "./kind_tables.js";
import { readKinds } from "./kinds.js";
import { readKey } from "./note.js";
import { Policy } from "./policy.js";
import { Rejected } from "./rejected.js";
import { escapeText } from "./text.js";
import { isPack, verifyPack } from "./pack.js";
import { drawPackPage } from "./pack_page.js";
import { MAX_BODY_BYTES } from "./shared_bodies.js";
import { verifyBundle } from "./verifier.js";
import { tellStory } from "./story.js";
import { viewPackReport, viewReport } from "./view.js";

/** The worker: verifies bundles beside the page, which stays usable meanwhile. */

/** @typedef {import("./pack.js").CheckedPack} CheckedPack */
/** @typedef {import("./verifier.js").Trust} Trust */

/**
 * What the reader has chosen.
 * @typedef {{bundle: ArrayBuffer, policy: string, keys: string[], seen: ArrayBuffer[], gigabytes: number}} Question
 */

const KINDS = readKinds(CHOICE_TABLE, KIND_TABLE);

/** The bundle that was verified last, for those who want to read it. @type {Uint8Array} */
let verified = new Uint8Array();
/** How many bytes its bodies may have. @type {number | undefined} */
let maxBytes;
/** @type {BundleReader | null} */
let reader = null;
/** What was found in it, if it is a pack. @type {{checked: CheckedPack, trust: Trust} | null} */
let pack = null;

/**
 * Read the keys and the policy that the reader has typed.
 * @param {Question} question
 * @returns {Trust}
 */
function readTrust({ policy, keys, seen, gigabytes }) {
  // The last line of what is pasted often has no newline.
  const text = policy.endsWith("\n") ? policy : `${policy}\n`;
  return {
    keys: keys.map(readKey),
    policy: policy.trim() ? new Policy(writeUtf8(text)) : null,
    seen: seen.map((note) => new Uint8Array(note)),
    maxBytes: gigabytes > 0 ? Math.floor(gigabytes * 2 ** 30) : MAX_BODY_BYTES,
  };
}

/**
 * List the keys that a report rests on, for the reader to compare.
 * @param {Trust} trust
 */
function listTrusted({ keys, policy }) {
  const logs = [...keys, ...(policy?.logs ?? [])].map((key) => `log ${key.name}+${key.id}`);
  const witnesses = [...(policy?.witnesses.values() ?? [])];
  return [...new Set(logs), ...witnesses.map((key) => `witness ${key.name}+${key.id}`)];
}

/**
 * Verify a bundle, and post progress and the report.
 * @param {Question} question
 */
function answer(question) {
  const trust = readTrust(question);
  verified = new Uint8Array(question.bundle);
  maxBytes = trust.maxBytes;
  reader = pack = null;
  const showProgress = (/** @type {number} */ done, /** @type {number} */ total) =>
    self.postMessage({ done, total });
  const trusted = listTrusted(trust);
  if (isPack(verified)) {
    const checked = verifyPack(verified, trust, KINDS, showProgress);
    pack = { checked, trust };
    self.postMessage({ view: viewPackReport(checked.report, trusted) });
    return;
  }
  const report = verifyBundle(verified, trust, KINDS, showProgress);
  self.postMessage({ view: viewReport(report, trusted, tellStory(verified, KINDS, maxBytes)) });
}

/**
 * Draw the page of a pack; one with a value of a type that no maker writes has no figure.
 * @param {{checked: CheckedPack, trust: Trust}} pack
 */
function drawPage({ checked, trust }) {
  try {
    return drawPackPage(checked, trust, verified);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    return drawPackPage({ ...checked, computed: null }, trust, verified);
  }
}

self.onmessage = ({ data }) => {
  try {
    if ("bundle" in data) {
      answer(data);
      return;
    }
    if ("draw" in data) {
      if (pack) self.postMessage({ page: drawPage(pack) });
      return;
    }
    reader ??= new BundleReader(verified, KINDS, maxBytes);
    if ("show" in data) self.postMessage({ shown: data.show, parts: reader.show(BigInt(data.show)) });
    else self.postMessage({ entries: reader.list() });
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    self.postMessage({ refused: escapeText(error.message) });
  }
};
