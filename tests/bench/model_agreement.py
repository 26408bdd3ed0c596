"""Prints what loadgen measured beside what the timing model says for the same arrivals.

Usage: model_agreement.py WORK SLO. WORK holds results/ of loadgen's runs `closed` and `openX`,
the simulations beside them (closed.json, openX.json) and capacity.json. X is the percentage of the capacity.
"""

import json
import pathlib
import sys

work, slo = pathlib.Path(sys.argv[1]), sys.argv[2]
capacity = json.loads((work / "capacity.json").read_text())
form = capacity["saturation"]
low, high = capacity["ci95"]
print(f"saturation, closed form: {form['requests_per_s']:.3f} requests/s ({form['limited_by']})")
print(f"capacity, model: {capacity['requests_per_s']:.3f} requests/s, 95 % interval {low:.3f} to {high:.3f}")
limits = dict(part.split("=") for part in slo.split(","))
quantile = limits.pop("at", "p95")
print(f"{'':10}{'':22}{'server':>12}{'model':>12}{'ratio':>9}")
worst = 0.0


def milliseconds(text):
    for unit, factor in (("us", 1e-3), ("ms", 1.0), ("s", 1e3)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise ValueError(text)


def kept(metrics):
    return all(metrics[f"{name}_ms"][quantile] <= milliseconds(limit) for name, limit in limits.items())


runs = ["closed"] + sorted((p.stem for p in work.glob("open*.json")), key=lambda run: int(run[4:]))
for run in runs:
    model = json.loads((work / f"{run}.json").read_text())
    point = json.loads((work / "results/processed" / run / "aggregate.json").read_text())["points"][0]
    throughput, metrics = point["throughput"], point["metrics"]
    rows = [
        ("requests/s", throughput["requests_per_s"], model["requests_per_s"]),
        ("output tokens/s", throughput["output_tokens_per_s"], model["output_tokens_per_s"]),
        ("mean TTFT ms", metrics["ttft_ms"]["mean"], model["ttft_ms"]["mean"]),
        ("mean TPOT ms", metrics["tpot_ms"]["mean"], model["tpot_ms"]["mean"]),
    ]
    for name, server, expected in rows:
        ratio = server / expected
        worst = max(worst, abs(ratio - 1))
        print(f"{run:10}{name:22}{server:12.3f}{expected:12.3f}{ratio:9.4f}")
    if run != "closed":
        failed = point["requests"]["planned"] - point["requests"]["ok"]
        say = lambda met: "met" if met else "not met"
        print(f"{run:10}{'SLO':22}{say(kept(metrics) and not failed):>12}{say(kept(model)):>12}")
print(f"worst ratio: {100 * worst:.2f} % off")
