"""Lag of dispatch and of the first write behind the plan, from a run's raw folder: DIR."""

import json
import math
import pathlib
import sys


def ranks(name, nanoseconds):
    """Nearest-rank percentiles in milliseconds."""
    values = sorted(nanoseconds)
    at = lambda p: values[math.ceil(p * len(values)) - 1] / 1e6
    print(f"{name:24} n {len(values)}  p50 {at(0.5):.4f}  p90 {at(0.9):.4f}  p99 {at(0.99):.4f}"
          f"  p99.9 {at(0.999):.4f}  max {values[-1] / 1e6:.4f} ms")


raw = pathlib.Path(sys.argv[1])
rows = [json.loads(line) for line in (raw / "requests.jsonl").open()]
rows = [r for r in rows if r["phase"] == "measure"]
sent = [r for r in rows if r["sent_start_ns"] is not None]
ranks("dispatched - intended", [r["dispatched_ns"] - r["intended_ns"] for r in sent])
ranks("first write - intended", [r["sent_start_ns"] - r["intended_ns"] for r in sent])
ranks("first write - dispatched", [r["sent_start_ns"] - r["dispatched_ns"] for r in sent])

late = sum(r["late"] for r in rows)
dropped = sum(r["outcome"] == "dropped" for r in rows)
opened = sum(not r["connect"]["reused"] for r in sent)
print(f"planned {len(rows)}  sent {len(sent)}  late {late}  dropped {dropped}  connections opened {opened}"
      f"  sent on time / planned {(len(sent) - late) / len(rows):.5f}")
span = lambda key: (max(r[key] for r in sent) - min(r[key] for r in sent)) / 1e9
planned = (len(rows) - 1) / ((max(r["intended_ns"] for r in rows) - min(r["intended_ns"] for r in rows)) / 1e9)
achieved = (len(sent) - 1) / span("sent_start_ns")
print(f"rate planned {planned:.2f}/s  achieved {achieved:.2f}/s  achieved / planned {achieved / planned:.5f}")
