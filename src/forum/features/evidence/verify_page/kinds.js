/**
 * The released kinds of entries, from the two tables of verify.py, in whose form they are read.
 *
 * CHOICE_TABLE lists the values that a fact of an enumerated type can have.  KIND_TABLE lists the
 * kinds.  The words behind the name of a kind are its facts in their order, each as NAME:TYPE,
 * with =DEFAULT (JSON) if the fact is left out when it has that value; TYPE[] is an array, and a
 * limit is a count that may be written with its default.  +NAME is a body that an entry of this
 * kind may have.  An indented line continues the line above it.
 */

/**
 * The type of a fact: text, count, limit or the values of an enumeration, as an array or not.
 *
 * `fallback` is the value of a fact that is left out.
 * @typedef {{
 *   item: "text" | "count" | "limit" | string[], isArray: boolean, isOptional: boolean, fallback?: unknown,
 * }} FactForm
 */

/** @typedef {{facts: Map<string, FactForm>, bodies: Set<string>}} Kind */

/** @typedef {Map<string, Kind>} Kinds */

/**
 * Return the words of each line of a table, by its first word.
 * @param {string} table
 */
function readTable(table) {
  const lines = table.replaceAll("\n    ", " ").trim().split("\n");
  return new Map(
    lines.map((line) => {
      const [first, ...words] = line.split(" ");
      return [first, words];
    }),
  );
}

/**
 * Read the tables of kinds.
 * @param {string} choiceTable
 * @param {string} kindTable
 * @returns {Kinds}
 */
export function readKinds(choiceTable, kindTable) {
  const choices = readTable(choiceTable);
  return new Map([...readTable(kindTable)].map(([name, words]) => [name, readKind(words, choices)]));
}

/**
 * @param {string[]} words
 * @param {Map<string, string[]>} choices
 * @returns {Kind}
 */
function readKind(words, choices) {
  const bodies = words.filter((word) => word.startsWith("+")).map((word) => word.slice(1));
  const facts = words.filter((word) => !word.startsWith("+")).map((word) => word.split(":"));
  return {
    facts: new Map(facts.map(([name, form]) => [name, readFactForm(form, choices)])),
    bodies: new Set(bodies),
  };
}

/**
 * @param {string} form
 * @param {Map<string, string[]>} choices
 * @returns {FactForm}
 */
function readFactForm(form, choices) {
  const [type, fallback] = form.split("=");
  const name = type.replace("[]", "");
  const values = choices.get(name)?.map((word) => word.replaceAll('"', ""));
  const item = values ?? /** @type {"text" | "count" | "limit"} */ (name);
  const isOptional = fallback !== undefined;
  return { item, isArray: name !== type, isOptional, fallback: isOptional && JSON.parse(fallback) };
}
