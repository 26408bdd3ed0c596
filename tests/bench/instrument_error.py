"""Joins loadgen's request records with the fake engine's log and prints the differences.

Arguments: requests.jsonl engine.jsonl. Per request: TTFT as loadgen has it (first write to first output)
minus TTFT as the engine has it (last byte of the request received to first output sent). Per event: arrival
at loadgen minus the engine's send. Percentiles by nearest rank, in milliseconds.
"""

import json
import math
import sys
from itertools import accumulate


def percentile(values, p):
    return sorted(values)[max(0, math.ceil(p * len(values)) - 1)]


def line(name, ns):
    points = " ".join(f"p{p * 100:g} {percentile(ns, p) / 1e6:.3f}" for p in (0.5, 0.9, 0.99, 0.999))
    print(f"{name}: n {len(ns)}  min {min(ns) / 1e6:.3f} {points} max {max(ns) / 1e6:.3f} ms")


def main():
    with open(sys.argv[2]) as log:
        engine = {row["request_id"]: row for row in map(json.loads, log)}
    ttft, delivery, lateness, missing = [], [], [], 0
    with open(sys.argv[1]) as requests:
        for row in map(json.loads, requests):
            if row["phase"] != "measure" or row["outcome"] != "ok":
                continue
            sent = engine.get(row["request_id"])
            if sent is None:
                missing += 1
                continue
            engine_ttft = sent["first_output_sent_ns"] - sent["recv_end_ns"]
            ttft.append(row["first_output_ns"] - row["sent_start_ns"] - engine_ttft)
            due = sent["recv_end_ns"] + sent["ttft_ns"]
            sends = list(accumulate(sent["events_sent_ns"]))
            lateness += [at - due - i * sent["itl_ns"] for i, at in enumerate(sends)]
            arrivals = accumulate(row["events"]["at_ns"], initial=row["sent_start_ns"])
            outputs = [at for at, kind in zip(list(arrivals)[1:], row["events"]["kind"]) if kind == "output"]
            delivery += [arrived - at for arrived, at in zip(outputs, sends)]
    print(f"joined {len(ttft)}, without an engine row {missing}")
    line("TTFT, loadgen minus engine", ttft)
    line("event, arrival minus send ", delivery)
    line("engine's own lateness     ", lateness)


main()
