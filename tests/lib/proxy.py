"""A TCP proxy between effectd and one of its servers that fails at a chosen moment.

It knows what passes by name (see wire.py): "> COMMIT" is the client's on its way to the server, "< COMMIT" the server's
answer, "> basic.ack" an acknowledgement. A rule waits for a name and then does something, once or as often as told.
Beside rules it can stall, drip, refuse new connections and cut those that are there. Unasked it lets everything pass.
"""
import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter

from .wait import wait_until
from .wire import SPLITTERS

TO_SERVER, TO_CLIENT = ">", "<"
CHUNK = 65536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER that makes close() send RST

# What a rule does to the message that it waited for.
CUT = "cut"                  # it does not pass, both sides are reset
CUT_BEHIND = "cut behind"    # it passes, then both sides are reset
LOSE_CLIENT = "lose client"  # it passes, then the client is reset; the server does not learn of it
HOLE = "hole"                # neither it nor anything else passes any more, both sides stay open
SWALLOW = "swallow"          # it alone does not pass
HOLD = "hold"                # it and what is behind it waits for release()


class Rule:
    """What was armed: how often it struck, and what it holds."""

    def __init__(self, name, action, times):
        self.name, self.action, self.left, self.struck = name, action, times, 0
        self.released = False

    def wait(self, times=1, timeout=15):
        """Wait until it struck that often."""
        wait_until(lambda: self.struck >= times, timeout, f"{self.action} to happen at {self.name!r}")

    def release(self):
        self.released = True


class Proxy:
    """Listens on a port of its own; a context manager. passed counts what it let pass, by name."""

    def __init__(self, protocol, port):
        """protocol: postgresql or amqp, of the server on the loopback port."""
        self.passed = Counter()
        self.piece = None  # to the client in pieces of so many bytes
        self.left = None   # after so many bytes nothing passes to the client
        self.pooled = False  # as PgBouncer: startup options are dropped, and the process id is not the server's
        self.delay_s = 0   # what is read together waits so long before it passes
        self._splitters, self._target = SPLITTERS[protocol], port
        self._rules, self._links, self._stalled = [], set(), set()
        self._loop = asyncio.new_event_loop()
        self._server = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.accept()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.refuse()
        self.cut()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def conninfo(self, database):
        """How to reach a Database through this proxy."""
        server = database.server
        return f"host=127.0.0.1 port={self.port} user={server.user} dbname={database.name} " \
               "sslmode=disable gssencmode=disable"

    def url(self, vhost):
        """How to reach a Vhost through this proxy."""
        return vhost.url.replace(f":{vhost.server.port}/", f":{self.port}/")

    def arm(self, name, action, times=1):
        """Do action at the next times messages of that name (None: at all of them), and return the rule."""
        rule = Rule(name, action, times)
        self._rules.append(rule)
        return rule

    def disarm(self):
        self._rules = []

    def stall(self, *ways):
        """Read nothing any more from the client (TO_SERVER), the server (TO_CLIENT), or by default both."""
        self._stalled = set(ways or (TO_SERVER, TO_CLIENT))

    def resume(self):
        self._stalled = set()

    def refuse(self):
        """New connections are refused until accept()."""
        async def close():
            self._server.close()
        self._run(close())

    def accept(self):
        async def listen():
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._run(listen())

    def cut(self):
        """Reset all connections."""
        async def reset():
            for link in list(self._links):
                link.reset()
        self._run(reset())

    def lose_clients(self):
        """Reset all connections with clients; the server does not learn of it."""
        async def reset():
            for link in list(self._links):
                link.lose_client()
        self._run(reset())

    def inject(self, way, message):
        """Send bytes of our own, on all connections, between two messages."""
        async def write():
            for link in list(self._links):
                (link.server if way == TO_SERVER else link.client).write(message)
        self._run(write())

    def connections(self):
        """Clients that are connected now."""
        return sum(not link.client.is_closing() for link in list(self._links))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    @staticmethod
    async def _end():
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, client_reader, client):
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            client.close()
            return
        link = _Link(client, server)
        self._links.add(link)
        to_server, to_client = (make() for make in self._splitters)
        await asyncio.gather(self._pass(link, TO_SERVER, client_reader, server, to_server),
                             self._pass(link, TO_CLIENT, server_reader, client, to_client))
        link.close()
        self._links.discard(link)

    async def _pass(self, link, way, reader, writer, splitter):
        with contextlib.suppress(OSError):
            while True:
                await self._while(lambda: way in self._stalled)
                data = await reader.read(CHUNK)
                if not data:
                    break
                await asyncio.sleep(self.delay_s)
                for name, message in splitter.feed(data):
                    await self._while(lambda: way in self._stalled)
                    await self._one(link, way, f"{way} {name}", message, writer)
        link.ended(way)

    async def _one(self, link, way, name, message, writer):
        rule = self._strike(name)
        action = rule and rule.action
        if action == HOLD:
            await self._while(lambda: not rule.released)
        if action == CUT:
            link.reset()
        if action == HOLE:
            link.hole = True
        if link.hole or link.lost or action in (CUT, SWALLOW):
            return
        if self.pooled:
            message = _through_pooler(name, message)
        await self._write(way, message, writer)
        self.passed[name] += 1
        if action == CUT_BEHIND:
            link.reset()
        if action == LOSE_CLIENT:
            link.lose_client()

    async def _write(self, way, message, writer):
        if way == TO_CLIENT and self.left is not None:
            message = message[:self.left]
            self.left -= len(message)
        size = self.piece if way == TO_CLIENT and self.piece else len(message) or 1
        for at in range(0, len(message), size):
            writer.write(message[at:at + size])
            await writer.drain()

    def _strike(self, name):
        for rule in self._rules:
            if rule.name == name and rule.left != 0:
                rule.left = rule.left and rule.left - 1
                rule.struck += 1
                return rule
        return None

    @staticmethod
    async def _while(condition):
        while condition():
            await asyncio.sleep(0.005)


def _through_pooler(name, message):
    if name == "< K":
        return struct.pack("!cIII", b"K", 12, 4000000, 4711)
    if name == "> startup":
        words = message[8:].rstrip(b"\0").split(b"\0")
        kept = b"".join(key + b"\0" + value + b"\0" for key, value in zip(words[::2], words[1::2]) if key != b"options")
        return struct.pack("!I", 8 + len(kept) + 1) + message[4:8] + kept + b"\0"
    return message


class _Link:
    """One client's connection and the one to the server that was made for it."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.hole = self.lost = False
        for writer in (client, server):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reset(self):
        self.lost = True
        for writer in (self.client, self.server):
            _reset(writer)

    def lose_client(self):
        self.lost = True
        _reset(self.client)

    def ended(self, way):
        """The side that sends this way closed its connection: so does the other, unless it is not to learn of it."""
        if not self.hole and (way == TO_CLIENT or not self.lost):
            self.close()

    def close(self):
        for writer in (self.client, self.server):
            writer.close()


def _reset(writer):
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
