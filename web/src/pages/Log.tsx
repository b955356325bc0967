import type { CheckpointForm } from "forumd-client";
import { useMemo, useState } from "preact/hooks";
import { getCheckpoint, getEntry, listLogLife } from "../api/calls";
import { useLoad } from "../api/load";
import { type LogPages, openLog } from "../api/logPages";
import { type EntryCheck, useEntryCheck } from "../api/proof";
import { describeWitnesses } from "../model/badge";
import { readSignatures } from "../model/checkpoint";
import type { Item } from "../model/entries";
import { formatClock, formatCount, shortId } from "../model/format";
import { type LifeTopic, readLife } from "../model/logLife";
import { Badge } from "../parts/Badge";
import { CheckNote } from "../parts/CheckNote";
import { Inspector } from "../parts/Inspector";
import { Memory } from "../parts/Memory";
import { ErrorNote, Loading } from "../parts/Notes";
import { PackCard } from "../parts/PackCard";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { VirtualList } from "../parts/VirtualList";
import { address, type Route, replaceAddress } from "../router";
import "./Log.css";

const POLL_MS = 10_000;

/** The log as a whole: what was signed, who saw it, its entries, and what happened to it. */
export function Log({ route }: { route: Route }) {
  const checkpoint = useLoad(getCheckpoint, [], POLL_MS);
  const pages = useMemo(openLog, []);
  const items = pages.items.value;
  const check = useEntryCheck(null, items);
  const wanted = route.query.get("entry") ?? "";
  const chosen = /^\d+$/.test(wanted) ? Number(wanted) : null;
  const choose = (entry: number | null) =>
    replaceAddress(address("log", [], { entry: entry === null ? "" : String(entry) }));
  const size = checkpoint.data?.size ?? 0;
  const item = chosen === null || chosen >= size ? undefined : pages.item(chosen);
  return (
    <>
      <div class="page-head">
        <h1>Log and witnesses</h1>
        <Badge check={check} items={items} />
      </div>
      <CheckNote check={check} />
      <div class={item ? "columns" : ""}>
        <div class="stack">
          <div class="pair">
            <CheckpointCard loaded={checkpoint} check={check} />
            <Memory />
          </div>
          <LogEntries size={size} pages={pages} chosen={chosen} choose={choose} />
          <PackCard />
          <Life choose={choose} />
        </div>
        {item && (
          <Inspector
            item={item}
            items={[]}
            check={check}
            onChoose={choose}
            onClose={() => choose(null)}
          />
        )}
      </div>
    </>
  );
}

interface CheckpointCardProps {
  loaded: { data: CheckpointForm | null; error: Error | null; reload: () => void };
  check: EntryCheck | null;
}

/** The newest checkpoint, and how old each signature is. */
function CheckpointCard({ loaded: { data, error, reload }, check }: CheckpointCardProps) {
  const verdict = check?.state.value.verdict;
  return (
    <section class="card">
      <h2>Newest checkpoint</h2>
      {error && <ErrorNote error={error} retry={reload} />}
      {!data && !error && <Loading what="the checkpoint" />}
      {data && (
        <div class="stack">
          <dl class="facts">
            <div>
              <dt>log</dt>
              <dd>
                <code>{data.origin}</code>
              </dd>
            </div>
            <div>
              <dt>entries</dt>
              <dd>{formatCount(data.size)}</dd>
            </div>
            <div>
              <dt>root</dt>
              <dd>
                <code>{data.root}</code>
              </dd>
            </div>
          </dl>
          <Signatures note={data.note} />
          <p class="small quiet">
            {verdict?.state === "proven"
              ? `Checked by this browser: ${describeWitnesses(verdict.proof)}`
              : "As the server says."}
          </p>
        </div>
      )}
    </section>
  );
}

function Signatures({ note }: { note: string }) {
  const signatures = readSignatures(note);
  const isAlone = signatures.every(({ at }) => at === null);
  return (
    <>
      <table>
        <thead>
          <tr>
            <th>Signed by</th>
            <th>As</th>
            <th class="number">When</th>
          </tr>
        </thead>
        <tbody>
          {signatures.map(({ name, at }) => (
            <tr key={name}>
              <td>
                <code>{name}</code>
              </td>
              <td>{at === null ? "the log" : "witness"}</td>
              <td class="number">{at === null ? "" : <Time at={at} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {isAlone && (
        <p class="small quiet">
          No witness has cosigned it. <code>forum witness --help</code> says how to add one.
        </p>
      )}
    </>
  );
}

interface LogEntriesProps {
  size: number;
  pages: LogPages;
  chosen: number | null;
  choose: (entry: number) => void;
}

/** All signed entries, the newest first; pages are read where the reader looks. */
function LogEntries({ size, pages, chosen, choose }: LogEntriesProps) {
  const indexes = useMemo(() => Array.from({ length: size }, (_, at) => size - 1 - at), [size]);
  const error = pages.error.value;
  pages.items.value; // draws again when a page has come
  return (
    <section class="card">
      <div class="card-head">
        <h2>Entries ({formatCount(size)})</h2>
        <Search choose={choose} />
      </div>
      {error && <ErrorNote error={error} />}
      {size === 0 && <p class="quiet">Nothing is signed yet. Submit a run to begin.</p>}
      {size > 0 && (
        <div class="entry entry-head" aria-hidden="true">
          <span class="number">Index</span>
          <span>Time (UTC)</span>
          <span>Run</span>
          <span>Kind</span>
          <span>By</span>
        </div>
      )}
      {size > 0 && (
        <VirtualList
          items={indexes}
          label="Entries of the log"
          chosen={chosen === null || chosen >= size ? -1 : size - 1 - chosen}
          onChoose={choose}
        >
          {(index) => (
            <EntryRow
              key={index}
              index={index}
              item={pages.item(index)}
              isChosen={index === chosen}
              choose={choose}
            />
          )}
        </VirtualList>
      )}
    </section>
  );
}

interface EntryRowProps {
  index: number;
  item: Item | undefined;
  isChosen: boolean;
  choose: (entry: number) => void;
}

function EntryRow({ index, item, isChosen, choose }: EntryRowProps) {
  return (
    <button type="button" class="entry" aria-pressed={isChosen} onClick={() => choose(index)}>
      <span class="number">{index}</span>
      <span class="quiet">{item ? formatClock(item.entry.ts) : "…"}</span>
      <span class="clip">
        {item?.entry.run === "log" ? "log" : item && shortId(item.entry.run)}
      </span>
      <span class="clip">{item?.entry.kind}</span>
      <span class="clip quiet">{item?.entry.actor}</span>
    </button>
  );
}

/** Find an entry by its index, or by the first digits of its id. */
function Search({ choose }: { choose: (entry: number) => void }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const find = async (event: Event) => {
    event.preventDefault();
    try {
      const { index } = await getEntry(text.trim().toLowerCase());
      setFault(index === null ? "This entry is not signed yet." : "");
      if (index !== null) choose(index);
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  return (
    <form class="end find" onSubmit={find}>
      {fault && (
        <span class="small tone-bad" role="alert">
          {fault}
        </span>
      )}
      <input
        type="search"
        placeholder="Index or id"
        aria-label="Find an entry by its index or the first digits of its id"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" disabled={!text.trim()}>
        Find
      </button>
    </form>
  );
}

const TOPICS: [LifeTopic | "", string][] = [
  ["", "Everything"],
  ["log", "Log and its keys"],
  ["access", "Access"],
  ["redactions", "Redactions"],
  ["oversight", "Oversight"],
  ["exports", "Exports"],
  ["other", "Other"],
];

/** What happened to the log itself: keys, grants, denials, oversight, redactions, exports. */
function Life({ choose }: { choose: (entry: number) => void }) {
  const { data, error, reload } = useLoad(listLogLife, [], POLL_MS);
  const [topic, setTopic] = useState<string>("");
  const events = useMemo(() => readLife(data ?? []), [data]);
  const shown = events.filter((event) => !topic || event.topic === topic);
  return (
    <section class="card">
      <div class="card-head">
        <h2>Life of the log</h2>
        <select
          class="end"
          aria-label="Kind of event"
          value={topic}
          onChange={(event) => setTopic(event.currentTarget.value)}
        >
          {TOPICS.map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      </div>
      {error && <ErrorNote error={error} retry={reload} />}
      {!data && !error && <Loading what="the life of the log" />}
      {data && shown.length === 0 && <p class="quiet">Nothing of this kind has happened.</p>}
      {shown.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard
        <section class="life" aria-label="Events of the log" tabIndex={0}>
          <table>
            <tbody>
              {shown.map(({ item, title, detail }) => (
                <tr key={item.index}>
                  <td class="number">
                    <button type="button" class="plain" onClick={() => choose(item.index)}>
                      {item.index}
                    </button>
                  </td>
                  <td>
                    <span class="strong">{title}</span>{" "}
                    <span class="quiet">
                      <SafeText text={detail} />
                    </span>
                  </td>
                  <td class="quiet by">
                    <SafeText text={item.entry.actor} />
                  </td>
                  <td class="number">
                    <Time at={item.entry.ts / 1000} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </section>
  );
}
