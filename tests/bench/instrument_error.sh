#!/usr/bin/env bash
# How far a client's stamps are from an engine that logs its send times, request by request: loadgen's,
# and on wish those of vLLM's own benchmark, in turns against the same engine.
# The fake engine answers with a fixed TTFT and ITL and stamps each event just before it sends it; both
# sides read one clock and are joined by request id. Engine and client share this machine's cores, so
# the figures are upper bounds. Build first: cargo build --release --workspace
# Usage: tests/bench/instrument_error.sh [OPTION]... [STREAMS] [REQUESTS] [EVENTS]   default 200 1000 100
#   --kernel-stamps on|off     default on
#   --vllm PATH                also run `PATH bench serve` (needs --tokenizer)
#   --tokenizer DIR            a tokenizer for its prompts
#   --rounds N                 turns of each client, REQUESTS in each; default 1
#   --keep DIR                 where to leave records and logs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
stamps=on vllm='' tokenizer='' rounds=1 keep=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --kernel-stamps) stamps=$2 ;;
    --vllm) vllm=$2 ;;
    --tokenizer) tokenizer=$2 ;;
    --rounds) rounds=$2 ;;
    --keep) keep=$2 ;;
    *) echo "$1: no such option" >&2; exit 2 ;;
  esac
  shift 2
done
case $stamps in
  on) setting=auto ;;
  off) setting=off ;;
  *) echo "--kernel-stamps $stamps: use on or off" >&2; exit 2 ;;
esac
[[ -z $vllm || -n $tokenizer ]] || { echo "--vllm needs --tokenizer DIR" >&2; exit 2; }
streams=${1:-200} requests=${2:-1000} events=${3:-100}
bin=${BIN:-target/release}
work=$(mktemp -d)
exec {out}< <(exec "$bin/fake-engine" --listen 127.0.0.1:0 --ttft 50ms --itl 20ms --log "$work/engine.jsonl" 2>"$work/engine.err")
engine_pid=$!
cleanup() {
  kill "$engine_pid" 2>/dev/null || true
  if [[ -n $keep ]]; then mkdir -p "$keep" && cp -r "$work/." "$keep"; fi
  rm -rf "$work"
}
trap cleanup EXIT
IFS= read -r -t 30 -u "$out" ready || { cat "$work/engine.err" >&2; exit 1; }
engine=$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' <<<"$ready")

run_loadgen() {
  local code=0
  "$bin/loadgen" --path direct --direct-url "http://$engine" --model fake-model --concurrency "$streams" \
    --requests "$requests" --stagger 2s --input-tokens 16 --output-tokens "$events" --kernel-stamps "$setting" \
    --results-dir "$work/results" --run-id "bench$1" >"$work/loadgen$1.out" 2>"$work/loadgen$1.err" || code=$?
  case $code in
    0 | 3 | 4) grep -E '^(VALID|INVALID|INCONCLUSIVE|FAIL|UNDECIDED)' "$work/loadgen$1.out" ;;
    *) cat "$work/loadgen$1.out" "$work/loadgen$1.err" >&2; exit "$code" ;;
  esac
  clients+=("loadgen=$work/results/raw/bench$1/requests.jsonl")
}

# Its slots start at once or by a rate; the rate spreads them over two seconds, as loadgen's are.
run_vllm() {
  HF_HUB_OFFLINE=1 "$vllm" bench serve --backend openai-chat --endpoint /v1/chat/completions \
    --base-url "http://$engine" --model fake-model --tokenizer "$tokenizer" --dataset-name random \
    --random-input-len 16 --random-output-len "$events" --ignore-eos --num-prompts "$requests" \
    --max-concurrency "$streams" --request-rate $((streams / 2)) --request-id-prefix "vllm$1-" \
    --ready-check-timeout-sec 0 --disable-tqdm --save-result --save-detailed --result-dir "$work" \
    --result-filename "vllm$1.json" >"$work/vllm$1.out" 2>&1 || { tail -20 "$work/vllm$1.out" >&2; exit 1; }
  clients+=("vllm=vllm$1-=$work/vllm$1.json")
}

echo "$streams streams, kernel stamps $stamps, $rounds x $requests requests of $events events, 20 ms apart"
clients=()
for round in $(seq "$rounds"); do
  run_loadgen "$round"
  if [[ -n $vllm ]]; then run_vllm "$round"; fi
done
python3 tests/bench/instrument_error.py "$work/engine.jsonl" "${clients[@]}"
