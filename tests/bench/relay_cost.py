"""Measures one leg of relay_cost.sh, and reports all of them.

watch PID FILE -- COMMAND...   runs COMMAND (a loadgen run) and writes into FILE what the process PID and
                               its children used meanwhile: CPU seconds, and resident bytes before it, at
                               their peak and after
report DIR ROUNDS              prints per leg the CPU per relayed event, the delay of events (arrival at
                               the client minus send by the engine, both of CLOCK_MONOTONIC), and the
                               memory per open stream; ratios are of rounds, with their spread

Percentiles by nearest rank. Memory per stream is the peak less what was resident before, over the
streams; of the first round, for allocators keep what they had.
"""

import json
import math
import os
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path
from statistics import median

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid):
    """The process and its direct children (nginx has its workers there)."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        pids += map(int, (task / "children").read_text().split())
    return pids


def used(pid):
    cpu = rss = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        cpu += int(fields[11]) + int(fields[12])
        rss += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE
    return cpu / TICK, rss


def watch(pid, path, command):
    before = used(pid) if pid else (0, 0)
    peak = before[1]
    run = subprocess.Popen(command)
    while run.poll() is None:
        if pid:
            peak = max(peak, used(pid)[1])
        time.sleep(0.05)
    after = used(pid) if pid else (0, 0)
    Path(path).write_text(json.dumps({"cpu_s": after[0] - before[0], "rss_before": before[1],
                                      "rss_peak": peak, "rss_after": after[1]}))
    return run.returncode


def nearest(sorted_values, p):
    return sorted_values[max(0, math.ceil(p * len(sorted_values)) - 1)]


def leg(folder, name, engine, names):
    """Relayed events (of all phases), and the delays of those that were measured, in ms."""
    events, delays = 0, []
    with open(folder / "results/raw" / name / "requests.jsonl") as rows:
        for row in map(json.loads, rows):
            if row.get("outcome") != "ok":
                continue
            events += len(row["events"]["at_ns"])
            sent = engine.get(names.get(row["request_id"], row["request_id"]))
            if sent is None or row["phase"] != "measure":
                continue
            reads = list(accumulate(row["events"]["at_ns"], initial=row["sent_start_ns"]))[1:]
            outputs = [at for at, kind in zip(reads, row["events"]["kind"]) if kind == "output"]
            delays += [(a - s) / 1e6 for a, s in zip(outputs, accumulate(sent["events_sent_ns"]))]
    delays.sort()
    return events, delays


def report(folder, rounds):
    folder = Path(folder)
    with open(folder / "engine.jsonl") as log:
        engine = {row["request_id"]: row for row in map(json.loads, log)}
    # The gateway gives requests names of its own.
    with open(folder / "records.jsonl") as records:
        records = [json.loads(line) for line in records]
    names = {row["client_request_id"]: row["request_id"] for row in records if "request_id" in row}
    cost, delay = {}, {}
    print(f"{'':<9}{'round':>6}{'events':>9}{'CPU s':>8}{'us/event':>10}{'delay p50':>11}{'p99':>8}{'p99.9 ms':>10}"
          f"{'RSS before':>12}{'peak MiB':>10}")
    for name in ("direct", "gateway", "nginx"):
        for r in range(1, rounds + 1):
            events, delays = leg(folder, f"{name}{r}", engine, names)
            use = json.loads((folder / f"{name}{r}.json").read_text())
            micro = use["cpu_s"] / events * 1e6
            points = [nearest(delays, p) for p in (0.5, 0.99, 0.999)]
            cost.setdefault(name, []).append(micro)
            delay.setdefault(name, []).append(points)
            print(f"{name:<9}{r:>6}{events:>9}{use['cpu_s']:>8.2f}{micro:>10.2f}"
                  f"{points[0]:>11.3f}{points[1]:>8.3f}{points[2]:>10.3f}"
                  f"{use['rss_before'] / 2**20:>12.1f}{use['rss_peak'] / 2**20:>10.1f}")
    ratios = [g / n for g, n in zip(cost["gateway"], cost["nginx"])]
    print(f"CPU per relayed event, gateway over nginx: median {median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f} over {rounds} rounds)")
    for i, point in enumerate(("p50", "p99")):
        for name in ("gateway", "nginx"):
            added = [a[i] - d[i] for a, d in zip(delay[name], delay["direct"])]
            print(f"added delay {point}, {name}: median {median(added):.3f} ms ({min(added):.3f} to {max(added):.3f})")
    for name in ("gateway", "nginx"):
        use = json.loads((folder / f"{name}1.json").read_text())
        streams = peak_streams(folder, f"{name}1")
        per = (use["rss_peak"] - use["rss_before"]) / streams / 1024
        print(f"memory per open stream, {name}: {per:.1f} KiB ({streams} streams at most)")


def peak_streams(folder, name):
    """Most requests in flight at a time."""
    edges = []
    with open(folder / "results/raw" / name / "requests.jsonl") as rows:
        for row in map(json.loads, rows):
            if row.get("sent_start_ns") and row.get("end_ns"):
                edges += [(row["sent_start_ns"], 1), (row["end_ns"], -1)]
    edges.sort()
    return max(accumulate(step for _, step in edges))


if __name__ == "__main__":
    if sys.argv[1] == "watch":
        sys.exit(watch(int(sys.argv[2]), sys.argv[3], sys.argv[5:]))
    report(sys.argv[2], int(sys.argv[3]))
