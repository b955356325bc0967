// The openai package of npm: chat, streams, responses, embeddings, lists.
import OpenAI from "openai";
const client = new OpenAI();
const messages = [{role: "user", content: "Name a river. é 😀"}];
const model = "gpt-4o-mini";
await client.chat.completions.create({model, messages});
for await (const _ of await client.chat.completions.create({model, messages, stream: true}));
await client.responses.create({model, input: "x"});
for await (const _ of await client.responses.create({model, input: "x", stream: true}));
await client.embeddings.create({model: "text-embedding-3-small", input: "x"});
await client.models.list();
