"""Whatever happens on the way to PostgreSQL: it recovers by itself, nothing is lost, applied twice, or parked."""
import itertools
import os

import pytest

from lib.monitor import Monitor
from lib.proxy import CUT, HOLD, HOLE, Proxy
from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, run, script

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'effectd/%' AND datname = current_database()"
# Each message of a transaction, and some of those that make a session.
CONNECTING = ["> startup", "< S", "< Z"]
WORKING = ["> BEGIN", "< BEGIN", "> INSERT", "< D", "< INSERT", "> INSERT sync",
           "> COMMIT", "> COMMIT sync", "< COMMIT"]


class Way:
    """An effectd whose way to PostgreSQL leads through a proxy, with what it shows of itself."""

    def __init__(self, stage, proxy):
        self.stage, self.proxy, self.monitor = stage, proxy, Monitor()

    def daemon(self, database=None, process=None, **settings):
        self.stage.declare()
        return self.stage.daemon(process={"http_listen": self.monitor.listen, **(process or {})},
                                 database={"conninfo": self.proxy.conninfo(self.stage.db), **(database or {})},
                                 **settings)


@pytest.fixture
def way(stage, pg):
    with Proxy("postgresql", pg.port) as proxy:
        yield Way(stage, proxy)


def test_a_session_may_break_at_any_message(way, stage):
    numbers = itertools.count()
    with way.daemon() as daemon:
        stage.ready(daemon)
        fds = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        for place in CONNECTING + WORKING:
            rule = way.proxy.arm(place, CUT)
            if place in CONNECTING:
                way.proxy.cut()
            stage.send(*[script(f"k{next(numbers)}") for _ in range(20)])
            rule.wait()
            stage.vhost.wait_empty(QUEUE)
        way.monitor.wait_reasons()
        wait_until(lambda: way.proxy.connections() == 2, 15, "a session for the worker and one for retries")
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < fds + 5, "one for each break would be a leak"
    count = next(numbers)
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": count} and counts["deliveries"] == count, "none was given back"
    stage.assert_once(f"k{n}" for n in range(count))
    assert not stage.parked()


@pytest.mark.parametrize("ways", [">", "<"])
def test_a_stall_is_waited_for_and_heartbeats_go_on(way, stage, rabbit, ways):
    """Three seconds without a byte to or from PostgreSQL, then all goes on where it was."""
    with Proxy("amqp", rabbit.port) as broker, \
            way.daemon(broker={"heartbeat": "1s", "url": broker.url(stage.vhost)}) as daemon:
        stage.ready(daemon)
        way.proxy.stall(ways)
        stage.send(*[script(f"k{n}") for n in range(20)])
        stage.wait_delivered(20)
        heard = broker.passed["> heartbeat"]
        wait_until(lambda: broker.passed["> heartbeat"] >= heard + 6, 20, "six heartbeats, two a second")
        assert way.monitor.metrics().sum("effectd_inflight") > 0 and not stage.effects()
        way.proxy.resume()
        stage.vhost.wait_empty(QUEUE)
        assert "broker_lost" not in daemon.log() and "database_lost" not in daemon.log()
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 20} and counts["rollbacks"] == 0


def test_the_claims_of_a_session_that_only_effectd_lost_are_free_at_once(way, stage):
    """The server does not know that its client is gone, and would let the transaction idle for more than a minute."""
    with way.daemon() as daemon:
        stage.ready(daemon)
        rule = way.proxy.arm("> UPDATE", HOLD)
        stage.send(script("k", ["any", "nothing"], ["effect"]))
        rule.wait()
        way.proxy.lose_clients()
        stage.vhost.wait_empty(QUEUE, timeout=8)
        assert "claim_blocked" not in daemon.log()
    assert outcomes(counted(daemon)) == {"applied": 1}
    stage.assert_once({"k"})


@pytest.mark.slow
def test_a_server_that_falls_silent_is_given_up(way, stage):
    """No reset, no close: the answer just never comes. Silent for longer than a statement may take, it is lost; what it
    had claimed is free again when the server ends the transaction that idles there."""
    settings = {"database": {"statement_timeout": "1s", "lock_timeout": "500ms"}, "process": {"watchdog": "1s"}}
    with way.daemon(**settings) as daemon:
        stage.ready(daemon)
        rule = way.proxy.arm("< INSERT", HOLE)
        stage.send(*[script(f"k{n}") for n in range(20)])
        rule.wait()
        daemon.wait_log("event=batch_rolled_back.*no answer", timeout=40)
        stage.vhost.wait_empty(QUEUE)
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 20} and counts["deliveries"] == 20
    stage.assert_once(f"k{n}" for n in range(20))


def test_a_slow_way_is_slow_and_nothing_else(way, stage):
    way.proxy.delay_s = 0.1
    with way.daemon() as daemon:
        stage.ready(daemon)
        stage.send(*[script(f"k{n}") for n in range(300)])
        stage.vhost.wait_empty(QUEUE)
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 300} and counts["rollbacks"] == 0


def test_each_session_that_is_terminated_comes_back(way, stage):
    """The worker's and the one for retries, idle or busy."""
    with way.daemon(retry_min="300ms", retry_max="300ms", max_attempts=100) as daemon:
        stage.ready(daemon)
        stage.send(script("later", ["one_retry", "thing"], ["effect"]))
        wait_until(stage.parked, 15, "a parked row")
        for n in range(5):
            before = {pid for pid, in stage.db.rows(SESSIONS)}
            stage.send(script(f"k{n}", run("SELECT pg_sleep(0.2)"), ["effect"]))
            for pid in before:
                stage.db.value("SELECT pg_terminate_backend(%s)", (pid,))
            wait_until(lambda: len({pid for pid, in stage.db.rows(SESSIONS)} - before) == 2, 15, "two new sessions")
            way.monitor.wait_reasons()
        stage.db.execute("INSERT INTO things VALUES ('thing')")
        stage.vhost.wait_empty(QUEUE)
        wait_until(lambda: not stage.parked(), 15, "the parked row to be applied")
    stage.assert_once({"later", *[f"k{n}" for n in range(5)]})
