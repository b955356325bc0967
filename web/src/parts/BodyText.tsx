import { useState } from "preact/hooks";
import { getBody } from "../api/calls";
import { useLoad } from "../api/load";
import { digestOf, textOf } from "../model/body";
import type { Commitment } from "../model/entries";
import { formatBytes } from "../model/format";
import { Markdown } from "./Markdown";
import { ErrorNote, Loading } from "./Notes";
import { StateMark } from "./StateMark";
import { TextBlock } from "./Text";

/** Larger bodies are fetched when the reader asks for them. */
const MAX_UNASKED_BYTES = 65_536;

interface BodyTextProps {
  entry: number;
  name: string;
  commitment: Commitment;
  /** What the body is called on the page; by default its name. */
  title?: string;
  /** Whether it is written for people, and formatted as Markdown. */
  isProse?: boolean;
}

/** A body as text, compared by this browser with what the entry commits to. */
export function BodyText(props: BodyTextProps) {
  const [wanted, setWanted] = useState(props.commitment.size <= MAX_UNASKED_BYTES);
  if (wanted) return <LoadedBody {...props} />;
  return (
    <button type="button" onClick={() => setWanted(true)}>
      Show {props.title ?? props.name} ({formatBytes(props.commitment.size)})
    </button>
  );
}

function LoadedBody({ entry, name, commitment, title = name, isProse }: BodyTextProps) {
  const { data, error, reload } = useLoad(async () => {
    const body = await getBody(entry, name);
    if (!body) return { text: null, digest: null };
    return { text: textOf(body), digest: digestOf(body) };
  }, [entry, name]);
  if (error) return <ErrorNote error={error} retry={reload} />;
  return (
    <div class="body">
      <div class="row small">
        <h3>{title}</h3>
        <span class="quiet">{formatBytes(commitment.size)}</span>
        <span class="end">
          {data?.digest != null && <DigestMark digest={data.digest} committed={commitment.h} />}
        </span>
      </div>
      {!data && <Loading what={name} />}
      {data?.text === null && (
        <p class="small quiet">
          The server has no text of it: it was erased, or is kept back. Its digest stays in the
          entry.
        </p>
      )}
      {data?.digest != null && data.digest !== commitment.h && (
        <p class="note bad" role="alert">
          This text is not the one that the entry commits to.
        </p>
      )}
      {data?.text != null &&
        (isProse ? (
          <Markdown text={data.text} label={title} />
        ) : (
          <TextBlock text={data.text} label={title} />
        ))}
    </div>
  );
}

/** Whether a digest that this browser computed is the one that the entry commits to. */
export function DigestMark({ digest, committed }: { digest: string; committed: string }) {
  return digest === committed ? (
    <StateMark state="ok" label="matches its commitment" />
  ) : (
    <StateMark state="failed" label="is NOT what was committed to" />
  );
}
