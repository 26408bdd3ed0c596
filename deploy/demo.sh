#!/usr/bin/env bash
# The main job on an embedded default: a fake engine, the gateway in front of it, and the load
# generator measuring both paths. Installs what is missing, builds, runs, prints the headline table and
# the report's path, and stops everything. Needs no GPU, no model, and picks free ports.
# Usage: deploy/demo.sh [loadgen options, such as --requests 100]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/setup.sh

setup build
echo "demo: building (the first time takes some minutes)"
cargo build --release --locked --quiet -p inferscope-gateway -p loadgen -p inferscope-fake-engine
echo "demo: built after $(elapsed)"

logs=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$logs"
}
trap stop EXIT
# loadgen closes an interrupted run by itself; then this script ends.
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a server and waits for the JSON line that says where it listens.
serve() { # NAME COMMAND...
  local name=$1 out
  shift
  exec {out}< <(exec "$@" 2>"$logs/$name")
  pids+=($!)
  if ! IFS= read -r -t 30 -u "$out" ready; then
    echo "error: $name did not start; it said:" >&2
    cat "$logs/$name" >&2
    exit 1
  fi
}
field() { # NAME, of the last ready line
  sed -n "s/.*\"$1\":\[\{0,1\}\"\([^\"]*\)\".*/\1/p" <<<"$ready"
}

bin=target/release
serve engine "$bin/fake-engine" --listen 127.0.0.1:0 --ttft 50ms --itl 10ms
engine=$(field listen)
serve gateway "$bin/inferscope-gateway" run --upstream "http://$engine" --listen 127.0.0.1:0 \
  --admin 127.0.0.1:0 --no-auth --hash
gateway=$(field data)
admin=$(field admin)
echo "demo: engine on $engine, gateway on $gateway; measuring both paths at concurrency 1, 2, 4"

code=0
"$bin/loadgen" --path both --direct-url "http://$engine" --gateway-url "http://$gateway" \
  --gateway-records "http://$admin/records" --model fake-model --concurrency 1,2,4 --requests 60 \
  --input-tokens 64 --output-tokens 16 --slo ttft=200ms,tpot=50ms,e2e=5s,success=0.99,at=p50 "$@" || code=$?
echo "demo: done after $(elapsed), exit code $code"
exit "$code"
