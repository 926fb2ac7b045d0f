"""A provider as a relay meets it: an HTTP server that records every call and, like a good one, has an effect only once
a key. What it answers is the test's to say.
"""
import json
import socket
import socketserver
import threading
import time
from collections import namedtuple

Call = namedtuple("Call", "key body headers method path nth at")
# delay: seconds before the answer; drop: the connection ends after the head and half of the body
Answer = namedtuple("Answer", "status body headers delay drop", defaults=(200, b"ok", {}, 0, False))
OK = Answer()


class Provider:
    """Used as a context manager: it listens on a port of its own. rule(call) gives an Answer; seen(call) is asked to
    look at each call before it is answered."""

    def __init__(self, rule=None, seen=None):
        self.rule, self.seen = rule or (lambda call: OK), seen
        self.calls, self.effects = [], {}  # effects: key -> when, in the order in which they happened
        self.errors = []                   # what went wrong in here, or in seen()
        self.most = self._now = 0          # calls at the same time
        self._lock = threading.Lock()
        self._counts = {}
        self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/send"

    def keys(self):
        with self._lock:
            return [call.key for call in self.calls]

    def __enter__(self):
        provider = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                try:
                    while provider.serve(self.rfile, self.connection):
                        pass
                except (ConnectionError, TimeoutError, ValueError):
                    pass  # the relay went away

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        if self._server:
            self._server.shutdown()
            self._server.server_close()

    def serve(self, stream, connection):
        """One request; false when the connection is over."""
        line = stream.readline().split()
        if not line:
            return False
        headers = {}
        while (text := stream.readline().strip()):
            name, _, value = text.partition(b":")
            headers[name.decode().lower()] = value.strip().decode("latin-1")
        body = stream.read(int(headers.get("content-length", 0)))
        key = headers.get("idempotency-key")
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            nth = self._counts[key] = self._counts.get(key, 0) + 1
            call = Call(key, json.loads(body), headers, line[0].decode(), line[1].decode(), nth, time.monotonic())
            self.calls.append(call)
        try:
            if self.seen:
                self.seen(call)
            return self._answer(call, self.rule(call), connection)
        except (AssertionError, LookupError, TypeError) as error:
            self.errors.append(error)
            raise ConnectionError from error
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, call, answer, connection):
        if answer.delay:
            time.sleep(answer.delay)
        if answer.status // 100 == 2:
            with self._lock:
                self.effects.setdefault(call.key, time.monotonic())
        if answer.status == 0:  # not a byte
            return False
        head = f"HTTP/1.1 {answer.status} X\r\nContent-Length: {len(answer.body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        body = answer.body[:len(answer.body) // 2] if answer.drop else answer.body
        connection.sendall(head.encode() + b"\r\n" + body)
        if answer.drop:
            connection.shutdown(socket.SHUT_RDWR)
        return not answer.drop
