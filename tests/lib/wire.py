"""What passes on a connection, by name: PostgreSQL's and RabbitMQ's protocols, read as far as a test needs it.

A splitter is fed with the bytes of one direction and gives (name, bytes) for each whole message. Names are
- PostgreSQL, client: the first word of the SQL that is executed (COMMIT), with " sync" for the Sync behind it
- PostgreSQL, server: the first word of a command tag (COMMIT), else the letter of the message
- RabbitMQ: the method (basic.ack), with its content in one piece if it has one; heartbeat
"""
import struct

from pika import spec

PROTOCOL_3 = 196608
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
GREETING = 8  # bytes: AMQP and a version
WITH_CONTENT = {spec.Basic.Publish, spec.Basic.Return, spec.Basic.Deliver, spec.Basic.GetOk}


class Splitter:
    """Cuts a stream into messages. A subclass knows how long the next one is and what it is called."""

    def __init__(self):
        self._rest = b""

    def feed(self, data):
        data = self._rest + data
        at = 0
        while (size := self._size(data, at)) and at + size <= len(data):
            message = data[at:at + size]
            at += size
            yield from self._named(message)
        self._rest = data[at:]

    def _size(self, data, at):
        """The length of the message that begins at at, or None: not known yet."""
        raise NotImplementedError

    def _named(self, message):
        """What passes now that message is there."""
        raise NotImplementedError


class _PostgresClient(Splitter):
    def __init__(self):
        super().__init__()
        self._started, self._sql, self._word = False, {}, ""

    def _size(self, data, at):
        letter = int(self._started)
        if len(data) < at + letter + 4:
            return None
        return letter + struct.unpack_from("!I", data, at + letter)[0]

    def _named(self, message):
        if not self._started:
            code, = struct.unpack_from("!I", message, 4)
            assert code == PROTOCOL_3, "the proxy reads no TLS: connect with conninfo()"
            self._started = True
            yield "startup", message
            return
        kind, strings = message[:1], message[5:].split(b"\0", 2)
        if kind == b"P":
            self._sql[strings[0]] = strings[1]
        elif kind == b"B":
            self._word = _first_word(self._sql[strings[1]])
        elif kind == b"Q":
            self._word = _first_word(strings[0])
        yield {b"B": self._word, b"Q": self._word, b"S": f"{self._word} sync"}.get(kind, kind.decode()), message


class _PostgresServer(Splitter):
    def _size(self, data, at):
        return 1 + struct.unpack_from("!I", data, at + 1)[0] if len(data) >= at + 5 else None

    def _named(self, message):
        tag = message[:1] == b"C"
        yield _first_word(message[5:-1]) if tag else message[:1].decode(), message


def _first_word(sql):
    return sql.split(None, 1)[0].decode().upper() if sql.strip() else ""


class _Amqp(Splitter):
    def __init__(self, greeting=0):
        super().__init__()
        self._greeting = greeting
        self._open = {}  # channel -> a method whose content is still coming

    def _size(self, data, at):
        if self._greeting:
            return self._greeting
        return 8 + struct.unpack_from("!I", data, at + 3)[0] if len(data) >= at + 7 else None

    def _named(self, message):
        if self._greeting:
            self._greeting = 0
            yield "greeting", message
            return
        kind, channel = struct.unpack_from("!BH", message)
        if kind == METHOD:
            method = spec.methods.get(struct.unpack_from("!I", message, 7)[0])
            name = method.NAME.lower() if method else "unknown"
            if method in WITH_CONTENT:
                self._open[channel] = _Content(name, message)
            else:
                yield name, message
        elif kind in (HEADER, BODY):
            content = self._open[channel]
            if content.add(kind, message):
                yield content.name, bytes(self._open.pop(channel).message)
        else:
            yield "heartbeat" if kind == HEARTBEAT else f"frame {kind}", message


class _Content:
    """A method with its header and body frames."""

    def __init__(self, name, method):
        self.name, self.message, self._left = name, bytearray(method), 0

    def add(self, kind, frame):
        """True: it is whole."""
        self.message += frame
        self._left = struct.unpack_from("!Q", frame, 11)[0] if kind == HEADER else self._left - (len(frame) - 8)
        return self._left == 0


SPLITTERS = {
    "postgresql": (_PostgresClient, _PostgresServer),
    "amqp": (lambda: _Amqp(GREETING), _Amqp),
}
