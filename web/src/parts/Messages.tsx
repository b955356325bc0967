import type { ChatMessage, ExchangeForm } from "forumd-client";
import { useState } from "preact/hooks";
import { formatCount, formatNumberOf } from "../model/format";
import { type Said, splitMessage } from "../model/transcript";
import { Markdown } from "./Markdown";
import "./Messages.css";
import { SafeText, TextBlock } from "./Text";

/** A call of a model or a tool: what was sent beside what came back. */
export function Messages({ exchange }: { exchange: ExchangeForm }) {
  const { request, reply } = exchange;
  const repeated = exchange.repeated + exchange.repeated_later;
  const isErased = request.length === 0 && reply.length === 0 && repeated === 0;
  if (isErased) return <p class="small quiet exchange">No text is recorded, or it was erased.</p>;
  return (
    <div class="exchange">
      <div>
        {repeated > 0 && (
          <p class="small quiet">
            {formatNumberOf(repeated, "message")} as in{" "}
            {exchange.follows === null ? "an earlier request" : `entry ${exchange.follows}`}
          </p>
        )}
        {exchange.dropped > 0 && (
          <p class="small rewritten">
            The agent has rewritten its history: {formatNumberOf(exchange.dropped, "message")} left
            out.
          </p>
        )}
        <Side messages={request} outcome={exchange.outcome} />
      </div>
      <div>
        <Side messages={reply} outcome={exchange.outcome} />
        {reply.length === 0 && exchange.op === "model" && (
          <p class="small quiet">
            {exchange.outcome === null ? "There is no reply yet." : "No reply is recorded."}
          </p>
        )}
      </div>
    </div>
  );
}

type Outcome = ExchangeForm["outcome"];

/** So many messages of one request are shown; a program may begin with a long history. */
const MAX_SHOWN = 50;

function Side({ messages, outcome }: { messages: readonly ChatMessage[]; outcome: Outcome }) {
  const [count, setCount] = useState(MAX_SHOWN);
  const rest = messages.length - count;
  return (
    <>
      {messages
        .slice(0, count)
        .flatMap((message, number) =>
          splitMessage(message).map((said, part) => (
            <SaidText key={`${number} ${part}`} said={said} outcome={outcome} />
          )),
        )}
      {rest > 0 && (
        <button type="button" onClick={() => setCount(count + MAX_SHOWN)}>
          Show {Math.min(rest, MAX_SHOWN)} of {formatNumberOf(rest, "further message")}
        </button>
      )}
    </>
  );
}

function SaidText({ said, outcome }: { said: Said; outcome: Outcome }) {
  const label = said.role === "error" ? labelError(outcome) : labelOf(said);
  return (
    <div class={`message from-${said.role} is-${said.form}`}>
      <p class="small quiet">
        <SafeText text={label} />
      </p>
      {said.form === "prose" && said.role === "assistant" ? (
        <Markdown text={said.text} label={label} />
      ) : (
        <TextBlock text={said.text} label={label} />
      )}
    </div>
  );
}

/** An error is nobody's words: it says what became of the call. */
function labelError(outcome: Outcome): string {
  if (outcome === "denied") return "refused";
  return outcome === null || outcome === "ok" ? "error" : "failed";
}

function labelOf({ role, form, tool }: Said): string {
  switch (form) {
    case "call":
      return `${role} calls ${tool}`;
    case "result":
      return tool ? `${tool} returned` : "tool returned";
    case "reasoning":
      return `${role}, reasoning`;
    default:
      return role;
  }
}

/** What a call took: its tokens, if the provider has told them. */
export function TokensOf({ exchange }: { exchange: ExchangeForm }) {
  if (!exchange.input_tokens && !exchange.output_tokens) return null;
  return (
    <span class="quiet">
      {formatCount(exchange.input_tokens)} + {formatNumberOf(exchange.output_tokens, "token")}
    </span>
  );
}
