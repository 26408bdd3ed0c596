# shellcheck shell=bash
# Installs what a build or a test run lacks; sourced by deploy/demo.sh and tests/run.sh.
#
#   setup build    C and C++ compilers, cmake, pkg-config, CA certificates, Rust 1.90 or newer
#   setup tests    the same, with rustfmt, clippy, Python with venv, and npm
#
# Debian packages only, as root or through sudo. Says what it installs, and nothing when all is there.
# Rust: what is on PATH or in ~/.cargo/bin when it is new enough, else Debian's own (the -web packages,
# which Debian keeps current for its browsers).

rust_wanted=1.90
script_start=$SECONDS

fail() {
  echo "error: $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "installing packages needs root: run this as root, install sudo, or install them yourself: $*"
  fi
}

at_least() { # VERSION WANTED
  [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

rust_version() {
  cargo --version 2>/dev/null | awk '{print $2}'
}

rust_is_new_enough() {
  local found
  command -v rustc >/dev/null && found=$(rust_version) && [ -n "$found" ] && at_least "$found" "$rust_wanted"
}

missing_packages() { # build | tests
  local need=()
  command -v cc >/dev/null && command -v c++ >/dev/null && command -v make >/dev/null || need+=(build-essential)
  command -v cmake >/dev/null || need+=(cmake)
  command -v pkg-config >/dev/null || need+=(pkg-config)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)
  rust_is_new_enough || need+=(rustc-web cargo-web)
  if [ "$1" = tests ]; then
    if ! rust_is_new_enough; then
      need+=(rustfmt-web rust-web-clippy)
    elif [ -x /usr/bin/cargo ] && [ "$(command -v cargo)" = /usr/bin/cargo ]; then
      command -v rustfmt >/dev/null || need+=(rustfmt-web)
      command -v cargo-clippy >/dev/null || need+=(rust-web-clippy)
    fi
    # ensurepip comes with the venv package alone.
    python3 -c 'import ensurepip, venv' 2>/dev/null || need+=(python3 python3-venv)
    command -v npm >/dev/null || need+=(nodejs npm)
  fi
  [ ${#need[@]} -eq 0 ] || printf '%s\n' "${need[@]}"
}

setup() { # build | tests
  if ! rust_is_new_enough && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH=$HOME/.cargo/bin:$PATH
  fi
  local need
  mapfile -t need < <(missing_packages "$1")
  if [ ${#need[@]} -gt 0 ]; then
    command -v apt-get >/dev/null ||
      fail "missing: ${need[*]} (Debian's names). Install them and Rust $rust_wanted or newer, then run this again"
    echo "installing: ${need[*]}"
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get -qq update
    as_root apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${need[@]}" >/dev/null
    hash -r
  fi
  rust_is_new_enough ||
    fail "cargo is $(rust_version || true), $rust_wanted or newer is needed: install Rust with rustup, then run this again"
  if [ "$1" = tests ]; then
    cargo fmt --version >/dev/null 2>&1 || fail "rustfmt is missing: rustup component add rustfmt"
    cargo clippy --version >/dev/null 2>&1 || fail "clippy is missing: rustup component add clippy"
  fi
}

elapsed() {
  printf '%dm%02ds' $(((SECONDS - script_start) / 60)) $(((SECONDS - script_start) % 60))
}
