// Whether the process that the session belongs to still answers at this address.
//
// When a server has stopped, any program on its machine can listen at the same port. So the page
// asks for the id of the process, without a credential, before it shows its session key.

/** For how long an answer counts: requests that belong together share one. */
const CHECK_MS = 500;

/** Another program answers at this address, or the server was started again. */
export class OtherServerError extends Error {
  override name = "OtherServerError";

  constructor() {
    super("Another process answers at this address than the one that you have signed in to.");
  }
}

let lastAnswer = { instance: "", at: Number.NEGATIVE_INFINITY };
let asking: Promise<string> | null = null;

/** Throw `OtherServerError` unless this process answers. An empty id stands for any process. */
export async function checkServer(instance: string): Promise<void> {
  const isRecent = performance.now() - lastAnswer.at < CHECK_MS;
  if (!instance || (isRecent && lastAnswer.instance === instance)) return;
  // Requests of an earlier session may still be repeated: each compares the answer with its own.
  asking ??= askServer().finally(() => {
    asking = null;
  });
  if ((await asking) !== instance) throw new OtherServerError();
}

async function askServer(): Promise<string> {
  const at = performance.now();
  const response = await fetch("/ui/instance", { cache: "no-store", credentials: "omit" });
  // A proxy whose server is away, or a server with too much to do, says nothing about who answers.
  if (response.status >= 500) throw new TypeError("The server does not say which process it is.");
  const instance = response.ok ? await readInstance(response) : "";
  lastAnswer = { instance, at };
  return instance;
}

async function readInstance(response: Response): Promise<string> {
  try {
    const reply = (await response.json()) as { instance?: unknown } | null;
    return typeof reply?.instance === "string" ? reply.instance : "";
  } catch {
    return "";
  }
}
