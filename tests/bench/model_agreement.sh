#!/usr/bin/env bash
# Server against model: the fake engine's timing model as served over TCP, measured by loadgen, beside
# the same model in virtual time, for three parameter sets. Of each: a closed loop at saturation, open
# loops below and above the model's capacity under an SLO. The open loops' own schedules (plan.jsonl)
# are played to the virtual model, so that only the host and the network differ. Target: within 3 %.
# Needs python3 and release binaries: cargo build --release --workspace
# Usage: tests/bench/model_agreement.sh [SET] [REQUESTS]     1, 2, 3 or all; requests of a run, default 400
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only=${1:-all} requests=${2:-400}
bin=${BIN:-target/release}
work=$(mktemp -d)
engine_pid=
trap '[ -z "$engine_pid" ] || kill "$engine_pid" 2>/dev/null || true; rm -rf "$work"' EXIT

number() { python3 -c 'import json,sys; v=json.load(sys.stdin)
for k in sys.argv[1].split("."): v=v[k]
print(v)' "$1"; }

# NAME, INPUT, OUTPUT tokens, SLO, then the model's flags.
measure() {
  local name=$1 input=$2 output=$3 slo=$4
  shift 4
  local out ready url capacity concurrency rate
  exec {out}< <(exec "$bin/fake-engine" --timing model "$@" 2>"$work/engine.err")
  engine_pid=$!
  IFS= read -r -t 30 -u "$out" ready || { cat "$work/engine.err" >&2; exit 1; }
  url=http://$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' <<<"$ready")
  echo "== $name: $input + $output tokens, $slo, $*"
  "$bin/fake-engine" capacity --slo "$slo" --input-tokens "$input" --output-tokens "$output" \
    --requests "$requests" --json "$@" >"$work/capacity.json"
  capacity=$(number requests_per_s <"$work/capacity.json")
  concurrency=$(sed -n 's/.*--max-num-seqs \([0-9]*\).*/\1/p' <<<"$*")
  concurrency=$((2 * ${concurrency:-64}))
  # Clients that start together also end in bursts, and where the window cuts one decides its rate.
  load closed --concurrency "$concurrency" --requests "$requests" --warmup "$concurrency" --stagger 3s
  "$bin/fake-engine" simulate --concurrency "$concurrency" --stagger 3s --plan "$work/results/raw/closed/plan.jsonl" \
    --json "$@" >"$work/closed.json"
  for at in 85 100 115; do
    rate=$(python3 -c "print(round($capacity * $at / 100, 4))")
    load "open$at" --rate "$rate" --arrival poisson --requests "$requests" --warmup 50 --slo "$slo" \
      --max-in-flight 5000
    "$bin/fake-engine" simulate --plan "$work/results/raw/open$at/plan.jsonl" --json "$@" \
      >"$work/open$at.json"
  done
  python3 tests/bench/model_agreement.py "$work" "$slo"
  kill "$engine_pid"
  wait "$engine_pid" 2>/dev/null || true
  engine_pid=
  rm -rf "$work/results"
}

load() {
  local id=$1 code=0
  shift
  "$bin/loadgen" --path direct --direct-url "$url" --model fake-model --input-tokens "$input" \
    --output-tokens "$output" --results-dir "$work/results" --run-id "$id" --calibration off "$@" \
    >"$work/loadgen.out" 2>"$work/loadgen.err" || code=$?
  case $code in
    0 | 3 | 4) ;;
    *) cat "$work/loadgen.out" "$work/loadgen.err" >&2; exit "$code" ;;
  esac
}

want() { [ "$only" = all ] || [ "$only" = "$1" ]; }
if want 1; then
  measure "1, sequences are the limit" 128 64 ttft=150ms,tpot=25ms,at=p95 --max-num-seqs 32
fi
if want 2; then
  measure "2, prefill is the limit" 512 16 ttft=500ms,at=p95 --max-num-seqs 64 \
    --max-num-batched-tokens 1024 --step-per-prefill-token 30us
fi
if want 3; then
  measure "3, the KV cache is the limit" 128 128 ttft=400ms,tpot=20ms,at=p95 --max-num-seqs 64 \
    --step-base 5ms --num-kv-blocks 384 --no-enable-prefix-caching
fi
