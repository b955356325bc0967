import { useState } from "preact/hooks";
import { takeBundle } from "../api/calls";
import { ErrorNote } from "./Notes";
import { Permitted } from "./Permitted";
import { StateMark } from "./StateMark";

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

/** Save the evidence of a run as a file, and say that it came. */
export function TakeEvidence({ run }: { run: string }) {
  const [progress, setProgress] = useState<"" | "busy" | "saved">("");
  const [failure, setFailure] = useState<Error | null>(null);
  const name = `${run}.zip`;
  const take = async () => {
    setProgress("busy");
    setFailure(null);
    try {
      saveFile(await takeBundle(run), name);
      setProgress("saved");
    } catch (error) {
      setProgress("");
      setFailure(error as Error);
    }
  };
  return (
    <>
      <Permitted scope="audit" action="download the evidence">
        <button type="button" disabled={progress === "busy"} onClick={take}>
          {progress === "busy" ? "Collecting …" : "Download evidence"}
        </button>
      </Permitted>
      {progress === "saved" && <SavedNote name={name} />}
      {failure && <ErrorNote error={failure} />}
    </>
  );
}

/** Say that a file was saved: browsers hide their downloads. */
export function SavedNote({ name }: { name: string }) {
  return (
    <span class="small" role="status">
      <StateMark state="ok" label="Saved" /> as <code>{name}</code> in your downloads
    </span>
  );
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
