// An agent of the OpenAI Agents SDK for Node.
import {Agent, run, setTracingDisabled} from "@openai/agents";
setTracingDisabled(true);
await run(new Agent({name: "a", model: "gpt-4o-mini"}), "Name a river.");
