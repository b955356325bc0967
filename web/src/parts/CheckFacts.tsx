import type { ComponentChildren } from "preact";
import { readSeen } from "../api/memory";
import { usePinnedLog } from "../api/proof";
import { formatNumberOf } from "../model/format";
import { describeOrigin } from "../model/memory";
import { Time } from "./Time";

/** The log, its pinned keys and what this browser remembers of it. */
export function CheckFacts() {
  const { origin, pin } = usePinnedLog();
  const seen = readSeen(origin);
  if (!pin) return null;
  return (
    <dl class="facts">
      <Fact name="log">
        <code>{origin}</code>
      </Fact>
      <Fact name="keys">
        {pin.isHandedOver ? (
          <>
            {describeOrigin(pin)} <Time at={pin.at} />. Whoever rewrites the log later is found out.
            That these keys are the right ones, only somebody can tell you who knows them: compare
            them with <code>forum ledger policy</code>, or forget them under Log and pin the ones
            that you were given.
          </>
        ) : (
          <>
            {describeOrigin(pin)} <Time at={pin.at} />
          </>
        )}
      </Fact>
      <Fact name="memory">
        {seen ? (
          <>
            {formatNumberOf(seen.size, "entry", "entries")}, seen <Time at={seen.at} />. A log that
            does not continue them turns this badge red.
          </>
        ) : (
          "This browser remembers no tree of this log yet."
        )}
      </Fact>
    </dl>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
