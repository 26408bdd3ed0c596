#!/usr/bin/env bash
# Every check of the project: format, lints, build, all tests, configuration files, a real llama.cpp
# engine and the real OpenAI clients. Installs what is missing and says so.
# Usage: tests/run.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0

times=()
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "== $name"
  "$@"
  times+=("$(printf '%4d s  %s' $((SECONDS - begin)) "$name")")
}

checked_configs() {
  local file
  for file in configs/gateway*.yaml; do
    INFERSCOPE_KEY_SECRET=checked-only ENGINE_API_KEY=checked-only INFERSCOPE_ADMIN_TOKEN=checked-only \
      target/release/inferscope-gateway check -c "$file"
  done
}

step "set-up" tests/setup.sh tests
step "format" cargo fmt --all --check
step "lints" cargo clippy --release --locked --workspace --all-targets --quiet -- -D warnings
step "build" cargo build --release --locked --workspace --quiet
step "configuration files" checked_configs
step "real engine: install" tests/engines/llamacpp.sh install
step "real clients: install" tests/clients/install.sh
step "tests" cargo test --release --locked --workspace --no-fail-fast

printf '\n== all checks passed\n'
printf '%s\n' "${times[@]}" "$(printf '%4d s  in all' "$SECONDS")"
