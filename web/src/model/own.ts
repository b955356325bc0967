// Look a word up that another program has sent.

/**
 * Return the member of a table, or undefined if the table itself has none.  `table[key]` would also
 * find what every object inherits: "constructor" and "toString" are no states of a run.
 */
export function own<Key extends string, Value>(
  table: Readonly<Record<Key, Value>>,
  key: NoInfer<Key> | (string & {}),
): Value | undefined {
  return Object.hasOwn(table, key) ? table[key as Key] : undefined;
}
