"""The measurements. Every contender's time comes from PostgreSQL's clock, by the rows that it wrote."""
import time
from dataclasses import dataclass
from statistics import quantiles

import contenders
import cpu
from client import wait_all
from lib import build, orders
from stage import DUPLICATE_EVERY, PATIENCE_S, deliveries

# From the beginning of the first transaction to the last commit. Starting a program takes no part in it.
THROUGHPUT = ("SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)) - min(processed_at))::float8, "
              "       count(DISTINCT xmin::text) FROM effectd.processed_messages")
COMMITTED = ("SELECT substr(message_key, 17)::int8, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::int8 "
             "FROM effectd.processed_messages")
EFFECTS = ("SELECT (SELECT count(*) FROM effectd.processed_messages WHERE consumer = 'loyalty'), "
           "       (SELECT count(*) FROM point_ledger), (SELECT sum(points) FROM balances)::int8")
WAL_SYNC = "SELECT wal_sync, wal_sync_time FROM pg_stat_wal"


@dataclass
class Throughput:
    deliveries: int
    seconds: float
    batch: float         # deliveries in a transaction, on average
    cpu_us: float        # of the contender's processes, a delivery
    server_cpu_us: float # of PostgreSQL and RabbitMQ, a delivery
    peak_mib: float
    others: float        # share of the machine's CPU time that went to programs that are no part of the bench

    @property
    def rate(self):
        return self.deliveries / self.seconds


def throughput(stage, contender, order_count):
    """Fill a queue or a file, let the contender consume it, check that each order is applied once."""
    order_count = min(order_count, contender.most_orders)
    count = deliveries(order_count)
    with stage.scene("orders") as scene:
        contender.fill(scene, order_count)
        began, busy_before, servers_before = time.monotonic(), cpu.machine_busy_s(), stage.server_cpu_s()
        costs = contender.finish(scene, contender.start(scene, count), PATIENCE_S)
        servers, busy = stage.server_cpu_s() - servers_before, cpu.machine_busy_s() - busy_before
        elapsed = time.monotonic() - began
        if contender.database:
            _require_effects(scene, order_count)
            seconds, transactions = scene.database.rows(THROUGHPUT)[0]
        else:
            seconds, transactions = _own_seconds(costs[0].output), count
        depth = scene.vhost.depth(scene.queues[0])
        assert depth == (0, 0), f"{contender.name} left {depth} in the queue"
    own = sum(cost.cpu_s for cost in costs)
    return Throughput(count, seconds, count / transactions, own / count * 1e6, servers / count * 1e6,
                      sum(cost.peak_mib for cost in costs), max(0, busy - own - servers) / elapsed / cpu.CORES)


@dataclass
class Latency:
    p50_ms: float
    p99_ms: float
    most_ms: float


def latency(stage, contender, rate, seconds):
    """From just before an order is published to the time of its commit, at a fixed rate, both clocks the machine's."""
    order_count = rate * seconds * DUPLICATE_EVERY // (DUPLICATE_EVERY + 1)
    with stage.scene("orders") as scene:
        stage.wait_idle()
        clients = contender.start(scene, deliveries(order_count))
        scene.wait_consumers(1 if isinstance(contender, contenders.Peer) else contender.connections)
        stage.wait_idle()
        published = scene.publish_paced(order_count, rate)
        contender.finish(scene, clients, PATIENCE_S)
        _require_effects(scene, order_count)
        taken = [(committed - published[order - 1]) / 1000 for order, committed in scene.database.rows(COMMITTED)]
    percent = quantiles(taken, n=100)
    return Latency(percent[49], percent[98], max(taken))


def memory_mib(stage, order_count):
    """Peak resident memory of one process with three consumers of two workers each, which all had a full queue."""
    plugins = {"loyalty": build.plugin("loyalty_points"), "analytics": build.plugin("analytics"),
               "receipts": build.plugin("receipts")}
    with stage.scene(*plugins) as scene:
        scene.publish(order_count)
        daemon = contenders.start_daemon(scene, plugins, workers=2, batch_max=100)
        scene.wait_drained(daemon)
        daemon.terminate()
        cost, = wait_all([daemon], PATIENCE_S)
        _require_effects(scene, order_count)
    return cost.peak_mib


def wal_sync_ms(stage):
    """How long a sync of PostgreSQL's log took on average, which is how fast this machine's disk is."""
    with stage.pg.connect() as connection:
        syncs, total_ms = connection.execute(WAL_SYNC).fetchone()
    return total_ms / max(1, syncs)


def _require_effects(scene, order_count):
    points = sum(orders.points(order_id) for order_id in range(1, order_count + 1))
    found, owed = scene.database.rows(EFFECTS)[0], (order_count, order_count, points)
    assert found == owed, f"claims, ledger rows and points are {found}, not {owed}"


def _own_seconds(output):
    return float(output.split("seconds=")[1].split()[0])
