// A client for the HTTP API of Forum: typed calls, retries where they are safe, and `follow`.

import { DEEP_PARAMETERS, OPERATIONS, VERSION, type Details, type Operations } from "./api.js";

export * from "./api.js";

/** Delays between attempts, in milliseconds: together longer than a server takes to restart. */
export const RETRY_DELAYS_MS = [250, 500, 1000, 2000, 4000];
const MAX_RETRY_AFTER_MS = 30_000;
/** The server sends a comment every 15 seconds. */
const SILENCE_TIMEOUT_MS = 60_000;

/** The server refused a request (RFC 9457). `type` is stable; `detail` is for people. */
export class ProblemError extends Error {
  override name = "ProblemError";

  constructor(
    readonly status: number,
    readonly type: string,
    readonly title: string,
    readonly detail: string,
    readonly retryAfter: number | undefined,
  ) {
    super(detail ? `${title}: ${detail}` : title);
  }

  /** Whether it is a problem of this name, such as `not-found` or `gate-moved`. */
  is(name: string): boolean {
    return this.type === `urn:forum:problem:${name}`;
  }
}

/** No reply came, or it broke off. The request may have been carried out. */
export class UnreachableError extends Error {
  override name = "UnreachableError";
}

/** An entry of the log, in most cases of a run. */
export interface RunEvent {
  /** The index of the entry in the log. */
  index: number;
  /** The id of the entry: its leaf hash in the tree. */
  id: string;
  /** What happened, such as `task.reply/1`. */
  kind: string;
  entry: Record<string, unknown>;
  /** The entry as JSON, as it is hashed. */
  raw: string;
}

export interface FollowOptions {
  /** The index of the last entry that the caller has. */
  after?: number;
  signal?: AbortSignal;
}

type Part = "path" | "query" | "body";

/** The arguments of an operation; what it does not have, or does not need, is left out. */
export type Arguments<O extends keyof Operations> = {
  [part in Part as Operations[O][part] extends undefined
    ? never
    : object extends Operations[O][part]
      ? never
      : part]: Operations[O][part];
} & {
  [part in Part as object extends Operations[O][part] ? part : never]?: Operations[O][part];
} & { idempotencyKey?: string; signal?: AbortSignal };

interface SentRequest {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** Sends the requests in place of the `fetch` of the platform. */
  fetch?: typeof fetch;
}

export class Client {
  readonly #key: string;
  readonly #fetch: typeof fetch;
  readonly url: string;

  constructor(url: string, key: string, options: ClientOptions = {}) {
    const parsed = new URL(url);
    if (parsed.username || parsed.password) throw new TypeError("The URL must hold no password.");
    // Checked here, because `fetch` would quote the key in its error.
    if (!/^[!-~]+$/.test(key.trim())) throw new TypeError("A key is visible ASCII.");
    this.url = parsed.href.replace(/\/+$/, "");
    this.#key = key.trim();
    // Browsers call their `fetch` as a function of the window only.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Call an operation: `call("GET /api/v1/runs/{run}", { path: { run } })`. */
  async call<O extends keyof Operations>(
    operation: O,
    ...[given]: object extends Arguments<O> ? [Arguments<O>?] : [Arguments<O>]
  ): Promise<Operations[O]["reply"]> {
    const { reply, keyed } = OPERATIONS[operation];
    const request: SentRequest = { ...(given as SentRequest | undefined) };
    // One key for all attempts: the server carries out one of them.
    if (keyed) request.idempotencyKey ??= crypto.randomUUID();
    const repeatable = keyed || operation.startsWith("GET ");
    const url = buildUrl(this.url, operation, request);
    for (let attempt = 0; ; attempt++) {
      try {
        const response = await this.#send(operation, url, request);
        if (reply === "bytes") return new Uint8Array(await response.arrayBuffer()) as never;
        return (await (reply === "json" ? response.json() : response.text())) as never;
      } catch (error) {
        await waitToRetry(toFailure(error, request.signal), attempt, repeatable, request.signal);
      }
    }
  }

  /**
   * Yield the entries of a run, until it has ended. After a lost connection it goes on with the
   * entry after the last one that was yielded; none is missed, and none comes twice.
   */
  follow(run: string, options: FollowOptions = {}): AsyncGenerator<RunEvent, void> {
    return this.#follow("GET /api/v1/runs/{run}/events", { run }, options);
  }

  /** Yield the entries of the whole log as `follow` does, without an end. */
  followLog(options: FollowOptions = {}): AsyncGenerator<RunEvent, void> {
    return this.#follow("GET /api/v1/events", {}, options);
  }

  async *#follow(
    operation: string,
    path: Record<string, string>,
    { after = -1, signal }: FollowOptions,
  ): AsyncGenerator<RunEvent, void> {
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted();
      const url = buildUrl(this.url, operation, { path, query: { after } });
      // A connection without a word is dead: its end may have been lost.
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), SILENCE_TIMEOUT_MS);
      const leave = () => silence.abort();
      signal?.addEventListener("abort", leave);
      let failure: Error = new UnreachableError("The server closed the stream.");
      try {
        const response = await this.#send(operation, url, { signal: silence.signal });
        if (response.status === 204 || !response.body) return;
        const text = new TextDecoder();
        let pending = "";
        for await (const piece of response.body) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENCE_TIMEOUT_MS);
          const blocks = (pending + text.decode(piece, { stream: true })).split("\n\n");
          pending = blocks.pop() ?? "";
          for (const event of blocks.map(readEvent)) {
            if (!event || event.index <= after) continue;
            after = event.index;
            attempt = -1; // a connection that brought an event was not in vain
            yield event;
            if ("run" in path && event.kind === "run.close/1") return;
          }
        }
      } catch (error) {
        failure = toFailure(error, signal);
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", leave);
        silence.abort(); // closes the connection, also if the caller leaves the loop
      }
      await waitToRetry(failure, Math.max(attempt, 0), true, signal);
    }
  }

  async #send(operation: string, url: URL, request: SentRequest): Promise<Response> {
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#key}`,
      "user-agent": `forumd-client/${VERSION}`,
    };
    if (request.body !== undefined) headers["content-type"] = "application/json";
    if (request.idempotencyKey) headers["idempotency-key"] = request.idempotencyKey;
    const response = await this.#fetch(url, {
      method: operation.split(" ", 1)[0] ?? "",
      headers,
      redirect: "manual", // the key is for this server only
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: request.signal ?? null,
    });
    if (!response.ok) throw await readProblem(response);
    return response;
  }
}

function buildUrl(base: string, operation: string, { path = {}, query = {} }: SentRequest): URL {
  const filled = (operation.split(" ")[1] ?? "").replace(/{(\w+)}/g, (_, name: string) => {
    const value = String(path[name] ?? "");
    const segments = DEEP_PARAMETERS.has(name) ? value.split("/") : [value];
    // A proxy resolves dots, and would send the request to another operation.
    if (segments.some((part) => ["", ".", ".."].includes(part))) {
      throw new TypeError(`${name}: ${JSON.stringify(value)} is no name.`);
    }
    return segments.map(encodeURIComponent).join("/");
  });
  const url = new URL(base + filled);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}

async function readProblem(response: Response): Promise<ProblemError> {
  type Reply = Partial<Details> & { error?: { message?: string } };
  // A proxy answers with a page, which is not quoted.
  const details = (await response.json().catch(() => ({}))) as Reply;
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new ProblemError(
    response.status,
    details.type ?? "",
    details.title ?? `The server answered with status ${response.status}`,
    details.detail ?? details.error?.message ?? "",
    Number.isFinite(seconds) ? seconds : undefined,
  );
}

/** Return an error of this module. Throws the reason of a caller who has stopped the call. */
function toFailure(error: unknown, signal: AbortSignal | undefined): Error {
  if (error instanceof ProblemError) return error;
  if (signal?.aborted) throw signal.reason;
  const { message, cause } = error as Error & { cause?: { message?: string } };
  return new UnreachableError(`The server cannot be reached: ${cause?.message ?? message}`);
}

/** Wait before the next attempt. Throws the failure if there is to be none. */
async function waitToRetry(
  failure: Error,
  attempt: number,
  repeatable: boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  let delay = RETRY_DELAYS_MS[attempt];
  if (!repeatable || delay === undefined) throw failure;
  if (failure instanceof ProblemError) {
    const passing = ["too-many-requests", "share-in-use", "not-signed-yet"];
    const isPassing = passing.some((type) => failure.is(type));
    if (!isPassing && ![502, 503, 504].includes(failure.status)) throw failure;
    delay = Math.max(delay, 1000 * (failure.retryAfter ?? 0));
    if (delay > MAX_RETRY_AFTER_MS) throw failure;
  }
  await new Promise((resolve) => setTimeout(resolve, delay));
  signal?.throwIfAborted();
}

/** Return the event of a block; nothing of a comment, or of text that a model streams. */
function readEvent(block: string): RunEvent | undefined {
  const lines = block.split("\n");
  const find = (name: string) =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const [kind, data] = [find("event"), find("data")];
  if (find("id") === undefined || !kind || !data) return undefined;
  const { id, index, entry } = JSON.parse(data) as Omit<RunEvent, "kind" | "raw">;
  return { index, id, kind, entry, raw: data.slice(data.indexOf(',"entry":') + 9, -1) };
}
