import { formatDollars, formatNumberOf } from "../model/format";
import { type CostChart, type DayBar, MAX_DAYS } from "../model/spending";
import { SafeText } from "./Text";

const HEIGHT = 100;
const MAX_BAR_PX = 64;

/** What each day cost, stacked; the table beside it has the same numbers. */
export function CostBars({ chart, by }: { chart: CostChart; by: string }) {
  const { legend, top, isCut } = chart;
  // Days before the first cost would make an empty picture with a bar at its edge.
  const first = chart.bars.findIndex(({ usd }) => usd > 0);
  const bars = chart.bars.slice(Math.max(first, 0));
  const width = `min(100%, ${bars.length * MAX_BAR_PX}px)`;
  return (
    <figure class="cost-bars">
      <p class="small quiet">{formatDollars(top)}</p>
      <svg
        viewBox={`0 0 ${bars.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        style={{ width }}
        role="img"
        aria-label={`Cost of ${formatNumberOf(bars.length, "day")} by ${by}, at most ${formatDollars(Math.max(...bars.map(({ usd }) => usd)))} on one day`}
      >
        {bars.map((bar, number) => (
          <Bar key={bar.day} bar={bar} x={number} top={top} />
        ))}
      </svg>
      <p class="cost-days small quiet" style={{ minWidth: "min-content", width }}>
        <span>{bars[0]?.day}</span>
        {bars.length > 1 && <span>{bars.at(-1)?.day}</span>}
      </p>
      <ul class="cost-legend small">
        {legend.map((name, place) => (
          <li key={name}>
            <span class={`swatch part-${place}`} />
            <SafeText text={name} />
          </li>
        ))}
      </ul>
      {isCut && (
        <p class="small quiet">
          The last {formatNumberOf(MAX_DAYS, "day")} are drawn; the table has all of them.
        </p>
      )}
    </figure>
  );
}

function Bar({ bar, x, top }: { bar: DayBar; x: number; top: number }) {
  const height = (usd: number) => (usd / top) * HEIGHT;
  return (
    <g>
      {bar.segments.map(({ place, name, usd, from }) => (
        <rect
          key={name}
          class={`part-${place}`}
          x={x + 0.1}
          width={0.8}
          y={HEIGHT - height(from + usd)}
          height={height(usd)}
        >
          <title>{`${bar.day}, ${name}: ${formatDollars(usd)}`}</title>
        </rect>
      ))}
    </g>
  );
}
