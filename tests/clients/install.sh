#!/usr/bin/env bash
# Installs the pinned OpenAI clients into target/clients: openai-python in a venv, openai-node with a
# Node.js of its own from npm (Debian 12's is older than the client accepts).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(cd "$here/../.." && pwd)/target/clients
mkdir -p "$dir/node"
exec 9>"$dir/.lock"
flock 9
[ -x "$dir/python/bin/python" ] || python3 -m venv "$dir/python"
"$dir/python/bin/pip" install -q --disable-pip-version-check -r "$here/python/requirements.txt"
if ! cmp -s "$here/node/package.json" "$dir/node/package.json" || [ ! -d "$dir/node/node_modules/openai" ]; then
  cp "$here/node/package.json" "$dir/node/"
  (cd "$dir/node" && npm install --silent --no-audit --no-fund --no-package-lock)
fi
cp "$here"/node/*.mjs "$dir/node/"
