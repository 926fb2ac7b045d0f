"""A provider as a relay meets it: an HTTP server that records every call and, like a good one, has an effect only once
a key. What it answers is the test's to say.
"""
import json
import socket
import threading
import time
from collections import namedtuple
from decimal import Decimal

from .listener import Listener

Call = namedtuple("Call", "key body headers method path nth at")
# delay: seconds before the answer; drop: the connection ends after the head and half of the body
Answer = namedtuple("Answer", "status body headers delay drop", defaults=(200, b"ok", {}, 0, False))
OK = Answer()


class Provider:
    """Used as a context manager: it listens on a port of its own. rule(call) gives an Answer; seen(call) is asked to
    look at each call before it is answered; tls is an ssl.SSLContext, if it is https."""

    def __init__(self, rule=None, seen=None, tls=None):
        self.rule, self.seen, self._tls = rule or (lambda call: OK), seen, tls
        self.calls, self.effects = [], {}  # effects: key -> when, in the order in which they happened
        self.errors = []                   # what went wrong in here, or in seen()
        self.most = self._now = 0          # calls at the same time
        self._lock = threading.Lock()
        self._counts = {}
        self._listener = Listener(self._serve)

    @property
    def url(self):
        return self.url_at("localhost" if self._tls else "127.0.0.1")

    def url_at(self, host):
        return f"{'https' if self._tls else 'http'}://{host}:{self._listener.port}/send"

    def keys(self):
        with self._lock:
            return [call.key for call in self.calls]

    def __enter__(self):
        self._listener.__enter__()
        return self

    def __exit__(self, *_):
        self._listener.__exit__()

    def _serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        if self._tls:
            connection = self._tls.wrap_socket(connection, server_side=True)
        with connection, connection.makefile("rb") as stream:
            while self.serve(stream, connection):
                pass

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
            call = Call(key, json.loads(body, parse_float=Decimal), headers, line[0].decode(), line[1].decode(), nth, time.monotonic())
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
