// The client against a real server, which these tests start, kill and start again.
// FORUM names the command; without it, `forum` is looked for in PATH.

import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { Client, ProblemError, UnreachableError, type TaskAsk } from "../src/client.js";

const FORUM = process.env["FORUM"] ?? "forum";
const SETTINGS = `
[models.default]
kind = "scripted"

[models.default.moves]
"*" = [{ say = "done, word by word", milliseconds = 100 }]
`;
const CHAIN: TaskAsk[] = Array.from({ length: 6 }, (_, n) => ({
  id: `t${n}`,
  instruction: "Go on.",
  after: n ? [`t${n - 1}`] : [],
}));

const folder = mkdtempSync(join(tmpdir(), "forum-typescript-"));
const options = { cwd: folder, env: { ...process.env, FORUM_STATE_DIR: join(folder, "state") } };
let port: number;
let key: string;
let server: ChildProcess;
let client: Client;

async function start(): Promise<ChildProcess> {
  const started = spawn(FORUM, ["up", "--port", String(port)], { ...options, stdio: "ignore" });
  for (let tries = 0; tries < 600; tries++) {
    assert.equal(started.exitCode, null, "the server ended");
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    await ready?.text();
    if (ready?.ok) return started;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("the server does not start");
}

async function listen(listener: Server): Promise<number> {
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return (listener.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const probe = createServer();
  const found = await listen(probe);
  probe.close();
  return found;
}

/** Pass bytes to the server, and cut each connection after some bytes of its reply. */
async function cutting(budget: (connection: number) => number) {
  const seen = { connections: 0, cuts: 0 };
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    let left = budget(seen.connections++);
    const far = connect(port, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
    }
    near.on("data", (data) => far.write(data));
    near.on("close", () => far.destroy());
    far.on("close", () => near.end());
    far.on("data", (data) => {
      near.write(data.subarray(0, left));
      left -= data.length;
      if (left > 0) return;
      seen.cuts++;
      near.end();
      far.destroy();
    });
  });
  const url = `http://127.0.0.1:${await listen(proxy)}`;
  const stop = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url, seen, stop };
}

async function follow(from: Client, run: string, last = -1): Promise<number[]> {
  const indexes: number[] = [];
  for await (const event of from.follow(run, { after: last })) indexes.push(event.index);
  return indexes;
}

async function recorded(run: string): Promise<(number | null)[]> {
  const page = await client.call("GET /api/v1/entries", { query: { run, limit: 1000 } });
  return page.entries.map((entry) => entry.index);
}

before(async () => {
  writeFileSync(join(folder, "forum.toml"), SETTINGS);
  execFileSync(FORUM, ["init"], { ...options, stdio: "ignore" });
  port = await freePort();
  server = await start();
  key = execFileSync(FORUM, ["token"], options).toString().trim();
  client = new Client(`http://127.0.0.1:${port}/`, key);
});

after(async () => {
  server.kill("SIGKILL");
  await once(server, "exit");
  rmSync(folder, { recursive: true, maxRetries: 5 });
});

test("a run from its request to its evidence", async () => {
  const body = { request: "Name three rivers.", route: false };
  const { run } = await client.call("POST /api/v1/runs", { body });
  const kinds: string[] = [];
  for await (const event of client.follow(run)) {
    assert.deepEqual(JSON.parse(event.raw), event.entry);
    kinds.push(event.kind);
  }
  const shown = await client.call("GET /api/v1/runs/{run}", { path: { run } });
  const bundle = await client.call("POST /api/v1/runs/{run}/bundle", { path: { run } });
  const alive = await client.call("GET /livez");

  assert.equal(kinds.at(-1), "run.close/1");
  assert.deepEqual([shown.outcome, shown.answer], ["ok", "done, word by word"]);
  assert.deepEqual(bundle.subarray(0, 2), new TextEncoder().encode("PK"));
  assert.equal(alive, "ok\n");
});

test("the log goes on after the end of a run, and a connection that was cut", async () => {
  const [first] = (await client.call("GET /api/v1/entries", { query: { limit: 1 } })).entries;
  const proxy = await cutting((n) => (n % 3 ? 700 + 13 * n : 2500));
  const body = { request: "Name a river.", route: false };
  const runs = [
    await client.call("POST /api/v1/runs", { body }),
    await client.call("POST /api/v1/runs", { body }),
  ];
  const open = new Set(runs.map(({ run }) => run));
  const seen: number[] = [];
  for await (const event of new Client(proxy.url, key).followLog({ after: first?.index ?? -1 })) {
    seen.push(event.index);
    if (event.kind === "run.close/1") open.delete(String(event.entry.run));
    if (open.size === 0) break;
  }
  proxy.stop();

  assert.deepEqual(seen, seen.map((_, nth) => nth + 1));
  assert.ok(proxy.seen.cuts >= 1);
});

test("a follower goes on where the connection was cut", async () => {
  const body = { request: "Count.", tasks: CHAIN, route: false };
  const { run } = await client.call("POST /api/v1/runs", { body });
  const proxy = await cutting((n) => (n % 3 ? 700 + 13 * n : 2500));
  const live = await follow(new Client(proxy.url, key), run);
  const again = await follow(client, run, live[4]);
  proxy.stop();
  const whole = await recorded(run);

  assert.deepEqual(live, whole);
  assert.deepEqual(again, whole.slice(5));
  assert.ok(proxy.seen.cuts >= 4);
});

test("a follower survives the death of the server", async () => {
  const body = { request: "Count.", tasks: CHAIN, route: false };
  const { run } = await client.call("POST /api/v1/runs", { body });
  const events = client.follow(run);
  const first = (await events.next()).value;
  assert.ok(first);
  server.kill("SIGKILL");
  await once(server, "exit");
  server = await start();
  const seen = [first.index];
  for await (const event of events) seen.push(event.index);

  assert.deepEqual(seen, await recorded(run));
});

test("a lost reply begins no second run", async () => {
  const runs = async () => (await client.call("GET /api/v1/runs", { query: {} })).runs.length;
  const before = await runs();
  const proxy = await cutting((n) => (n < 2 ? 1 : Infinity));
  const body = { request: "Pay once.", route: false };
  await new Client(proxy.url, key).call("POST /api/v1/runs", { body });
  proxy.stop();

  assert.equal(proxy.seen.connections, 3);
  assert.equal(await runs(), before + 1);
});

test("what is not safe is sent once", async () => {
  const proxy = await cutting(() => 1);
  const lost = new Client(proxy.url, key).call("POST /api/v1/keys", {
    body: { name: "once", scopes: ["read"] },
  });
  await assert.rejects(lost, UnreachableError);
  proxy.stop();

  assert.equal(proxy.seen.connections, 1);
});

test("a problem is an error with its type", async () => {
  const missing = client.call("GET /api/v1/runs/{run}", { path: { run: "no-such-run" } });
  await assert.rejects(missing, (error) => error instanceof ProblemError && error.is("not-found"));
  const stranger = new Client(client.url, "nobody").call("GET /api/v1/gates");
  await assert.rejects(stranger, { name: "ProblemError", status: 401 });
  await assert.rejects(follow(client, "no-such-run"), { name: "ProblemError", status: 404 });
  await assert.rejects(client.call("DELETE /api/v1/keys/{key}", { path: { key: ".." } }), TypeError);
});

test("the caller can stop", async () => {
  const body = { request: "Pay.", route: false, gates: { what: ["plan"] } };
  const { run } = await client.call("POST /api/v1/runs", { body });
  const signal = AbortSignal.timeout(500);
  const waiting = (async () => {
    for await (const _ of client.follow(run, { signal }));
  })();
  await assert.rejects(waiting, { name: "TimeoutError" });
  for await (const event of client.follow(run)) {
    assert.ok(event.index >= 0);
    break;
  }
});

test("the key is shown nowhere", async () => {
  const proxy = await cutting(() => 1);
  const cut = new Client(proxy.url, key);
  const error = await cut
    .call("POST /api/v1/verification")
    .catch((caught: unknown) => caught);
  proxy.stop();
  const shown = [inspect(cut, { depth: 9, showHidden: true }), JSON.stringify(cut)];
  shown.push(inspect(error, { depth: 9, showHidden: true }));
  assert.throws(
    () => new Client(client.url, `${key}\nx: y`),
    (bad) => !inspect(bad).includes(key),
  );

  assert.ok(error instanceof UnreachableError);
  assert.deepEqual(shown.filter((text) => text.includes(key)), []);
});
