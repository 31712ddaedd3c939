// What the TypeScript SDK makes of the node: one JSON object on stdout, compared by test_typescript_sdk.py.
// The order of requests is that of the scripts there.
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const hi = [{ role: "user", content: "Weather in Eugene, Oregon?" }];
const ask = { model, max_tokens: 512, messages: hi };
const weather = {
  name: "get_weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const seen = {};

const whole = await client.messages.create(ask);
seen.create = { text: whole.content[0].text, stop: whole.stop_reason, id: whole._request_id.slice(0, 4) };

const stream = client.messages.stream(ask);
let streamed = "";
stream.on("text", (text) => (streamed += text));
const final = await stream.finalMessage();
seen.stream = { text: streamed, same: final.content[0].text === streamed, usage: final.usage.output_tokens };

const first = await client.messages.create({ ...ask, tools: [weather] });
const call = first.content.find((part) => part.type === "tool_use");
const results = [{ type: "tool_result", tool_use_id: call.id, content: "52F and raining" }];
const answer = await client.messages.create({
  ...ask,
  tools: [weather],
  messages: [...hi, { role: "assistant", content: first.content }, { role: "user", content: results }],
});
seen.tools = { stop: first.stop_reason, input: call.input, answer: answer.content.at(-1).text };

const runner = client.beta.messages.toolRunner({
  ...ask,
  tools: [betaTool({ ...weather, inputSchema: weather.input_schema, description: "x", run: ({ city }) => `${city}: rain` })],
});
seen.runner = (await runner.runUntilDone()).content.at(-1).text;

const thought = await client.messages.stream({ ...ask, thinking: { type: "adaptive" } }).finalMessage();
seen.thinking = thought.content.map((part) => [part.type, part.thinking ?? part.text]);
seen.signed = thought.content[0].signature.length > 0;

const person = { type: "object", properties: { age: { type: "integer" } }, required: ["age"], additionalProperties: false };
const parsed = await client.messages.parse({ ...ask, output_config: { format: jsonSchemaOutputFormat(person) } });
seen.parsed = parsed.parsed_output;

const { input_tokens } = await client.messages.countTokens({ model, messages: hi });
seen.counted = input_tokens === whole.usage.input_tokens;
seen.models = [];
for await (const item of client.models.list()) seen.models.push(item.id);
seen.model = (await client.models.retrieve(model)).id;

seen.errors = {};
const failing = {
  missing: () => client.messages.create({ ...ask, model: "claude-sonnet-4-5" }),
  badField: () => client.messages.create({ ...ask, max_tokens: -1 }),
  badKey: () => new Anthropic({ baseURL, apiKey: "wrong", maxRetries: 0 }).messages.create(ask),
  system: () => client.messages.create({ ...ask, messages: [...hi, { role: "system", content: "x" }] }),
};
for (const [name, run] of Object.entries(failing)) {
  try {
    await run();
  } catch (error) {
    seen.errors[name] = [error.constructor.name, error.status, error.type, error.error.b3os.param ?? null];
  }
}
console.log(JSON.stringify(seen));
