// Pictures of an evaluation. Numbers and names are HTML over drawn areas, so that they keep their
// size; the tables beside the pictures hold the same numbers for everybody who cannot see them.

import type { Estimate } from "forumd-client";
import {
  COST,
  type FigureGroup,
  type FigureRow,
  formatInterval,
  formatQuality,
  type Measure,
  scaleTop,
} from "../model/evaluations";
import { formatDollars } from "../model/format";
import { placeOn } from "../model/scale";
import { SafeText } from "./Text";

/** The mean of a measure for each configuration, as a dot with its 95 % interval as a bar. */
export function IntervalPlot({ groups, measure }: { groups: FigureGroup[]; measure: Measure }) {
  const top = scaleTop(groups, measure);
  return (
    <figure class="intervals">
      <figcaption>{measure.title} of a case</figcaption>
      <div role="img" aria-label={describe(groups, measure)}>
        {groups.map(({ title, rows }) => (
          <div key={title} class="interval-group">
            <p class="small quiet">{title}</p>
            {rows.map(({ configuration, figures }) => (
              <div key={configuration} class="interval-row">
                <span class="clip">
                  <SafeText text={configuration} />
                </span>
                <Interval estimate={measure.of(figures)} top={top} />
                <span class="number">{measure.format(measure.of(figures).mean)}</span>
              </div>
            ))}
          </div>
        ))}
        <div class="interval-row small quiet">
          <span />
          <span class="interval-scale">
            <span>{measure.format(0)}</span>
            <span>{measure.format(top)}</span>
          </span>
          <span />
        </div>
      </div>
    </figure>
  );
}

function Interval({ estimate, top }: { estimate: Estimate; top: number }) {
  const low = placeOn(estimate.low ?? estimate.mean, top);
  const high = placeOn(estimate.high ?? estimate.mean, top);
  return (
    <span class="interval-track">
      <span class="interval-bar" style={{ left: `${low}%`, width: `${high - low}%` }} />
      <span class="interval-mean" style={{ left: `${placeOn(estimate.mean, top)}%` }} />
    </span>
  );
}

function describe(groups: FigureGroup[], { title, of, format }: Measure): string {
  const rows = groups.flatMap((group) =>
    group.rows.map(({ configuration, figures }) => {
      const interval = formatInterval(of(figures), format);
      const mean = `${group.title}, ${configuration}: ${format(of(figures).mean)}`;
      return interval ? `${mean}, interval ${interval}` : mean;
    }),
  );
  return `${title} of a case. ${rows.join("; ")}`;
}

/** Quality against cost: one mark for each configuration, with both intervals. */
export function QualityAgainstCost({ rows }: { rows: FigureRow[] }) {
  const top = scaleTop([{ title: "", rows }], COST);
  const words = rows.map(
    ({ configuration, figures }) =>
      `${configuration}: quality ${formatQuality(figures.quality.mean)} for ${formatDollars(figures.usd.mean)}`,
  );
  return (
    <figure class="scatter">
      <figcaption>Quality against cost</figcaption>
      <div role="img" aria-label={`Quality of a case against its cost. ${words.join("; ")}`}>
        <div class="scatter-field">
          <span class="scatter-label top-left small quiet">quality 1</span>
          <span class="scatter-label bottom-left small quiet">0</span>
          {rows.map(({ configuration, figures }) => (
            <ScatterPoint
              key={configuration}
              name={configuration}
              x={figures.usd}
              y={figures.quality}
              right={top}
            />
          ))}
        </div>
        <div class="interval-scale small quiet">
          <span>$0</span>
          <span>{formatDollars(top)} for a case</span>
        </div>
      </div>
    </figure>
  );
}

interface ScatterPointProps {
  name: string;
  x: Estimate;
  y: Estimate;
  right: number;
}

function ScatterPoint({ name, x, y, right }: ScatterPointProps) {
  const [left, bottom] = [placeOn(x.mean, right), placeOn(y.mean, 1)];
  const [from, to] = [placeOn(x.low ?? x.mean, right), placeOn(x.high ?? x.mean, right)];
  const [low, high] = [placeOn(y.low ?? y.mean, 1), placeOn(y.high ?? y.mean, 1)];
  // A name beside the right edge stands on the other side of its mark.
  const side = left > 70 ? { right: `${100 - left}%` } : { left: `${left}%` };
  return (
    <>
      <span
        class="scatter-x"
        style={{ left: `${from}%`, width: `${to - from}%`, bottom: `${bottom}%` }}
      />
      <span
        class="scatter-y"
        style={{ left: `${left}%`, bottom: `${low}%`, height: `${high - low}%` }}
      />
      <span class="scatter-mean" style={{ left: `${left}%`, bottom: `${bottom}%` }} />
      <span class="scatter-name" style={{ ...side, bottom: `${bottom}%` }}>
        <SafeText text={name} />
      </span>
    </>
  );
}
