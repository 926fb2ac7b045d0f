"""Who plays: effectd, the peers that people run today, the floor, and the broker alone."""
import os
from dataclasses import dataclass

import programs
from client import wait_all
from lib import build, config, orders
from lib.documented import options
from stage import DUPLICATE_EVERY

TEXTBOOK, GO, DRAIN = "textbook Python", "Go, 8 connections", "drain, no database"
ROWS, SET = "rows", "set"  # a statement or two for each message, or two statements for a whole batch
BATCHES = (1, 10, 100, 500)
FLOOR_BATCH = 100
FEWER = {1: 10000, 10: 40000}  # orders for small batches, and whoever else is slow: a rate needs no more


@dataclass
class Contender:
    name: str
    connections: int = 1
    kind: str = ROWS
    batch: int = 1
    most_orders: int = 10**9
    database: bool = True

    def fill(self, scene, order_count):
        """Put what it consumes where it looks for it."""
        scene.publish(order_count)

    def start(self, scene, deliveries):
        """Start its processes; they consume deliveries, all together."""
        raise NotImplementedError

    def finish(self, scene, clients, timeout):
        """Wait until all is consumed; the Cost of each process."""
        return wait_all(clients, timeout)


class Peer(Contender):
    """Programs that consume a number of deliveries and end."""

    def __init__(self, name, argv, processes=1, **about):
        super().__init__(name, **about)
        self._argv, self._processes = argv, processes

    def start(self, scene, deliveries):
        program, *options = self._argv
        return [scene.start([program, scene.queues[0], share, *options])
                for share in _shares(deliveries, self._processes)]


class Effectd(Contender):
    """One daemon with the loyalty consumer, which consumes until it is told to stop."""

    def start(self, scene, deliveries):
        plugin = programs.LOYALTY_ROWS if self.kind == ROWS else build.plugin("loyalty_points")
        return [start_daemon(scene, {"loyalty": plugin}, workers=self.connections, batch_max=self.batch)]

    def finish(self, scene, clients, timeout):
        daemon, = clients
        scene.wait_drained(daemon)
        daemon.terminate()
        return wait_all(clients, timeout)


class SqlEffect(Effectd):
    """The same consumer without C: the section that the docs show."""

    def start(self, scene, deliveries):
        return [start_daemon(scene, {"loyalty": build.plugin("sql_effect")}, workers=self.connections,
                             batch_max=self.batch, **options("plugins/sql_effect/README.md", "loyalty"))]


class Feed(Effectd):
    """The same consumer and bodies, from a file and without a broker."""

    def fill(self, scene, order_count):
        with open(_lines(scene), "wb") as file:
            for order_id in range(1, order_count + 1):
                file.write(orders.body(order_id) + b"\n" if order_id % DUPLICATE_EVERY else
                           (orders.body(order_id) + b"\n") * 2)
        scene.settle()

    def start(self, scene, deliveries):
        file = write_config(scene, {"loyalty": programs.LOYALTY_ROWS}, batch_max=self.batch)
        return [scene.start([build.EFFECTD, "feed", "-c", file, "--consumer", "loyalty", "--workers",
                             self.connections, "--rejects", os.path.join(scene.folder, "rejects.jsonl"),
                             _lines(scene)])]

    def finish(self, scene, clients, timeout):
        return wait_all(clients, timeout)


def _lines(scene):
    return os.path.join(scene.folder, "orders.jsonl")


def start_daemon(scene, plugins, **settings):
    """effectd run with a consumer for each (name, plugin file); the scene's queues in the same order."""
    return scene.start([build.EFFECTD, "run", "-c", write_config(scene, plugins, **settings)])


def write_config(scene, plugins, **settings):
    sections = config.base(scene.database, scene.vhost, scene.folder)
    sections["effectd"]["log_level"] = "info"
    for queue, (consumer, plugin) in zip(scene.queues, plugins.items()):
        sections[f"consumer:{consumer}"] = {"plugin": plugin, "queue": queue, **settings}
    file = os.path.join(scene.folder, "effectd.ini")
    with open(file, "w", encoding="utf-8") as out:
        out.write(config.text(sections))
    return file


def floor_name(connections, kind):
    return f"floor, {connections} connection{'s'[:connections > 1]}, {kind}"


def effectd_name(workers, batch, kind):
    return f"effectd, {workers} worker{'s'[:workers > 1]}, batch {batch}, {'rows' if kind == ROWS else 'apply_batch'}"


def sql_effect_name(workers, batch):
    return f"sql_effect, {workers} worker{'s'[:workers > 1]}, batch {batch}"


def feed_name(workers, batch):
    return f"effectd feed, {workers} worker{'s'[:workers > 1]}, batch {batch}, rows"


def floor(connections, kind, batch=FLOOR_BATCH, name=None):
    return Peer(name or floor_name(connections, kind), [programs.FLOOR, batch, kind], processes=connections,
                connections=connections, kind=kind, batch=batch)


def effectd(workers, batch, kind):
    return Effectd(effectd_name(workers, batch, kind), workers, kind, batch, FEWER.get(batch, 10**9))


def sql_effect(workers, batch):
    return SqlEffect(sql_effect_name(workers, batch), workers, ROWS, batch)


def feed(workers, batch):
    return Feed(feed_name(workers, batch), workers, ROWS, batch)


def textbook():
    return Peer(TEXTBOOK, [programs.TEXTBOOK], most_orders=FEWER[1])


def go():
    return Peer(GO, [programs.GO, 8], connections=8, most_orders=FEWER[10])


def for_throughput():
    """In the order of the table. A batch of one has nothing to apply together: only rows."""
    return [textbook(), go(), Peer(DRAIN, [programs.DRAIN], database=False),
            *[floor(connections, kind) for connections in (1, 2) for kind in (ROWS, SET)],
            *[effectd(workers, batch, kind) for workers in (1, 2) for kind in (ROWS, SET) for batch in BATCHES
              if batch > 1 or kind == ROWS],
            sql_effect(2, 100), feed(2, 100)]


def for_latency():
    return [textbook(), go(), floor(1, ROWS, 1, "floor, 1 connection, batch 1"),
            *[effectd(workers, 100, kind) for workers in (1, 2) for kind in (ROWS, SET)]]


def _shares(total, parts):
    return [total * (part + 1) // parts - total * part // parts for part in range(parts)]
