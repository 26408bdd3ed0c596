#!/usr/bin/env bash
# Time and peak memory of `loadgen report` on synthetic runs of N requests each (half of them through
# a gateway, with its records), and how much more memory the last N takes than the first.
# A run takes about 4 KB of disk per request; it is written under DIR and removed again.
# Build first: cargo build --release -p loadgen --bin loadgen --example synthetic_run
# Usage: tests/bench/scale.sh [N...]      default 1000000 4000000; DIR=/tmp TARGET=target/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=${TARGET:-target/release}
work=$(mktemp -d -p "${DIR:-/tmp}")
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 1000000 4000000
for n in "$@"; do
  "$bin/examples/synthetic_run" "$work/results" "n$n" "$n"
  python3 tests/bench/scale.py "$n" "$work/results/raw/n$n" "$bin/loadgen" report "n$n" --results-dir "$work/results" >>"$work/table"
  tail -n 1 "$work/table"
  rm -rf "$work/results"
done
awk '/ requests, .* peak memory / { peak[++n] = $7 } END { ratio = peak[n] / peak[1]; printf "peak memory of the last over the first: %.3f\n", ratio; exit ratio > 1.1 }' "$work/table"
