#!/usr/bin/env bash
# How far loadgen's own stamps are from an engine that logs its send times, request by request.
# The fake engine answers with a fixed TTFT and ITL and stamps each event just before it sends it; both
# sides read one clock and are joined by request id. Engine and client share this machine's cores, so
# the figures are upper bounds. Build first: cargo build --release --workspace
# Usage: tests/bench/instrument_error.sh [CONCURRENCY] [REQUESTS] [EVENTS]      default 200 1000 100
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
concurrency=${1:-200} requests=${2:-1000} events=${3:-100}
bin=target/release
work=$(mktemp -d)
exec {out}< <(exec "$bin/fake-engine" --listen 127.0.0.1:0 --ttft 50ms --itl 20ms --log "$work/engine.jsonl" 2>"$work/engine.err")
engine_pid=$!
trap 'kill "$engine_pid" 2>/dev/null || true; rm -rf "$work"' EXIT
IFS= read -r -t 30 -u "$out" ready || { cat "$work/engine.err" >&2; exit 1; }
engine=$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' <<<"$ready")

code=0
"$bin/loadgen" --path direct --direct-url "http://$engine" --model fake-model --concurrency "$concurrency" \
  --requests "$requests" --stagger 2s --input-tokens 16 --output-tokens "$events" \
  --results-dir "$work/results" --run-id bench >"$work/loadgen.out" 2>"$work/loadgen.err" || code=$?
case $code in
  0 | 3 | 4) grep -E '^(VALID|INVALID|INCONCLUSIVE|FAIL|UNDECIDED)' "$work/loadgen.out" ;;
  *) cat "$work/loadgen.out" "$work/loadgen.err" >&2; exit "$code" ;;
esac
python3 tests/bench/instrument_error.py "$work/results/raw/bench/requests.jsonl" "$work/engine.jsonl"
