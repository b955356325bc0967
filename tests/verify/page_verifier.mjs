// Verifies bundles with the worker of verify.html, under Node: one JSON object in each line.
//
//     node page_verifier.mjs verify.html

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const page = readFileSync(process.argv[2], "utf8");
const script = page.split('<script type="text/plain" id="worker">')[1].split("</script>")[0];

// Each signature takes milliseconds, and most bundles of the tests have the same ones.
const REMEMBER = `
const remember = (check) => {
  const known = new Map();
  return (...values) => {
    const key = values.join(";");
    if (!known.has(key)) known.set(key, check(...values));
    return known.get(key);
  };
};
signatureHolds = remember(signatureHolds);
checkPublicKey = remember(checkPublicKey);
return { KINDS, Policy, Rejected, readEntry, readKey, sha256, sha512, signatureHolds, checkPublicKey,
  escapeText, quote, revealText, verifyBundle, verifyPack, drawPackPage, isPack, REFUTED_CLAIMS };
`;

/** The functions of the worker, by the number of files that an archive can have. */
const loaded = new Map();

function load(maxFiles) {
  if (!loaded.has(maxFiles)) {
    const limited = script.replace("const MAX_FILES = 0xffff;", `const MAX_FILES = ${maxFiles};`);
    if (limited === script && maxFiles !== 0xffff) throw new Error("the limit was not found");
    loaded.set(maxFiles, new Function("self", limited + REMEMBER)({}));
  }
  return loaded.get(maxFiles);
}

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));

const ACTIONS = {
  verify({ bundle, keys, policy, seen, maxFiles, maxBytes, draws }) {
    const v = load(maxFiles);
    const data = bytes(bundle);
    const trust = {
      keys: keys.map(v.readKey),
      policy: policy === null ? null : new v.Policy(bytes(policy)),
      seen: seen.map(bytes),
      maxBytes,
    };
    const started = process.cpuUsage();
    const checked = v.isPack(data) ? v.verifyPack(data, trust, v.KINDS) : null;
    const report = checked?.report ?? v.verifyBundle(data, trust, v.KINDS);
    const { user, system } = process.cpuUsage(started);
    const page = checked && draws ? v.drawPackPage(checked, trust, data) : null;
    return { report, page, seconds: (user + system) / 1e6 };
  },
  entries({ entries }) {
    const v = load(0xffff);
    return entries.map((text) => {
      try {
        v.readEntry(bytes(text), v.KINDS);
        return true;
      } catch (error) {
        if (error instanceof v.Rejected) return false;
        throw error;
      }
    });
  },
  signature({ key, message, signature }) {
    const v = load(0xffff);
    v.checkPublicKey(bytes(key));
    return v.signatureHolds(bytes(key), bytes(message), bytes(signature));
  },
  policy({ policy }) {
    new (load(0xffff).Policy)(bytes(policy));
    return "accepted";
  },
  words({ text }) {
    const v = load(0xffff);
    return { quoted: v.quote(text), escaped: v.escapeText(text), revealed: v.revealText(text) };
  },
  hashes({ data }) {
    const v = load(0xffff);
    return [v.sha256, v.sha512].map((hash) => Buffer.from(hash(bytes(data))).toString("hex"));
  },
  problems() {
    return Object.fromEntries(load(0xffff).REFUTED_CLAIMS);
  },
};

// JSON has no numbers beyond 2^53 that every reader reads alike.
const exact = (_, value) => (typeof value === "bigint" ? { integer: String(value) } : value);

for await (const line of createInterface({ input: process.stdin })) {
  const { action, ...question } = JSON.parse(line);
  let answer;
  try {
    answer = { answer: ACTIONS[action](question) };
  } catch (error) {
    answer = { rejected: error instanceof load(0xffff).Rejected, message: String(error.stack ?? error), why: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer, exact)}\n`);
}
