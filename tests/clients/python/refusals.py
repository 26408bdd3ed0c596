"""The openai-python client against a refusal: it waits as it is told and then succeeds, or stops when told.

Reads BASE_URL, API_KEY, MODEL and MAX_TOKENS from the environment, and EXPECT: `success`, or the class and
status of an error, such as `RateLimitError 429`. Two requests are made at once; prints how long the slower
one took, or what was raised.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import openai

EXPECT = os.environ["EXPECT"]
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=4, timeout=60)


def ask(_):
    began = time.monotonic()
    answer = client.chat.completions.create(
        model=os.environ["MODEL"],
        messages=[{"role": "user", "content": "Say something short about rivers."}],
        max_tokens=int(os.environ["MAX_TOKENS"]),
    )
    assert answer.choices[0].message.content
    return time.monotonic() - began


if EXPECT == "success":
    with ThreadPoolExecutor(2) as both:
        print(f"ok waited {max(both.map(ask, range(2))):.3f} s")
else:
    kind, status = EXPECT.split()
    try:
        ask(0)
    except openai.APIStatusError as error:
        assert (type(error).__name__, error.status_code) == (kind, int(status)), repr(error)
        print(f"ok stopped: {kind} {status}: {error.body['message']}")
    else:
        raise SystemExit(f"want {EXPECT}, got an answer")
