"""The openai-python client against a gateway: each answer, and the right error class for each refusal.

Reads BASE_URL, API_KEY, MODEL and BODY_LIMIT_BYTES from the environment; exits 1 on the first mismatch.
"""

import os

import openai

BASE_URL, MODEL = os.environ["BASE_URL"], os.environ["MODEL"]
LIMIT = int(os.environ["BODY_LIMIT_BYTES"])
MESSAGES = [{"role": "user", "content": "Say something short about rivers."}]


def client(key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=BASE_URL, api_key=key, max_retries=0, timeout=60)


def refusal(kind, status: int, call) -> None:
    try:
        call()
    except kind as e:
        assert type(e) is kind, f"want {kind.__name__}, got {type(e).__name__}"
        assert e.status_code == status, f"want {status}, got {e.status_code}"
        assert e.request_id, "the refusal has no x-request-id"
        assert isinstance(e.body, dict) and e.body.get("message"), f"no OpenAI error body: {e.body!r}"
        print(f"ok {status} -> {kind.__name__}: {e.body['message']}")
        return
    raise AssertionError(f"want {kind.__name__}, got an answer")


def main() -> None:
    good = client(os.environ["API_KEY"])

    answer = good.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=12)
    assert answer.choices[0].message.content, "chat: empty answer"
    assert answer.usage and answer.usage.completion_tokens >= 1, "chat: no usage"
    print("ok chat", answer.usage.completion_tokens, "tokens")

    text, usage, finish = "", None, None
    stream = good.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=12, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert text and finish and usage, f"chat stream: text {text!r}, finish {finish!r}, usage {usage!r}"
    print("ok chat stream", usage.completion_tokens, "tokens,", finish)

    answer = good.completions.create(model=MODEL, prompt="The river", max_tokens=8)
    assert answer.choices[0].text, "completions: empty answer"
    print("ok completions")

    assert any(m.id == MODEL for m in good.models.list()), "models: the model is not listed"
    print("ok models")

    refusal(openai.AuthenticationError, 401, lambda: client("sk-wrong").models.list())
    refusal(
        openai.NotFoundError,
        404,
        lambda: good.chat.completions.create(model="no-such-model", messages=MESSAGES, max_tokens=1),
    )
    big = [{"role": "user", "content": "x" * (LIMIT + 1)}]
    refusal(openai.APIStatusError, 413, lambda: good.chat.completions.create(model=MODEL, messages=big, max_tokens=1))


main()
