import { getCheckpoint } from "../api/calls";
import { useLoad } from "../api/load";
import type { EntryCheck } from "../api/proof";
import { describeWitnesses } from "../model/badge";
import { readSightings } from "../model/checkpoint";
import { formatCount, formatNumberOf } from "../model/format";
import { ErrorNote, Loading } from "./Notes";
import { Time } from "./Time";

/** Who saw the log in the form that includes this run: the witnesses of the last checkpoint. */
export function Sightings({ lastEntry, check }: { lastEntry: number; check: EntryCheck | null }) {
  const verdict = check?.state.value.verdict;
  const { data, error, reload } = useLoad(getCheckpoint, [lastEntry]);
  const sightings = data ? readSightings(data.note) : [];
  const isCovered = data !== null && lastEntry < data.size;
  return (
    <section class="card">
      <h2>Who saw this</h2>
      {error && <ErrorNote error={error} retry={reload} />}
      {!data && !error && <Loading what="the checkpoint" />}
      {data && (
        <p class="small">
          {isCovered
            ? `The signed tree of ${formatNumberOf(data.size, "entry", "entries")} includes this run up to entry ${lastEntry}.`
            : `The newest entries are not signed yet; the signed tree has ${formatCount(data.size)}.`}
        </p>
      )}
      {data && sightings.length === 0 && (
        <p class="small quiet">
          No witness has cosigned it. `forum witness --help` says how to add one.
        </p>
      )}
      {sightings.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Witness</th>
              <th class="number">Cosigned</th>
            </tr>
          </thead>
          <tbody>
            {sightings.map(({ witness, at }) => (
              <tr key={witness}>
                <td>
                  <code>{witness}</code>
                </td>
                <td class="number">
                  <Time at={at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="small quiet">
        {verdict?.state === "proven"
          ? `Checked by this browser: ${describeWitnesses(verdict.proof)}`
          : "As the server says."}
      </p>
    </section>
  );
}
