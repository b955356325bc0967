import type { GateForm } from "forumd-client";
import { useEffect } from "preact/hooks";
import { getGate } from "../api/calls";
import { gatesError, refreshGates, waitingGates } from "../api/gates";
import { useLoad } from "../api/load";
import { formatNumberOf, shortId } from "../model/format";
import { titleOfGate } from "../model/gates";
import { GateCard } from "../parts/GateCard";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { describeAsker, isForeign } from "../parts/Provenance";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { address, go, type Route, replaceAddress } from "../router";

/** Everything that waits for a person, the nearest deadline first. The address names the gate. */
export function Inbox({ route }: { route: Route }) {
  const gates = waitingGates.value ?? [];
  const [run = "", subject = ""] = route.parts;
  const position = gates.findIndex((gate) => gate.run === run && gate.subject === subject);

  // The address keeps the gate. Otherwise a decision would take its own card away, and a gate with
  // a nearer deadline would replace the one that somebody is reading.
  const nearest = gates[0];
  useEffect(() => {
    if (!subject && nearest) replaceAddress(addressOf(nearest));
  }, [subject, nearest]);

  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element && event.target.closest("input, textarea, dialog");
      const step = { j: 1, k: -1 }[event.key];
      const next = step === undefined || isTyping ? undefined : gates[position + step];
      if (next) go(addressOf(next));
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });

  if (gatesError.value && !waitingGates.value) {
    return <ErrorNote error={gatesError.value} retry={refreshGates} />;
  }
  if (!waitingGates.value) return <Loading what="what waits" />;
  return (
    <>
      <div class="page-head">
        <h1>Inbox</h1>
        {gates.length > 0 && (
          <span class="small quiet">
            {formatNumberOf(gates.length, "decision waits", "decisions wait")}
            <span class="key-hints">
              {" "}
              · <kbd>j</kbd> <kbd>k</kbd> next and previous · <kbd>a</kbd> approve · <kbd>r</kbd>{" "}
              reject · <kbd>e</kbd> edit
            </span>
          </span>
        )}
      </div>
      {gates.length === 0 && !subject && <NothingWaits />}
      {subject && (
        <div class="inbox">
          <ul class="card gates">
            {gates.map((gate) => (
              <li key={`${gate.run} ${gate.subject}`}>
                <GateLink gate={gate} isShown={gate.run === run && gate.subject === subject} />
              </li>
            ))}
            {gates.length === 0 && <li class="quiet">Nothing else waits.</li>}
          </ul>
          <div class="stack">
            <GateCard key={`${run} ${subject}`} run={run} subject={subject} hasKeys />
            <p>
              <a href={address("run", [run])}>See the whole run</a>
            </p>
          </div>
        </div>
      )}
    </>
  );
}

/** A gate in the list, with the request of its run. */
function GateLink({ gate, isShown }: { gate: GateForm; isShown: boolean }) {
  const { data } = useLoad(() => getGate(gate.run, gate.subject), [gate.run, gate.subject]);
  return (
    <a href={addressOf(gate)} aria-current={isShown ? "true" : undefined}>
      <strong class="clip">
        <SafeText text={titleOfGate(gate.subject)} />
      </strong>
      <span class="small clip">
        {data?.request ? (
          <SafeText text={data.request.slice(0, 200)} />
        ) : (
          <>
            run <code>{shortId(gate.run)}</code>
          </>
        )}
      </span>
      {isForeign(gate) && (
        <span class="small tone-bad clip">
          <SafeText text={describeAsker(gate)} />
        </span>
      )}
      <span class="small tone-wait">
        {gate.default === "reject" ? "rejected" : "approved"} <Time at={gate.deadline} /> unless
        decided
      </span>
    </a>
  );
}

function addressOf(gate: GateForm): string {
  return address("gates", [gate.run, gate.subject]);
}

function NothingWaits() {
  return (
    <Empty title="Nothing waits for you">
      <p>Plans, tasks and tool calls wait here when a run asks for approval, for example:</p>
      <pre>{'forum submit --gate plan "Write a report."'}</pre>
    </Empty>
  );
}
