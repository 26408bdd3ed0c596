#!/usr/bin/env bash
# Every check of this repository, from a bare Debian on: installs what is missing, then formatting,
# lints, build, tests, configurations, a real engine, and the OpenAI clients. Stops at the first fault.
# One profile and one target folder, so nothing is compiled twice.
# Usage: tests/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/setup.sh
export CARGO_TERM_COLOR=never RUST_LIB_BACKTRACE=0

# Each step's title when it begins, and all durations at the end.
durations=()
step_name='' step_start=0
step() { # TITLE
  end_step
  step_name=$1 step_start=$SECONDS
  printf '\n==> [%s] %s\n' "$(elapsed)" "$1"
}
end_step() {
  [ -z "$step_name" ] || durations+=("$(printf '%4d s  %s' $((SECONDS - step_start)) "$step_name")")
}
finish() {
  local code=$?
  end_step
  printf '\n'
  printf '%s\n' "${durations[@]}"
  if [ "$code" = 0 ]; then
    printf 'all checks passed in %s\n' "$(elapsed)"
  else
    printf 'FAILED in "%s" after %s, exit code %d\n' "$step_name" "$(elapsed)" "$code"
  fi
}
trap finish EXIT

step "Tools"
setup tests
cargo --version

step "Scripts"
for script in deploy/*.sh tests/*.sh tests/*/*.sh .ci/run; do
  bash -n "$script"
done

step "Formatting"
cargo fmt --all --check

step "Lints"
cargo clippy --release --locked --workspace --features loadgen/tokenizer --all-targets -- -D warnings

if cargo deny --version >/dev/null 2>&1; then
  step "Licences and advisories"
  cargo deny check
fi

step "Build"
cargo build --release --locked --workspace --features loadgen/tokenizer

step "Configurations"
# Secrets that the files name; `check` only needs them to be there.
export INFERSCOPE_KEY_SECRET=a-secret-for-the-check ENGINE_API_KEY=for-the-check
export INFERSCOPE_ADMIN_TOKEN=a-token-for-the-check
for file in configs/gateway*.yaml; do
  target/release/inferscope-gateway check -c "$file"
done

step "Tests"
cargo test --release --locked --workspace --features loadgen/tokenizer

step "Engine and clients"
tests/engines/llamacpp.sh install
tests/clients/install.sh

step "A real engine, and the OpenAI clients"
cargo test --release --locked --workspace --features loadgen/tokenizer --test scenarios -- --ignored --test-threads 1
