import { getCauses } from "../api/calls";
import { useLoad } from "../api/load";
import type { EntryCheck } from "../api/proof";
import type { Entry, Item } from "../model/entries";
import { formatClock } from "../model/format";
import { EntryBadge } from "./Badge";
import { BodyText } from "./BodyText";
import { ErrorNote } from "./Notes";
import { SafeText } from "./Text";

interface InspectorProps {
  item: Item;
  check: EntryCheck | null;
  onChoose: (entry: number) => void;
  onClose: () => void;
}

/** One entry: what it says, its bodies, and what led to it. */
export function Inspector({ item, check, onChoose, onClose }: InspectorProps) {
  const { entry, index, id } = item;
  return (
    <aside class="card inspector" aria-label="Entry">
      <div class="card-head">
        <h2>Entry {index}</h2>
        <button type="button" class="end" onClick={onClose}>
          Close
        </button>
      </div>
      <div class="stack">
        <EntryBadge check={check} item={item} />
        <Facts entry={entry} id={id} />
        {Object.entries(entry.bodies).map(([name, commitment]) => (
          <BodyText key={`${index} ${name}`} entry={index} name={name} commitment={commitment} />
        ))}
        <Causes key={index} index={index} onChoose={onChoose} />
      </div>
    </aside>
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
