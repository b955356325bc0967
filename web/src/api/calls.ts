// Every call that pages make. A page names what it wants; how the server is asked stands here.

import {
  type Answer,
  type AskForm,
  type BudgetsForm,
  type CheckpointForm,
  type CostAxis,
  type CostsForm,
  type DecisionForm,
  type DiffForm,
  type EntriesPage,
  type EntryForm,
  type EvaluationForm,
  type EvaluationsPage,
  type ExchangeForm,
  type GateEditForm,
  type GateForm,
  type KeyAsk,
  type KeyForm,
  type LaneForm,
  type ModelForm,
  type NewKeyForm,
  type PlanForm,
  ProblemError,
  type RunForm,
  type RunsPage,
  type ShownGateForm,
  type Taken,
  type TranscriptPage,
  type UpstreamsForm,
  type WhyForm,
} from "forumd-client";
import type { Body } from "../model/body";
import { placeOf } from "../model/comparison";
import { type Item, readItem } from "../model/entries";
import { isListed, queryOf, type RunFilter } from "../model/runs";
import { client, fetchAs, me, session, signOut } from "./session";

const PAGE_SIZE = 100;

/** Ask the server who the key is. */
export async function loadMe(): Promise<void> {
  me.value = await guarded(client.value.call("GET /api/v1/me"));
}

/** List runs, the newest first, beginning with the first `pages` pages. */
export async function listRuns(filter: RunFilter, pages: number): Promise<RunsPage> {
  const listed: RunsPage = { runs: [], next: null };
  for (let page = 0; page < pages; page++) {
    const query = {
      ...queryOf(filter),
      limit: PAGE_SIZE,
      ...(listed.next ? { cursor: listed.next } : {}),
    };
    const found = await guarded(client.value.call("GET /api/v1/runs", { query }));
    listed.runs.push(...found.runs.filter((run) => isListed(run, filter)));
    listed.next = found.next;
    listed.unsearched = (listed.unsearched ?? 0) + (found.unsearched ?? 0);
    if (found.next === null) break;
  }
  return listed;
}

/** A run as it stands, or as it stood when the entry `until` was the last. */
export function getRun(
  run: string,
  options: { until?: number; signal?: AbortSignal } = {},
): Promise<RunForm> {
  const { until, ...rest } = options;
  const query = until === undefined ? {} : { until };
  return guarded(client.value.call("GET /api/v1/runs/{run}", { path: { run }, query, ...rest }));
}

/** How many steps of a transcript are loaded at once. */
export const TRANSCRIPT_PAGE_SIZE = 50;

/** A page of a run's steps as messages, by the entry that ends each, or begins it. */
export async function getExchanges(run: string, page: number): Promise<Map<number, ExchangeForm>> {
  const found = new Map<number, ExchangeForm>();
  const end = (page + 1) * TRANSCRIPT_PAGE_SIZE;
  let after: number | null = page * TRANSCRIPT_PAGE_SIZE;
  // Long texts make a page shorter.
  while (after !== null && after < end) {
    const query: { after: number; limit: number } = { after, limit: end - after };
    const read: TranscriptPage = await guarded(
      client.value.call("GET /api/v1/runs/{run}/transcript", { path: { run }, query }),
    );
    for (const exchange of read.exchanges) {
      if (exchange.entry !== null) found.set(exchange.entry, exchange);
    }
    after = read.next;
  }
  return found;
}

/** Where two runs part, by the rules of `forum diff`. */
export function diffRuns(run: string, other: string): Promise<DiffForm> {
  return guarded(
    client.value.call("GET /api/v1/runs/{run}/diff/{other}", { path: { run, other } }),
  );
}

/** What would be done for a request; with `record` the question and the reply are recorded. */
export function previewPlan(order: AskForm, record = false): Promise<PlanForm> {
  return guarded(client.value.call("POST /api/v1/plan", { body: { ...order, record } }));
}

/** Submit a run. With the same ticket it is submitted once, however often this is called. */
export function submitRun(order: AskForm, ticket: string): Promise<Taken> {
  return guarded(client.value.call("POST /api/v1/runs", { body: order, idempotencyKey: ticket }));
}

/** Begin a run that takes over another one's replies up to an entry; once for each ticket. */
export function forkRun(run: string, at: number, ticket: string): Promise<Taken> {
  return guarded(
    client.value.call("POST /api/v1/runs/{run}/fork", {
      path: { run },
      body: { at },
      idempotencyKey: ticket,
    }),
  );
}

export async function listLanes(): Promise<LaneForm[]> {
  return (await guarded(client.value.call("GET /api/v1/roster"))).lanes;
}

export async function listAgents(): Promise<ModelForm[]> {
  return (await guarded(client.value.call("GET /api/v1/models"))).agents;
}

/** List evaluations, the newest first, beginning with the first `pages` pages. */
export async function listEvaluations(pages: number): Promise<EvaluationsPage> {
  const listed: EvaluationsPage = { evaluations: [], next: null };
  for (let page = 0; page < pages; page++) {
    const query = listed.next ? { cursor: listed.next } : {};
    const found = await guarded(client.value.call("GET /api/v1/evaluations", { query }));
    listed.evaluations.push(...found.evaluations);
    listed.next = found.next;
    if (found.next === null) break;
  }
  return listed;
}

export function getEvaluation(run: string): Promise<EvaluationForm> {
  return guarded(client.value.call("GET /api/v1/evaluations/{run}", { path: { run } }));
}

/** What the runs of a period have cost; `split` tells the dollars of each row apart again. */
export function getCosts(
  by: CostAxis,
  { since, until }: { since: string; until: string },
  split?: CostAxis,
): Promise<CostsForm> {
  const query = { by, ...(since && { since }), ...(until && { until }), ...(split && { split }) };
  return guarded(client.value.call("GET /api/v1/costs", { query }));
}

export function listBudgets(): Promise<BudgetsForm> {
  return guarded(client.value.call("GET /api/v1/budgets"));
}

/** How providers have answered in a period, as far as the newest entries have it. */
export function getUpstreams(period: { since: string; until: string }): Promise<UpstreamsForm> {
  const { since, until } = period;
  const query = { ...(since && { since }), ...(until && { until }) };
  return guarded(client.value.call("GET /api/v1/upstreams", { query }));
}

export function cancelRun(run: string): Promise<Taken> {
  return guarded(client.value.call("POST /api/v1/runs/{run}/cancel", { path: { run } }));
}

export function getCauses(entry: number): Promise<WhyForm> {
  const path = { entry: String(entry) };
  return guarded(
    client.value.call("GET /api/v1/entries/{entry}/causes", { path, query: { limit: 25 } }),
  );
}

export function getEntry(entry: string): Promise<EntryForm> {
  return guarded(client.value.call("GET /api/v1/entries/{entry}", { path: { entry } }));
}

export function getCheckpoint(): Promise<CheckpointForm> {
  return guarded(client.value.call("GET /api/v1/checkpoint"));
}

export async function listGates(): Promise<GateForm[]> {
  return (await guarded(client.value.call("GET /api/v1/gates"))).gates;
}

export function getGate(run: string, subject: string): Promise<ShownGateForm> {
  return guarded(
    client.value.call("GET /api/v1/runs/{run}/gate", { path: { run }, query: { subject } }),
  );
}

export interface GateContent {
  gate: ShownGateForm;
  /** What the gate's entry commits to; null if it was erased. */
  body: Body | null;
}

/** What waits at a gate, with the bytes and the salt that its digest is computed from. */
export async function getGateContent(run: string, subject: string): Promise<GateContent> {
  const gate = await getGate(run, subject);
  if (gate.index !== null) return { gate, body: await getBody(gate.index, "shown") };
  // The entry has no index for a moment; `shown` has all bytes if they are text.
  const content = new TextEncoder().encode(gate.shown);
  return { gate, body: gate.salt === null ? null : { content, salt: gate.salt } };
}

/** Find the entries of a run at some places (see `placeOf`); no more is read than necessary. */
export async function findSteps(run: string, places: Set<string>): Promise<Map<string, Item>> {
  const found = new Map<string, Item>();
  if (places.size === 0) return found;
  for await (const item of readEntries(run)) {
    const place = placeOf(item.entry);
    if (places.has(place)) found.set(place, item);
    if (found.size === places.size) break;
  }
  return found;
}

/** All entries of a run that have a place in the log, in its order. */
async function* readEntries(run: string): AsyncGenerator<Item> {
  let after: number | null = -1;
  while (after !== null) {
    const query = { run, after, limit: 1000 };
    const page: EntriesPage = await guarded(client.value.call("GET /api/v1/entries", { query }));
    for (const { id, index, entry } of page.entries) {
      if (index !== null) yield readItem({ id, index, entry });
    }
    after = page.next;
  }
}

/** The entries about the log itself: keys, grants, denials, redactions, exports. */
export async function listLogLife(): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of readEntries("log")) items.push(item);
  return items;
}

/** Entries of the whole log from an index on, at most 1,000. */
export async function listLog(from: number, limit: number): Promise<Item[]> {
  const query = { after: from - 1, limit };
  const { entries } = await guarded(client.value.call("GET /api/v1/entries", { query }));
  return entries.flatMap(({ id, index, entry }) =>
    index === null ? [] : [readItem({ id, index, entry })],
  );
}

export function decideGate(
  run: string,
  decision: { subject: string; answer: Answer; digest: string; reason: string },
): Promise<DecisionForm> {
  return guarded(
    client.value.call("POST /api/v1/runs/{run}/gate", { path: { run }, body: decision }),
  );
}

export function editGate(
  run: string,
  edit: { subject: string; digest: string; shown: string },
): Promise<GateEditForm> {
  return guarded(client.value.call("PUT /api/v1/runs/{run}/gate", { path: { run }, body: edit }));
}

export async function listKeys(): Promise<KeyForm[]> {
  return (await guarded(client.value.call("GET /api/v1/keys"))).keys;
}

/** Make a key. The reply holds its secret, which nobody can ask for again. */
export function createKey(ask: KeyAsk): Promise<NewKeyForm> {
  return guarded(client.value.call("POST /api/v1/keys", { body: ask }));
}

export function revokeKey(key: string): Promise<KeyForm> {
  return guarded(client.value.call("DELETE /api/v1/keys/{key}", { path: { key } }));
}

/** The evidence of a run, as a bundle that verifies offline. */
export function takeBundle(run: string): Promise<Uint8Array> {
  return guarded(client.value.call("POST /api/v1/runs/{run}/bundle", { path: { run } }));
}

/** What an evidence pack is to be about: days, the first of them included and the last one not. */
export interface PackRequest {
  since: string;
  until: string;
  sample: number;
}

/** The evidence of a period, as a pack in which every figure can be computed again. */
export function takePack(request: PackRequest): Promise<Uint8Array> {
  return guarded(client.value.call("POST /api/v1/evidence", { body: request }));
}

/** A body with its salt, which the client of the API does not give; `null` if it was erased. */
export async function getBody(entry: number, name: string): Promise<Body | null> {
  const shown = session.value;
  const path = `/api/v1/entries/${entry}/bodies/${encodeURIComponent(name)}`;
  const response = await fetchAs(shown)(path, {
    headers: { authorization: `Bearer ${shown?.key || "none"}` },
  });
  if (response.status === 410) return null;
  if (response.status === 401) signOut("Your key is no longer accepted.");
  if (!response.ok) throw new Error(`The server answered with status ${response.status}.`);
  const content = new Uint8Array(await response.arrayBuffer());
  return { content, salt: response.headers.get("forum-salt") ?? "" };
}

/** Return the result of a call. A key that is no longer valid leads to the sign-in. */
async function guarded<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ProblemError && error.status === 401) signOut(error.detail);
    throw error;
  }
}
