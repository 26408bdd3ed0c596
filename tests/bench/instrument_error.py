"""Compares clients' stamps with the fake engine's log and prints the differences.

Arguments: engine.jsonl, then any number of loadgen=requests.jsonl and vllm=PREFIX=result.json. Files of
one client are pooled. All stamps are of one clock (CLOCK_MONOTONIC; Python's perf_counter is the same).

  TTFT    first write (vllm: its own start) to first output, minus the engine's own: last byte of the
          request received to first output sent
  event   arrival of an output event at the client, minus its send
  ITL     gap between two output events at the client, minus the same at the engine, without its sign
  request first write to the engine's last byte of the request: the part of the TTFT error before it

"by kernel" goes by the kernel's receive stamps, where they are exact. vllm takes the role event for the
first token; the engine sends both in one write, so its TTFT can be compared all the same. Percentiles by
nearest rank, in milliseconds.
"""

import json
import math
import sys
from itertools import accumulate, pairwise


def line(name, ns):
    if not ns:
        print(f"  {name:<22} n 0")
        return
    ns.sort()
    at = lambda p: ns[max(0, math.ceil(p * len(ns)) - 1)] / 1e6
    points = "  ".join(f"p{p * 100:g} {at(p):.3f}" for p in (0.5, 0.9, 0.99, 0.999))
    print(f"  {name:<22} n {len(ns):<7} min {ns[0] / 1e6:.3f}  {points}  max {ns[-1] / 1e6:.3f} ms")


def gap_errors(arrivals, sends):
    """Both may hold None; a gap needs both of its ends."""
    for (a0, s0), (a1, s1) in pairwise(zip(arrivals, sends)):
        if a0 is not None and a1 is not None:
            yield abs((a1 - a0) - (s1 - s0))


class Client:
    """What one client says, pooled over its files."""

    def __init__(self):
        self.missing = 0
        self.series = {}

    def add(self, name, values):
        self.series.setdefault(name, []).extend(values)

    def events(self, by, arrivals, sends):
        self.add(f"event {by}", (a - s for a, s in zip(arrivals, sends) if a is not None))
        self.add(f"ITL {by}", gap_errors(arrivals, sends))


def loadgen(client, path, engine):
    with open(path) as requests:
        for row in map(json.loads, requests):
            if row["phase"] != "measure" or row["outcome"] != "ok":
                continue
            sent = engine.get(row["request_id"])
            if sent is None:
                client.missing += 1
                continue
            start, events = row["sent_start_ns"], row["events"]
            own = sent["first_output_sent_ns"] - sent["recv_end_ns"]
            client.add("TTFT by read", [row["first_output_ns"] - start - own])
            if row["first_output_rx_exact"]:
                client.add("TTFT by kernel", [row["first_output_rx_ns"] - start - own])
            client.add("request", [sent["recv_end_ns"] - start])
            reads = list(accumulate(events["at_ns"], initial=start))[1:]
            outputs = [i for i, kind in enumerate(events["kind"]) if kind == "output"]
            sends = list(accumulate(sent["events_sent_ns"]))
            client.events("by read", [reads[i] for i in outputs], sends)
            lags, bounds = events["rx_lag_ns"], set(events["rx_upper_bound"])
            if lags:
                exact = lambda i: None if i in bounds or lags[i] is None else reads[i] - lags[i]
                client.events("by kernel", [exact(i) for i in outputs], sends)
                ends = (i for i in range(len(reads)) if reads[i : i + 2] != [reads[i]] * 2)
                client.add("read lag", [lags[i] for i in ends if lags[i] is not None])


def vllm(client, prefix, path, engine):
    with open(path) as result:
        result = json.load(result)
    for i, (start, ttft, itls) in enumerate(zip(result["start_times"], result["ttfts"], result["itls"])):
        sent = engine.get(f"{prefix}{i}")
        if sent is None or not itls:
            client.missing += 1
            continue
        own = sent["first_output_sent_ns"] - sent["recv_end_ns"]
        client.add("TTFT by read", [round(ttft * 1e9) - own])
        client.add("request", [sent["recv_end_ns"] - round(start * 1e9)])
        # The first gap is from the role event to the first output.
        arrivals = [round((start + ttft + gap) * 1e9) for gap in accumulate(itls)]
        client.events("by read", arrivals, list(accumulate(sent["events_sent_ns"])))


def main():
    with open(sys.argv[1]) as log:
        engine = {row["request_id"]: row for row in map(json.loads, log)}
    clients = {}
    for argument in sys.argv[2:]:
        name, *prefix, path = argument.split("=")
        client = clients.setdefault(name, Client())
        if prefix:
            vllm(client, prefix[0], path, engine)
        else:
            loadgen(client, path, engine)
    for name, client in clients.items():
        requests = len(client.series.get("request", []))
        print(f"{name}: {requests} requests compared, {client.missing} without a counterpart")
        for series in ("TTFT by read", "TTFT by kernel", "request", "event by read", "event by kernel",
                       "ITL by read", "ITL by kernel", "read lag"):
            if series in client.series:
                line(series, client.series[series])
    late = []
    for sent in engine.values():
        if sent["ttft_ns"] is not None:
            due = sent["recv_end_ns"] + sent["ttft_ns"]
            late += [at - due - i * sent["itl_ns"] for i, at in enumerate(accumulate(sent["events_sent_ns"]))]
    print("engine:")
    line("own lateness", late)


main()
