// The openai-node client against a refusal: it waits as it is told and then succeeds, or stops when told.
// Reads BASE_URL, API_KEY, MODEL and MAX_TOKENS from the environment, and EXPECT: `success`, or the class
// and status of an error, such as `RateLimitError 429`. Two requests are made at once; prints how long the
// slower one took, or what was raised.
import assert from "node:assert/strict";
import OpenAI from "openai";

const { BASE_URL, API_KEY, MODEL, MAX_TOKENS, EXPECT } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 4, timeout: 60_000 });

async function ask() {
  const began = performance.now();
  const answer = await client.chat.completions.create({
    model: MODEL,
    messages: [{ role: "user", content: "Say something short about rivers." }],
    max_tokens: Number(MAX_TOKENS),
  });
  assert.ok(answer.choices[0].message.content);
  return (performance.now() - began) / 1000;
}

if (EXPECT === "success") {
  const times = await Promise.all([ask(), ask()]);
  console.log(`ok waited ${Math.max(...times).toFixed(3)} s`);
} else {
  const [kind, status] = EXPECT.split(" ");
  const error = await ask().then(
    () => assert.fail(`want ${EXPECT}, got an answer`),
    (e) => e,
  );
  assert.equal(`${error.constructor.name} ${error.status}`, `${kind} ${status}`, error.message);
  console.log(`ok stopped: ${kind} ${status}: ${error.error.message}`);
}
