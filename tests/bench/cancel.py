"""Client, engine and clock of cancel.sh, in one thread.

The gateway is the only other process, so each try is: bring a request into its phase, note the
time, leave, block until the other side sees it, note the time. Both instants are CLOCK_MONOTONIC of
this thread; the figure contains the kernel's delivery of both events and this thread's wake-up.
"""

import json
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

TARGET_MS = 50.0
PATIENCE_S = 10.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)


class Engine:
    """Takes what comes and says nothing by itself."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]

    def request(self):
        """The next request, read to its end, on a connection of its own."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        received = b""
        while b'"m"}' not in received:
            received += connection.recv(65536)
        return connection

    def untouched(self):
        self.listener.setblocking(False)
        try:
            self.listener.accept()
            return False
        except BlockingIOError:
            return True
        finally:
            self.listener.settimeout(PATIENCE_S)


class Deaf:
    """A port where a connect waits: its accept queue is full and nobody takes from it."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.queued = []
        while True:
            try:
                address = self.listener.getsockname()
                self.queued.append(socket.create_connection(address, timeout=0.2))
            except TimeoutError:
                return


class Gateway:
    def __init__(self, binary, folder, engine, busy, deaf):
        def pool(name, port, more=""):
            url = f"http://127.0.0.1:{port}"
            return f'  {name}: {{endpoints: [{{name: e, url: "{url}"}}]{more}}}\n'

        path = f"{folder}/gateway.yaml"
        with open(path, "w") as file:
            file.write(
                'version: 1\nlisten: [{addr: "127.0.0.1:0"}]\nmetrics: {addr: "127.0.0.1:0"}\n'
                "auth: {mode: none}\nlogs: {level: error}\n"
                "timeouts: {connect: 60s, first_byte: 60s}\nqueue: {max_wait: 60s}\n"
                "models: {free: {pool: free}, busy: {pool: busy}, deaf: {pool: deaf}}\npools:\n"
                + pool("free", engine.port)
                + pool("busy", busy.port, ", concurrency: 1")
                + pool("deaf", deaf.port)
            )
        command = [binary, "run", "-c", path]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ready = json.loads(self.process.stdout.readline())
        host, port = ready["data"][0].rsplit(":", 1)
        self.address = (host, int(port))
        self.metrics = f"http://{ready['metrics']}/metrics"

    def connect(self, model, stream=True, part=1.0):
        """A client that has sent its request, or that part of its body."""
        body = {"model": model, "stream": stream, "messages": [], "end": "m"}
        body = json.dumps(body, separators=(",", ":")).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        client = socket.create_connection(self.address, timeout=PATIENCE_S)
        client.sendall(head % len(body) + body[: int(len(body) * part)])
        return client

    def until(self, series, value):
        for _ in range(10_000):
            text = urllib.request.urlopen(self.metrics, timeout=PATIENCE_S).read().decode()
            for line in text.splitlines():
                if line.startswith(f"inferscope_gateway_{series} "):
                    if float(line.rsplit(" ", 1)[1]) == value:
                        return
        sys.exit(f"{series} did not become {value}")


def fin(client):
    client.shutdown(socket.SHUT_WR)


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def end(connection):
    """Blocks until the other side has closed."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass


def measure(leave, client, watched):
    # Nothing but the client's leaving may end it.
    if select.select([watched], [], [], 0.002)[0]:
        sys.exit("the connection ended, or spoke, before the client left")
    began = time.monotonic_ns()
    leave(client)
    end(watched)
    took = (time.monotonic_ns() - began) / 1e6
    client.close()
    watched.close()
    return took


def phases(gateway, engine, busy):
    """Name, how the client leaves, one try."""

    def body():
        client = gateway.connect("free", part=0.5)
        gateway.until("requests_in_flight", 1)
        return measure(fin, client, client)

    def queued():
        client = gateway.connect("busy")
        gateway.until("queue_waiting", 1)
        return measure(fin, client, client)

    def connecting():
        client = gateway.connect("deaf")
        gateway.until('endpoint_requests{endpoint="e",pool="deaf"}', 1)
        return measure(fin, client, client)

    def waiting(leave, stream):
        client = gateway.connect("free", stream)
        return measure(leave, client, engine.request())

    def decoding(leave):
        client = gateway.connect("free")
        connection = engine.request()
        connection.sendall(HEAD + CHUNK)
        received = b""
        while EVENT not in received:
            received += client.recv(65536)
        return measure(leave, client, connection)

    yield "reading body", "FIN", body
    held = gateway.connect("busy")
    at_engine = busy.request()
    yield "queued", "FIN", queued
    if not busy.untouched():
        sys.exit("a request that was left in the queue reached the engine")
    held.close()
    end(at_engine)
    yield "connecting", "FIN", connecting
    for name, leave in (("FIN", fin), ("RST", reset)):
        yield "prefill", name, lambda leave=leave: waiting(leave, True)
        yield "decoding", name, lambda leave=leave: decoding(leave)
        yield "non-streaming", name, lambda leave=leave: waiting(leave, False)
    gateway.until("permits_outstanding", 0)


def percentile(values, share):
    """The nearest rank."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]


def main():
    binary, tries = sys.argv[1], int(sys.argv[2])
    engine, busy, deaf = Engine(), Engine(), Deaf()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(binary, folder, engine, busy, deaf)
        try:
            print(f"{'phase':14} {'by':4} {'tries':>5} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
            for phase, how, attempt in phases(gateway, engine, busy):
                took = [attempt() for _ in range(tries)]
                p50, p99 = percentile(took, 50), percentile(took, 99)
                print(f"{phase:14} {how:4} {tries:5} {p50:8.3f} {p99:8.3f} {max(took):8.3f}")
                good &= p99 <= TARGET_MS
        finally:
            gateway.process.kill()
            gateway.process.wait()
    return 0 if good else 1


sys.exit(main())
