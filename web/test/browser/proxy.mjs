// A server in between that lies: it has an origin of its own, and changes what comes from Forum.

import { createServer, request } from "node:http";
import { Transform } from "node:stream";

/**
 * Start a proxy. Its fields may be changed while it runs:
 * `target`, the address of the server; `key`, which replaces that of the page; `lie(path)`, which returns null, or how to change a reply:
 * `{ status }`, `{ change: (body) => body }` for a whole reply, `{ event: (text) => text }` for each
 * event of a stream; and `gate`, a promise that replies of the log wait for.
 */
export async function startProxy(target) {
  const proxy = {
    target,
    key: "",
    lie: () => null,
    gate: null,
    url: "",
    close: () => server.close(),
  };
  const server = createServer((asked, reply) => {
    // Compressed bytes could not be changed.
    const headers = { ...asked.headers, "accept-encoding": "identity" };
    delete headers["if-none-match"];
    if (proxy.key && headers.authorization) headers.authorization = `Bearer ${proxy.key}`;
    const options = { method: asked.method, headers };
    const forwarded = request(new URL(asked.url, proxy.target), options, (answer) =>
      send(proxy, asked.url, answer, reply),
    );
    forwarded.on("error", () => reply.destroy());
    reply.on("close", () => forwarded.destroy());
    asked.pipe(forwarded);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  return proxy;
}

async function send(proxy, path, answer, reply) {
  const lie = proxy.lie(path);
  if (path.startsWith("/tlog/")) await proxy.gate;
  const headers = { ...answer.headers };
  if (lie?.status) {
    reply.writeHead(lie.status, { "content-type": "text/plain" }).end();
    answer.destroy();
  } else if (lie?.change) {
    const pieces = [];
    for await (const piece of answer) pieces.push(piece);
    const body = lie.change(Buffer.concat(pieces));
    reply.writeHead(answer.statusCode, { ...headers, "content-length": body.length }).end(body);
  } else {
    reply.writeHead(answer.statusCode, headers);
    const stream = lie?.event ? answer.pipe(eventChanger(lie.event)) : answer;
    stream.pipe(reply);
  }
}

/** Change each event of a stream; an empty text leaves it out. */
function eventChanger(change) {
  let pending = "";
  return new Transform({
    transform(piece, _encoding, done) {
      const events = (pending + piece.toString()).split("\n\n");
      pending = events.pop();
      done(
        null,
        events
          .map((event) => `${event}\n\n`)
          .map(change)
          .join(""),
      );
    },
  });
}
