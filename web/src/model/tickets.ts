// Names for requests that must be carried out once (the Idempotency-Key of the API).

/**
 * Return a function that gives the same name for the same content. A second press of a button, or
 * a repetition after a lost reply, is then the same request to the server.
 */
export function makeTickets(): (content: unknown) => string {
  const given = new Map<string, string>();
  return (content) => {
    const text = JSON.stringify(content);
    const ticket = given.get(text) ?? randomName();
    given.set(text, ticket);
    return ticket;
  };
}

/** `crypto.randomUUID` is missing where a page is not served over TLS. */
function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
