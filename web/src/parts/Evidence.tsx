import { useState } from "preact/hooks";
import { takeBundle } from "../api/calls";
import { ErrorNote } from "./Notes";
import { Permitted } from "./Permitted";

/** What proves more than this page can, and the way there. */
export function Evidence({ run }: { run: string | undefined }) {
  return (
    <div class="stack small">
      <p>
        This page comes from the server that it checks, so it cannot prove itself. For evidence take
        the bundle of a run, and open it in <code>verify.html</code> from your own disk. Your own
        installation writes that file: <code>forum verify --page verify.html</code>
      </p>
      {run && (
        <div class="row">
          <TakeEvidence run={run} />
        </div>
      )}
    </div>
  );
}

export function TakeEvidence({ run }: { run: string }) {
  const [failure, setFailure] = useState<Error | null>(null);
  const take = () => saveBundle(run).then(() => setFailure(null), setFailure);
  return (
    <>
      <Permitted scope="audit" action="take the evidence">
        <button type="button" onClick={take}>
          Take the evidence
        </button>
      </Permitted>
      {failure && <ErrorNote error={failure} />}
    </>
  );
}

async function saveBundle(run: string): Promise<void> {
  saveFile(await takeBundle(run), `${run}.zip`);
}

/** Have the browser save an archive as a file. */
export function saveFile(archive: Uint8Array, name: string): void {
  const url = URL.createObjectURL(new Blob([archive as BlobPart], { type: "application/zip" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
