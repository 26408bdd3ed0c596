// The openai-node client against a gateway: each answer, and the right error class for each refusal.
// Reads BASE_URL, API_KEY, MODEL and BODY_LIMIT_BYTES from the environment; exits 1 on the first mismatch.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { BASE_URL, API_KEY, MODEL, BODY_LIMIT_BYTES } = process.env;
const messages = [{ role: "user", content: "Say something short about rivers." }];
const client = (apiKey) => new OpenAI({ baseURL: BASE_URL, apiKey, maxRetries: 0, timeout: 60_000 });
const good = client(API_KEY);

async function refusal(kind, status, call) {
  const error = await call().then(
    () => assert.fail(`want ${kind.name}, got an answer`),
    (e) => e,
  );
  assert.equal(error.constructor, kind, `want ${kind.name}, got ${error.constructor.name}: ${error.message}`);
  assert.equal(error.status, status);
  assert.ok(error.requestID, "the refusal has no x-request-id");
  assert.ok(error.error?.message, "no OpenAI error body");
  console.log(`ok ${status} -> ${kind.name}: ${error.error.message}`);
}

const whole = await good.chat.completions.create({ model: MODEL, messages, max_tokens: 12 });
assert.ok(whole.choices[0].message.content, "chat: empty answer");
assert.ok(whole.usage.completion_tokens >= 1, "chat: no usage");
console.log("ok chat", whole.usage.completion_tokens, "tokens");

let text = "";
let usage = null;
let finish = null;
const stream = await good.chat.completions.create({
  model: MODEL,
  messages,
  max_tokens: 12,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  usage = chunk.usage ?? usage;
  for (const choice of chunk.choices) {
    text += choice.delta.content ?? "";
    finish = choice.finish_reason ?? finish;
  }
}
assert.ok(text && finish && usage, `chat stream: text ${text}, finish ${finish}, usage ${usage}`);
console.log("ok chat stream", usage.completion_tokens, "tokens,", finish);

const completion = await good.completions.create({ model: MODEL, prompt: "The river", max_tokens: 8 });
assert.ok(completion.choices[0].text, "completions: empty answer");
console.log("ok completions");

const models = await good.models.list();
assert.ok(models.data.some((m) => m.id === MODEL), "models: the model is not listed");
console.log("ok models");

await refusal(OpenAI.AuthenticationError, 401, () => client("sk-wrong").models.list());
await refusal(OpenAI.NotFoundError, 404, () =>
  good.chat.completions.create({ model: "no-such-model", messages, max_tokens: 1 }),
);
const big = [{ role: "user", content: "x".repeat(Number(BODY_LIMIT_BYTES) + 1) }];
await refusal(OpenAI.APIError, 413, () => good.chat.completions.create({ model: MODEL, messages: big, max_tokens: 1 }));
