import type { RunForm } from "forumd-client";
import { useMemo } from "preact/hooks";
import { sumCosts } from "../model/costs";
import type { Item } from "../model/entries";
import { formatCount, formatDollars, formatNumberOf } from "../model/format";
import { Money } from "./Money";

const WIDTH = 400;
const HEIGHT = 90;

/** What a run has cost, against its cap, step by step and by agent. */
export function CostCard({ view, items }: { view: RunForm; items: Item[] }) {
  const spent = Number(view.spent.usd);
  const cap = view.cap.usd === null ? null : Number(view.cap.usd);
  const agents = Object.entries(view.spent_by).sort((a, b) => Number(b[1].usd) - Number(a[1].usd));
  return (
    <section class="card">
      <div class="card-head">
        <h2>Cost</h2>
        <span class="end strong">
          <Money usd={view.spent.usd} cap={cap} />
          {cap !== null && <span class="quiet"> of {formatDollars(cap)}</span>}
        </span>
      </div>
      {cap !== null && spent > cap && (
        <p class="note bad">
          {formatDollars(spent - cap)} above the cap: a provider billed more than the bound of a
          call.
        </p>
      )}
      <CostChart items={items} cap={cap} />
      {agents.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Agent</th>
              <th class="number">Calls</th>
              <th class="number">Tokens</th>
              <th class="number">Cost</th>
            </tr>
          </thead>
          <tbody>
            {agents.map(([name, amount]) => (
              <tr key={name}>
                <td>{name || "default"}</td>
                <td class="number">{formatCount(amount.calls)}</td>
                <td class="number">{formatCount(amount.tokens)}</td>
                <td class="number">
                  <Money usd={amount.usd} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function CostChart({ items, cap }: { items: Item[]; cap: number | null }) {
  const points = useMemo(() => sumCosts(items), [items]);
  const total = points.at(-1)?.usd ?? 0;
  if (!total) return <p class="quiet">Nothing was billed.</p>;
  // Steps by number, not by time: a gate that waits for a day would leave nothing to see.
  const top = Math.max(total, cap ?? 0) * 1.08;
  const x = (number: number) => (number / Math.max(1, points.length - 1)) * WIDTH;
  const y = (usd: number) => HEIGHT - (usd / top) * HEIGHT;
  const path = points
    .map(({ usd }, number) =>
      number ? `H${x(number).toFixed(1)}V${y(usd).toFixed(1)}` : `M0,${y(usd)}`,
    )
    .join("");
  const described = `Cost after each of ${formatNumberOf(points.length - 1, "call")}, from $0 to ${formatDollars(total)}`;
  return (
    <figure class="chart">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={cap === null ? described : `${described}; the cap is ${formatDollars(cap)}`}
      >
        <path class="area" d={`${path}V${HEIGHT}H0Z`} />
        <path class="curve" d={path} />
        {cap !== null && <path class="cap" d={`M0,${y(cap)}H${WIDTH}`} />}
      </svg>
      {cap !== null && (
        <span class="cap-label small" style={{ top: `${(y(cap) / HEIGHT) * 100}%` }}>
          cap {formatDollars(cap)}
        </span>
      )}
    </figure>
  );
}
