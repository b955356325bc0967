import type { GateForm } from "forumd-client";
import { useEffect } from "preact/hooks";
import { listGates } from "../api/calls";
import { useLoad } from "../api/load";
import { shortId } from "../model/format";
import { GateCard } from "../parts/GateCard";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { Time } from "../parts/Time";
import { address, go, type Route } from "../router";

const POLL_MS = 5000;

/** Everything that waits for a person, the nearest deadline first. The address names the gate. */
export function Inbox({ route }: { route: Route }) {
  const { data, error, reload } = useLoad(listGates, [], POLL_MS);
  const gates = [...(data ?? [])].sort((a, b) => a.deadline.localeCompare(b.deadline));
  const [run = gates[0]?.run ?? "", subject = gates[0]?.subject ?? ""] = route.parts;
  const position = gates.findIndex((gate) => gate.run === run && gate.subject === subject);

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

  if (error && !data) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what="what waits" />;
  return (
    <>
      <div class="page-head">
        <h1>Inbox</h1>
        <span class="small quiet">
          {gates.length} {gates.length === 1 ? "decision waits" : "decisions wait"} · <kbd>j</kbd>{" "}
          <kbd>k</kbd> next and previous · <kbd>a</kbd> approve · <kbd>r</kbd> reject · <kbd>e</kbd>{" "}
          edit
        </span>
      </div>
      {gates.length === 0 && !subject && <NothingWaits />}
      {(gates.length > 0 || subject) && (
        <div class="inbox">
          <ul class="card gates">
            {gates.map((gate) => (
              <li key={`${gate.run} ${gate.subject}`}>
                <a
                  href={addressOf(gate)}
                  aria-current={gate.run === run && gate.subject === subject ? "true" : undefined}
                >
                  <strong class="clip">{gate.subject}</strong>
                  <span class="small quiet">
                    run <code>{shortId(gate.run)}</code>
                  </span>
                  <span class="small tone-wait">
                    {gate.default} <Time at={gate.deadline} />
                  </span>
                </a>
              </li>
            ))}
            {gates.length === 0 && <li class="quiet">Nothing else waits.</li>}
          </ul>
          <div class="stack">
            <GateCard
              key={`${run} ${subject}`}
              run={run}
              subject={subject}
              hasKeys
              onDecided={reload}
            />
            <p>
              <a href={address("run", [run])}>See the whole run</a>
            </p>
          </div>
        </div>
      )}
    </>
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
