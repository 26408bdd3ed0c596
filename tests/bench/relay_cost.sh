#!/usr/bin/env bash
# What the gateway costs beside nginx: CPU per relayed event, delay added to each event, memory per open
# stream. Both stand before the same fake engine (fixed TTFT and ITL) and are measured in turns in one
# run; "direct" is the same load without a proxy, for the delay. The gateway has everything switched on:
# keys, limits, queue, health probes, usage: inject, a record file. nginx relays without buffering.
# Everything shares this machine's cores. Build first: cargo build --release --workspace
# Needs Debian's nginx (apt-get install nginx-light); it runs from a folder of its own, on free ports.
# Usage: tests/bench/relay_cost.sh [--rounds N] [--keep DIR] [STREAMS] [REQUESTS] [EVENTS]   default 200 600 100
#        STREAMS=1000 REQUESTS=2000 is how memory per stream is measured
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=3 keep=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --rounds) rounds=$2 ;;
    --keep) keep=$2 ;;
    *) echo "$1: no such option" >&2; exit 2 ;;
  esac
  shift 2
done
streams=${1:-200} requests=${2:-600} events=${3:-100}
bin=${BIN:-target/release}
command -v nginx >/dev/null || { echo "nginx is missing: apt-get install nginx-light" >&2; exit 1; }
work=$(mktemp -d)
pids=()
cleanup() {
  kill "${pids[@]}" 2>/dev/null || true
  wait "${pids[@]}" 2>/dev/null || true
  if [[ -n $keep ]]; then mkdir -p "$keep" && cp -r "$work/." "$keep"; fi
  rm -rf "$work"
}
trap cleanup EXIT

# Starts a server that prints a ready line; its pid goes into `started`, the line into `ready`.
start() { # NAME COMMAND...
  local name=$1 fd
  shift
  exec {fd}< <(exec "$@" 2>"$work/$name.err")
  started=$!
  pids+=("$started")
  IFS= read -r -t 30 -u "$fd" ready || { cat "$work/$name.err" >&2; exit 1; }
}

start engine "$bin/fake-engine" --listen 127.0.0.1:0 --ttft 50ms --itl 20ms --log "$work/engine.jsonl"
engine=$(sed -n 's/.*"listen":"\([^"]*\)".*/\1/p' <<<"$ready")

export KEY_SECRET=a-secret-of-the-bench-and-of-nobody-else
made=$("$bin/inferscope-gateway" keys new --tenant team --id bench --secret env:KEY_SECRET)
KEY=$(head -n 1 <<<"$made")
export KEY
cat >"$work/gateway.yaml" <<Y
version: 1
listen: [{addr: "127.0.0.1:0"}]
admin: {addr: "127.0.0.1:0"}
metrics: {addr: "127.0.0.1:0"}
$(tail -n +2 <<<"$made")
tenants:
  team:
    priority: high
    weight: 2
    limits: {requests_per_s: 100000, burst: 100000, tokens_per_min: 1000000000, concurrency: 100000, budget: {daily: 1000000000}}
models: {fake-model: {pool: main, context_tokens: 32768}}
pools:
  main:
    endpoints: [{url: "http://$engine"}]
    concurrency: 100000
    policy: least_tokens
    health: {path: /health, interval: 5s}
usage: inject
records: {file: {path: $work/records.jsonl}}
Y
start gateway "$bin/inferscope-gateway" run -c "$work/gateway.yaml"
gateway=$(sed -n 's/.*"data":\["\([^"]*\)".*/\1/p' <<<"$ready")
gateway_pid=$started

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/nginx.conf" <<N
worker_processes $(nproc);
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.err warn;
worker_rlimit_nofile 20000;
events { worker_connections 8192; }
http {
  access_log $work/nginx.log;
  client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work; uwsgi_temp_path $work; scgi_temp_path $work;
  upstream engine { server $engine; keepalive 1024; }
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
N
nginx -p "$work" -c "$work/nginx.conf" 2>"$work/nginx.start" &
nginx_pid=$!
pids+=("$nginx_pid")
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 "$nginx_pid" || { cat "$work/nginx.start" "$work/nginx.err" >&2; exit 1; }
done
declare -A url=([direct]=http://$engine [gateway]=http://$gateway [nginx]=http://127.0.0.1:$port)
declare -A pid=([gateway]=$gateway_pid [nginx]=$nginx_pid)

one() { # LEG ROUND
  local leg=$1 id=$1$2 code=0
  python3 tests/bench/relay_cost.py watch "${pid[$leg]:-0}" "$work/$id.json" -- "$bin/loadgen" --path direct \
    --direct-url "${url[$leg]}" --direct-api-key-env KEY --engine-url "http://$engine" --model fake-model \
    --concurrency "$streams" --requests "$requests" --warmup "$streams" --stagger 2s --input-tokens 16 \
    --output-tokens "$events" --calibration off --results-dir "$work/results" --run-id "$id" \
    >"$work/$id.out" 2>"$work/$id.err" || code=$?
  case $code in
    0 | 3 | 4) ;;
    *) cat "$work/$id.out" "$work/$id.err" >&2; exit "$code" ;;
  esac
}

echo "$streams streams, $rounds rounds of $requests requests of $events events, 20 ms apart; nginx $(nginx -v 2>&1 | sed 's/.*\///')"
for round in $(seq "$rounds"); do
  legs=(direct gateway nginx)
  ((round % 2)) || legs=(nginx gateway direct)
  for leg in "${legs[@]}"; do one "$leg" "$round"; done
done
python3 tests/bench/relay_cost.py report "$work" "$rounds"
