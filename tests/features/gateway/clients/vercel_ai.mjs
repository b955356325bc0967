// The Vercel AI SDK with OpenAI.
import {createOpenAI} from "@ai-sdk/openai";
import {generateText, streamText} from "ai";
const openai = createOpenAI({baseURL: process.env.OPENAI_BASE_URL});
await generateText({model: openai("gpt-4o-mini"), prompt: "Name a river."});
await generateText({model: openai.chat("gpt-4o-mini"), prompt: "Name a river."});
for await (const _ of streamText({model: openai.chat("gpt-4o-mini"), prompt: "x"}).textStream);
