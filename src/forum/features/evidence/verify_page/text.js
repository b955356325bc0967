const SHORT_ESCAPES = new Map([
  ["\t", "\\t"],
  ["\n", "\\n"],
  ["\r", "\\r"],
]);

/**
 * Return a character as an ASCII escape, as Python writes it.
 * @param {string} character
 */
export function escapeCharacter(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  const digits = code.toString(16);
  const short = SHORT_ESCAPES.get(character);
  if (short) return short;
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

/**
 * Escape every character that is not printable ASCII: it could change what a reader sees.
 * @param {string} text
 */
export function escapeText(text) {
  return text.replace(/[^ -~]/gu, escapeCharacter);
}

/**
 * Return a text in quotes, as verify.py writes it into its messages.
 * @param {string} text
 */
export function quote(text) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll(mark, `\\${mark}`)
    .replace(/(?! )[\p{C}\p{Z}]/gu, escapeCharacter);
  return mark + escaped + mark;
}

/**
 * Return the first characters of a text; a character outside of the first plane counts as one.
 * @param {string} text
 * @param {number} count
 */
export function firstCharacters(text, count) {
  return [...text.slice(0, 2 * count)].slice(0, count).join("");
}

/**
 * Compare two texts by their code points, which is the order of their UTF-8 bytes.
 *
 * The operator `<` compares UTF-16 units, and has another order where there are surrogates.
 * @param {string} left
 * @param {string} right
 */
export function compareText(left, right) {
  const one = [...left];
  const other = [...right];
  for (let at = 0; at < one.length && at < other.length; at++) {
    const a = /** @type {number} */ (one[at].codePointAt(0));
    const b = /** @type {number} */ (other[at].codePointAt(0));
    if (a !== b) return a - b;
  }
  return one.length - other.length;
}

// The table of forum.untrusted_text; tests/test_untrusted_text.py compares them.
const HIDDEN_RANGES =
  String.raw`\u{0000}-\u{0008}\u{000B}-\u{001F}\u{007F}-\u{009F}\u{00AD}-\u{00AD}`
  + String.raw`\u{034F}-\u{034F}\u{0600}-\u{0605}\u{061C}-\u{061C}\u{06DD}-\u{06DD}`
  + String.raw`\u{070F}-\u{070F}\u{0890}-\u{0891}\u{08E2}-\u{08E2}\u{115F}-\u{1160}`
  + String.raw`\u{17B4}-\u{17B5}\u{180B}-\u{180F}\u{200B}-\u{200F}\u{2028}-\u{202E}`
  + String.raw`\u{2060}-\u{206F}\u{2800}-\u{2800}\u{3164}-\u{3164}\u{D800}-\u{DFFF}`
  + String.raw`\u{FE00}-\u{FE0F}\u{FEFF}-\u{FEFF}\u{FFA0}-\u{FFA0}\u{FFF0}-\u{FFFB}`
  + String.raw`\u{110BD}-\u{110BD}\u{110CD}-\u{110CD}\u{13430}-\u{1343F}\u{16FE4}-\u{16FE4}`
  + String.raw`\u{1BCA0}-\u{1BCA3}\u{1D159}-\u{1D159}\u{1D173}-\u{1D17A}\u{E0000}-\u{E0FFF}`;
const HIDDEN = new RegExp(`((?:(?![\\n\\t])[${HIDDEN_RANGES}\\p{C}])+)`, "u");

const LISTED_CHARACTER = new RegExp(`[${HIDDEN_RANGES}\\n\\t]`, "gu");

/**
 * Put a visible escape in place of each hidden character, tab and line break.
 *
 * Only the table decides, as on the page that Forum draws.
 * @param {string} text
 */
export function escapeHidden(text) {
  return text.replace(LISTED_CHARACTER, escapeCharacter);
}

/**
 * Cut a text into parts: what can be shown, and characters that could deceive a reader.
 *
 * Those are control characters, marks of direction, and others without a form of their own.
 * @param {string} text
 * @returns {{text: string, hidden: boolean}[]}
 */
export function revealText(text) {
  const parts = text.split(HIDDEN);
  return parts.map((part, at) =>
    at % 2
      ? { text: [...part].map(escapeCharacter).join(""), hidden: true }
      : { text: part, hidden: false },
  );
}
