"""Runs a command and prints what it took, beside the size of the run that it reads.

Usage: scale.py N RAW_DIR COMMAND...
"""

import os
import sys
import time
from pathlib import Path

n, raw, command = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
size = sum(f.stat().st_size for f in raw.iterdir())
start = time.monotonic()
pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, used = os.wait4(pid, 0)
seconds = time.monotonic() - start
code = os.waitstatus_to_exitcode(status)
print(
    f"{n} requests, {size / 1e9:.2f} GB: peak memory {used.ru_maxrss / 1024:.1f} MiB,"
    f" {seconds:.1f} s (user {used.ru_utime:.1f} s, system {used.ru_stime:.1f} s), exit {code}"
)
sys.exit(code)
