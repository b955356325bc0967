import { useState } from "preact/hooks";
import { takePack } from "../api/calls";
import { SavedNote, saveFile } from "./Evidence";
import { Field } from "./Field";
import { ErrorNote } from "./Notes";
import { Permitted } from "./Permitted";

const MOST_SAMPLED = 200;

/** One file about a period, for an auditor. */
export function PackCard() {
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const [sample, setSample] = useState("10");
  const [isBusy, setBusy] = useState(false);
  const [saved, setSaved] = useState("");
  const [failure, setFailure] = useState<Error | null>(null);
  const drawn = Number(sample);
  const isCount = /^\d+$/.test(sample) && drawn <= MOST_SAMPLED;
  const take = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setSaved("");
    try {
      const pack = await takePack({ since, until, sample: drawn });
      const name = `evidence-${since || "begin"}-${until || "now"}.zip`;
      saveFile(pack, name);
      setSaved(name);
      setFailure(null);
    } catch (error) {
      setFailure(error as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section class="card">
      <h2>Evidence of a period</h2>
      <form class="stack" onSubmit={take}>
        <p class="small quiet">
          One archive with a report, the entries that it was computed from, and samples of runs. An
          auditor checks it with <code>forum verify</code>. That you took it is recorded.
        </p>
        <div class="row">
          <Field label="From" hint="Empty: the beginning">
            {(control) => (
              <input
                {...control}
                type="date"
                value={since}
                onInput={(event) => setSince(event.currentTarget.value)}
              />
            )}
          </Field>
          <Field label="Until" hint="The day after; empty: now">
            {(control) => (
              <input
                {...control}
                type="date"
                value={until}
                onInput={(event) => setUntil(event.currentTarget.value)}
              />
            )}
          </Field>
          <Field
            label="Runs drawn"
            hint="As samples"
            fault={isCount ? undefined : `A number up to ${MOST_SAMPLED}.`}
          >
            {(control) => (
              <input
                {...control}
                type="text"
                inputMode="numeric"
                value={sample}
                onInput={(event) => setSample(event.currentTarget.value)}
              />
            )}
          </Field>
        </div>
        <Permitted scope="audit" action="download the evidence">
          <div class="row">
            <button type="submit" disabled={isBusy || !isCount}>
              {isBusy ? "Computing …" : "Download the pack"}
            </button>
            {saved && <SavedNote name={saved} />}
          </div>
        </Permitted>
        {failure && <ErrorNote error={failure} />}
      </form>
    </section>
  );
}
