import { useMemo } from "preact/hooks";
import { getCauses } from "../api/calls";
import { useLoad } from "../api/load";
import type { EntryCheck } from "../api/proof";
import type { Entry, Item } from "../model/entries";
import { type Exchange, findExchange, titleOfStrand } from "../model/exchange";
import { formatClock } from "../model/format";
import { own } from "../model/own";
import { EntryBadge } from "./Badge";
import { BodyText } from "./BodyText";
import { ErrorNote } from "./Notes";
import { SafeText } from "./Text";

interface InspectorProps {
  item: Item;
  /** All entries of the run, or of the page. */
  items: Item[];
  check: EntryCheck | null;
  onChoose: (entry: number) => void;
  onClose: () => void;
}

/** One step: what it was asked, what it replied, and then the entry with its facts and hashes. */
export function Inspector({ item, items, check, onChoose, onClose }: InspectorProps) {
  const { entry, index } = item;
  const exchange = useMemo(() => findExchange(items, item), [items, item]);
  return (
    <aside class="card inspector" aria-label="Entry">
      <div class="card-head">
        <h2>
          <SafeText text={exchange ? titleOfStrand(entry.strand) : `Entry ${index}`} />
        </h2>
        <button type="button" class="end" onClick={onClose}>
          Close
        </button>
      </div>
      <div class="stack">
        {exchange && <ExchangeTexts exchange={exchange} />}
        {exchange ? (
          <details>
            <summary>
              Entry {index}: {entry.kind}, with its facts and hashes
            </summary>
            <EntryDetails item={item} check={check} shown={exchange} onChoose={onChoose} />
          </details>
        ) : (
          <EntryDetails item={item} check={check} shown={null} onChoose={onChoose} />
        )}
      </div>
    </aside>
  );
}

function ExchangeTexts({ exchange }: { exchange: Exchange }) {
  const { asked, replied } = exchange;
  return (
    <>
      {asked && <Texts item={asked} names={ASKED_BODIES} title="What it was asked" />}
      {replied && <Texts item={replied} names={REPLIED_BODIES} title="What it replied" isProse />}
      {!replied && <p class="small quiet">There is no reply yet.</p>}
    </>
  );
}

const ASKED_BODIES = ["prompt", "input"];
const REPLIED_BODIES = ["output", "uses", "error"];

interface TextsProps {
  item: Item;
  names: string[];
  title: string;
  isProse?: boolean;
}

/** The bodies of an entry that people read; the first of them has the title. */
function Texts({ item, names, title, isProse }: TextsProps) {
  const found = names.flatMap((name) => {
    const commitment = own(item.entry.bodies, name);
    return commitment ? [{ name, commitment }] : [];
  });
  if (!found.length) return null;
  return (
    <>
      {found.map(({ name, commitment }, number) => (
        <BodyText
          key={`${item.index} ${name}`}
          entry={item.index}
          name={name}
          title={number === 0 && name !== "error" ? title : (own(MORE_TITLES, name) ?? name)}
          commitment={commitment}
          isProse={isProse === true && name === "output"}
        />
      ))}
    </>
  );
}

const MORE_TITLES: Record<string, string> = { uses: "Tools that it asked for", error: "Error" };

interface EntryDetailsProps {
  item: Item;
  check: EntryCheck | null;
  /** What stands above already. */
  shown: Exchange | null;
  onChoose: (entry: number) => void;
}

function EntryDetails({ item, check, shown, onChoose }: EntryDetailsProps) {
  const { entry, index, id } = item;
  const isShown = item === shown?.asked || item === shown?.replied;
  const hidden = isShown ? new Set([...ASKED_BODIES, ...REPLIED_BODIES]) : new Set<string>();
  return (
    <div class="stack">
      <EntryBadge check={check} item={item} />
      <Facts entry={entry} id={id} />
      {Object.entries(entry.bodies)
        .filter(([name]) => !hidden.has(name))
        .map(([name, commitment]) => (
          <BodyText key={`${index} ${name}`} entry={index} name={name} commitment={commitment} />
        ))}
      <Causes key={index} index={index} onChoose={onChoose} />
    </div>
  );
}

function Facts({ entry, id }: { entry: Entry; id: string }) {
  const facts = Object.entries(entry.facts).filter(([, value]) => value !== "" && value !== null);
  const rows: [string, string][] = [
    ["kind", entry.kind],
    ["strand", `${entry.strand}, number ${entry.n}`],
    ["step", entry.step],
    ["actor", entry.actor],
    ["time", `${formatClock(entry.ts)} UTC, by the writer's clock`],
    ...facts.map(([name, value]): [string, string] => [
      name,
      typeof value === "object" ? JSON.stringify(value) : String(value),
    ]),
    ["id", id],
  ];
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd class={name === "id" ? "mono" : ""}>
            <SafeText text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Why the entry is there: the entries that led to it, the nearest first. */
function Causes({ index, onChoose }: { index: number; onChoose: (entry: number) => void }) {
  const { data, error } = useLoad(() => getCauses(index), [index]);
  if (error) return <ErrorNote error={error} />;
  const causes = (data?.causes ?? []).filter((cause) => cause.depth > 0);
  if (!data) return null;
  return (
    <section>
      <h3>Why it is there</h3>
      {causes.length === 0 && <p class="small quiet">Nothing led to it: it begins its strand.</p>}
      <ol class="causes">
        {causes.map((cause) => {
          const entry = cause.entry as unknown as Entry;
          return (
            <li key={cause.id} style={{ paddingLeft: `${Math.min(cause.depth - 1, 6) * 10}px` }}>
              <button
                type="button"
                class="plain"
                disabled={cause.index === null}
                onClick={() => cause.index !== null && onChoose(cause.index)}
              >
                {cause.index ?? "unsigned"}
              </button>{" "}
              {entry.kind} <span class="quiet">{entry.strand}</span>
              {cause.judge && (
                <p class="small quiet">
                  <SafeText text={cause.judge} />
                </p>
              )}
            </li>
          );
        })}
      </ol>
    </section>
  );
}
