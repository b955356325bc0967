import { useMemo, useState } from "preact/hooks";
import { makeAxis } from "../model/axis";
import type { Item } from "../model/entries";
import { formatDollars, formatDuration, formatNumberOf } from "../model/format";
import { findSpans, type Span } from "../model/spans";
import { toneOf } from "./StateMark";

interface TimelineProps {
  items: Item[];
  /** Microseconds since 1970: where a span ends that goes on. */
  now: number;
  chosen: number | null;
  onChoose: (entry: number) => void;
}

const FIRST_LANES = 24;

/** One lane for each strand; times in which nothing works are cut out of the axis. */
export function Timeline({ items, now, chosen, onChoose }: TimelineProps) {
  const [whole, setWhole] = useState(false);
  const spans = useMemo(() => findSpans(items), [items]);
  const axis = useMemo(() => makeAxis(spans, now), [spans, now]);
  const lanes = useMemo(() => groupByLane(spans), [spans]);
  if (!spans.length) return null;
  const shown = whole ? lanes : lanes.slice(0, FIRST_LANES);
  const percent = (share: number) => `${(share * 100).toFixed(3)}%`;
  return (
    <section class="card">
      <div class="card-head">
        <h2>Timeline</h2>
        <span class="small quiet">
          {formatNumberOf(spans.length, "step")} in {formatNumberOf(lanes.length, "row")}
        </span>
      </div>
      <div class="timeline">
        <div class="axis" aria-hidden="true">
          <span />
          <div class="track">
            {axis.pieces.map((piece) => (
              <span
                key={piece.from}
                class={piece.isCut ? "piece cut" : "piece"}
                style={{ left: percent(piece.start), width: percent(piece.width) }}
              >
                {piece.isCut ? "" : <PieceLabel piece={piece} />}
              </span>
            ))}
          </div>
        </div>
        {shown.map(([lane, bars]) => (
          <div class="lane" key={lane}>
            <span class="clip" title={lane}>
              {lane.replace(/^task\//, "")}
            </span>
            <div class="track">
              {axis.pieces
                .filter((piece) => piece.isCut)
                .map((piece) => (
                  <span
                    key={piece.from}
                    class="gap"
                    title={`nothing worked for ${formatDuration((piece.to - piece.from) / 1000)}`}
                    style={{ left: percent(piece.start), width: percent(piece.width) }}
                  />
                ))}
              {bars.map((bar) => {
                const from = axis.place(bar.from);
                return (
                  <button
                    key={`${bar.from} ${bar.label}`}
                    type="button"
                    class={`bar fill-${toneOf(bar.state)}`}
                    style={{
                      left: percent(from),
                      width: percent(axis.place(bar.to ?? now) - from),
                    }}
                    aria-pressed={bar.index === chosen}
                    aria-label={describeSpan(bar, now)}
                    title={describeSpan(bar, now)}
                    onClick={() => onChoose(bar.index)}
                  />
                );
              })}
            </div>
          </div>
        ))}
      </div>
      {axis.pieces.some((piece) => piece.isCut) && (
        <p class="small quiet">
          Hatched: time in which nothing worked, cut out (
          {axis.pieces
            .filter((piece) => piece.isCut)
            .map((piece) => formatDuration((piece.to - piece.from) / 1000))
            .join(", ")}
          ).
        </p>
      )}
      {lanes.length > shown.length && (
        <button type="button" class="plain small" onClick={() => setWhole(true)}>
          Show all {formatNumberOf(lanes.length, "row")}
        </button>
      )}
    </section>
  );
}

/** How long a stretch of the axis is, between two arrows so that it does not look like a tick. */
function PieceLabel({ piece }: { piece: { from: number; to: number } }) {
  return <>← {formatDuration((piece.to - piece.from) / 1000)} →</>;
}

function groupByLane(spans: Span[]): [string, Span[]][] {
  const lanes = new Map<string, Span[]>();
  for (const span of spans) {
    const lane = lanes.get(span.strand);
    if (lane) lane.push(span);
    else lanes.set(span.strand, [span]);
  }
  return [...lanes];
}

function describeSpan(span: Span, now: number): string {
  const time = formatDuration(((span.to ?? now) - span.from) / 1000);
  const cost = span.usd ? `, ${formatDollars(span.usd)}` : "";
  return `${span.strand}: ${span.label}: ${span.state}, ${time}${cost}`;
}
