#!/usr/bin/env bash
# How soon the engine is rid of a request whose client left, in each phase: from the client's FIN, or
# reset, to the end of the gateway's connection to the engine; where there is none yet, to the end of
# the client's. Build first: cargo build --release -p inferscope-gateway
# Usage: tests/bench/cancel.sh [TRIES]      default 100 in each phase
# Exits with 1 when a p99 is above 50 ms.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 tests/bench/cancel.py "${GATEWAY:-target/release/inferscope-gateway}" "${1:-100}"
