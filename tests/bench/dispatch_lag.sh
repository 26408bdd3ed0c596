#!/usr/bin/env bash
# How late an open loop gets to its requests: the planned instant against the taking up and the first
# write, for a Poisson schedule against an engine that answers at once. Engine and client share this
# machine's cores, so the figures are upper bounds. Build first: cargo build --release --workspace
# Usage: tests/bench/dispatch_lag.sh [RATE] [SECONDS] [ARRIVAL]      default 1000 20 poisson
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rate=${1:-1000} seconds=${2:-20} arrival=${3:-poisson}
bin=target/release
work=$(mktemp -d)
exec {out}< <(exec "$bin/fake-engine" --listen 127.0.0.1:0 --ttft 1ms --itl 1ms 2>"$work/engine.err")
engine_pid=$!
trap 'kill "$engine_pid" 2>/dev/null || true; rm -rf "$work"' EXIT
IFS= read -r -t 30 -u "$out" ready || { cat "$work/engine.err" >&2; exit 1; }
engine=$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' <<<"$ready")

code=0
"$bin/loadgen" --path direct --direct-url "http://$engine" --model fake-model --gpu none \
  --arrival "$arrival" --rate "$rate" --duration "${seconds}s" --warmup "$rate" \
  --input-tokens 16 --output-tokens 2 \
  --results-dir "$work/results" --run-id bench >"$work/loadgen.out" 2>"$work/loadgen.err" || code=$?
case $code in
  0 | 3 | 4) grep -E '^(VALID|INVALID|INCONCLUSIVE|FAIL|UNDECIDED)' "$work/loadgen.out" ;;
  *) cat "$work/loadgen.out" "$work/loadgen.err" >&2; exit "$code" ;;
esac
python3 tests/bench/dispatch_lag.py "$work/results/raw/bench"
