"""Serves one GGUF file with llama.cpp's own HTTP server, through the xllamacpp package.

Arguments: GGUF PORT. Serves the model under the name `smollm2` with four slots of 2,048 tokens.
Prints `{"ready": true, "listen": "127.0.0.1:PORT"}` once the model is loaded.
"""

import json
import os
import signal
import socket
import sys
import threading

import xllamacpp


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main() -> None:
    gguf, port = sys.argv[1], int(sys.argv[2]) or free_port()
    # The library logs on standard output; that channel belongs to the ready line alone.
    ready = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.model_alias = {"smollm2"}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx, params.n_predict = 4, 8192, -1
    params.endpoint_metrics = params.endpoint_slots = True
    # One core is left for whoever measures.
    params.cpuparams.n_threads = max(1, min(4, (os.cpu_count() or 2) - 1))
    server = xllamacpp.Server(params)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def watch_parent() -> None:
        while os.read(0, 4096):
            pass
        stop.set()

    threading.Thread(target=watch_parent, daemon=True).start()
    print(json.dumps({"ready": True, "listen": f"127.0.0.1:{port}"}), file=ready, flush=True)
    stop.wait()
    del server


main()
