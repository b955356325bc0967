import type { ExchangeForm } from "forumd-client";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useExchanges } from "../api/exchanges";
import type { Item } from "../model/entries";
import { factText } from "../model/entries";
import { formatClock } from "../model/format";
import { own } from "../model/own";
import { type Line, writeTranscript } from "../model/transcript";
import { BodyText } from "./BodyText";
import { Messages, TokensOf } from "./Messages";
import { Mark } from "./StateMark";
import { VirtualList } from "./VirtualList";

interface RunEntriesProps {
  items: Item[];
  chosen: number | null;
  onChoose: (entry: number) => void;
}

type View = "transcript" | "entries";

/** Up to so many lines the page itself scrolls; more are a list of which only a part exists. */
const MAX_WHOLE_LINES = 200;
/** How long a line is in view before its messages are asked for: not while one scrolls by. */
const LOOK_MS = 120;

/** The record of a run in the order of the log: as a transcript, or entry by entry. */
export function RunEntries({ items, chosen, onChoose }: RunEntriesProps) {
  const [view, setView] = useState<View>("transcript");
  const [text, setText] = useState("");
  const wanted = useMemo(() => items.filter((item) => matches(item, text)), [items, text]);
  const lines = useMemo(() => writeTranscript(wanted), [wanted]);
  const { found, want, isComing } = useExchanges(items);
  const showLine = (line: Line) => (
    <TranscriptLine
      key={line.item.index}
      line={line}
      exchange={found.get(line.item.index)}
      want={want}
      isComing={isComing(line.item.index)}
      isChosen={line.item.index === chosen}
      onChoose={() => onChoose(line.item.index)}
    />
  );
  return (
    <section class="card">
      <div class="card-head">
        <h2>Record</h2>
        <div class="tabs" role="tablist" aria-label="Form of the record">
          {(["transcript", "entries"] as const).map((name) => (
            <button
              key={name}
              type="button"
              role="tab"
              aria-selected={view === name}
              onClick={() => setView(name)}
            >
              {name === "transcript" ? "Transcript" : `Entries (${items.length})`}
            </button>
          ))}
        </div>
        <input
          type="search"
          class="end"
          placeholder="Filter by strand, kind or actor"
          aria-label="Filter by strand, kind or actor"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
      {wanted.length === 0 && (
        <p class="quiet">{text ? "No entry matches the filter." : "No entry is signed yet."}</p>
      )}
      {view === "transcript" && lines.length <= MAX_WHOLE_LINES && lines.map(showLine)}
      {view === "transcript" && lines.length > MAX_WHOLE_LINES && (
        <VirtualList
          items={lines}
          label="Transcript"
          isInPage
          chosen={lines.findIndex((line) => line.item.index === chosen)}
          onChoose={(line) => onChoose(line.item.index)}
        >
          {showLine}
        </VirtualList>
      )}
      {wanted.length > 0 && view === "entries" && (
        <VirtualList
          items={wanted}
          label="Entries"
          isInPage
          chosen={wanted.findIndex((item) => item.index === chosen)}
          onChoose={(item) => onChoose(item.index)}
        >
          {({ index, entry }) => (
            <button
              key={index}
              type="button"
              class="entry"
              aria-pressed={index === chosen}
              onClick={() => onChoose(index)}
            >
              <span class="number">{index}</span>
              <span class="quiet">{formatClock(entry.ts)}</span>
              <span class="clip">{entry.strand}</span>
              <span class="clip">{entry.kind}</span>
              <span class="clip quiet">
                {factText(entry, "outcome") || factText(entry, "answer")}
              </span>
            </button>
          )}
        </VirtualList>
      )}
    </section>
  );
}

interface TranscriptLineProps {
  line: Line;
  exchange: ExchangeForm | undefined;
  want: (entry: number) => void;
  isComing: boolean;
  isChosen: boolean;
  onChoose: () => void;
}

function TranscriptLine(props: TranscriptLineProps) {
  const { line, exchange, want, isComing, isChosen, onChoose } = props;
  const { entry, index } = line.item;
  useEffect(() => {
    if (exchange) return;
    const due = setTimeout(() => want(index), LOOK_MS);
    return () => clearTimeout(due);
  }, [index, exchange, want]);
  const commitment = own(entry.bodies, line.body);
  return (
    <div class={isChosen ? "line chosen" : "line"}>
      <button type="button" class="line-head" aria-pressed={isChosen} onClick={onChoose}>
        <Mark state={line.state} />
        <span class="strong">{line.who}</span>
        <span>{line.what}</span>
        {exchange && <TokensOf exchange={exchange} />}
        <span class="quiet small end">
          {exchange ? exchange.began.slice(11, 19) : formatClock(entry.ts).slice(0, 8)}
        </span>
      </button>
      {exchange && <Messages exchange={exchange} />}
      {!exchange && isComing && <p class="small quiet exchange">Loading</p>}
      {!exchange && !isComing && commitment && line.body !== "prompt" && (
        <BodyText entry={index} name={line.body} commitment={commitment} />
      )}
    </div>
  );
}

function matches({ entry, index }: Item, text: string): boolean {
  if (!text) return true;
  const place = `${index} ${entry.strand} ${entry.kind} ${entry.actor}`.toLowerCase();
  return place.includes(text.toLowerCase());
}
