#!/usr/bin/env bash
# Installs what a Debian 12 machine lacks, and says so; silent when nothing is missing.
# Usage: tests/setup.sh demo|tests      `demo` is enough to build and run, `tests` adds the clients' languages.
# Puts a Rust toolchain on PATH: an installed cargo of at least the workspace's rust-version, else Debian's.
set -euo pipefail
what=${1:-tests}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo -n "$@"; else
    echo "setup: needs root for: $*; run it as root, or install these packages by hand" >&2
    exit 1
  fi
}

# A package is wanted for a command that it brings.
missing=()
want() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }

want cc build-essential
want cmake cmake
want pkg-config pkg-config
want git git
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)

needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
recent_enough() {
  local have
  have=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$needed" "${have%%-*}" | sort -V | head -n1)" = "$needed" ]
}
recent_enough && command -v cargo >/dev/null || missing+=(rustc-web cargo-web)
if [ "$what" = tests ]; then
  cargo fmt --version >/dev/null 2>&1 || missing+=(rustfmt-web)
  cargo clippy --version >/dev/null 2>&1 || missing+=(rust-web-clippy)
  python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
  want npm npm
fi

if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing from Debian: ${missing[*]}"
  as_root apt-get update -qq
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  hash -r
fi
recent_enough || {
  echo "setup: rustc $needed or later is needed, found $(rustc --version 2>&1 | head -n1); install it with rustup" >&2
  exit 1
}
