"""Servers that go and come back under load: work goes on by itself soon after, nothing lost, nothing twice, and nothing
parked for it."""
import re
from collections import Counter

import pytest

from lib.wait import wait_until
from works import PLUGINS, queue, start

pytestmark = pytest.mark.slow

SOON_MS = 5000
RETRY = re.compile(r"\bevent=(\w+_unavailable)\b.*\bretry_ms=(\d+)")
OUTAGE_STEPS = 8


def assert_looks_soon(*daemons):
    """Whoever waits looks again within five seconds: how soon work goes on, whatever this machine has to do else."""
    for daemon in daemons:
        waits = [(event, int(ms)) for event, ms in RETRY.findall(daemon.log())]
        assert not (long := [wait for wait in waits if wait[1] > SOON_MS]), long


def finish(works, *daemons):
    works.wait_empty()
    for daemon in daemons:
        daemon.stop()
    works.check_all_applied()
    assert_looks_soon(*daemons)


def break_under_load(works, *breaks):
    """Let two processes work, break something, one after another, and let them go on each time."""
    daemons = works.process("a"), works.process("b")
    for daemon in daemons:
        start(daemon)
    with works.traffic():
        works.wait_progress()
        for one in breaks:
            one()
            works.wait_progress(explain=daemons[0].log_tail)
    finish(works, *daemons)
    return daemons


@pytest.mark.slow
def test_postgresql_is_restarted(works, pg):
    daemons = break_under_load(works, lambda: pg.restart("fast"), lambda: pg.restart("immediate"))
    assert all(len(re.findall("event=database_is_back", daemon.log())) > 2 for daemon in daemons)


@pytest.mark.slow
def test_the_broker_is_restarted(works, rabbit):
    def kill():
        rabbit.kill()
        rabbit.start()

    daemons = break_under_load(works, rabbit.restart, kill)
    assert all(len(re.findall("event=broker_lost", daemon.log())) > 2 for daemon in daemons)


def test_a_queue_is_deleted_and_declared_again(works):
    """Its consumer comes back when the queue does; the others notice nothing."""
    with works.process("a") as daemon:
        works.publisher.orders(range(1, 101), 10)
        works.wait_empty()
        with works.vhost.connect() as connection:
            connection.channel().queue_delete(queue("loyalty"))
        daemon.wait_log(r"event=broker_unavailable\b.*\bconsumer=loyalty\b")
        works.vhost.declare(queue("loyalty"))
        works.vhost.bind("orders", "order.completed", queue("loyalty"))
        works.publisher.orders(range(101, 201), 10)
        works.wait_empty()
        assert not re.search(r"event=broker_(lost|unavailable)\b.*\bconsumer=(analytics|receipts)\b", daemon.log())
    works.check_all_applied()
    assert_looks_soon(daemon)


@pytest.mark.slow
@pytest.mark.parametrize("hold_max", ["10min", "1s"])
def test_an_outage_of_many_steps_costs_no_message_its_delivery_limit(make_works, pg, hold_max):
    """Held, or given back once: three returns are allowed, and the fourth would drop the message."""
    works = make_works(arguments={"x-delivery-limit": 3}, queue_types=dict.fromkeys(PLUGINS, "quorum"), hold_max=hold_max)
    daemon = works.process("a")
    start(daemon).wait_full()
    with works.traffic():
        works.wait_progress()
        pg.stop("immediate")
        wait_until(lambda: min(vain_attempts(daemon).values(), default=0) >= OUTAGE_STEPS, 120,
                   f"{OUTAGE_STEPS} vain attempts of each worker", interval=0.2, explain=daemon.log_tail)
        assert ("event=held_too_long" in daemon.log()) == (hold_max == "1s")
        pg.start()
        works.wait_progress(explain=daemon.log_tail)
    finish(works, daemon)


def vain_attempts(daemon):
    """How often each worker has asked for PostgreSQL in vain."""
    return Counter(re.findall(r"\bevent=database_unavailable\b.*?\b(consumer=\w+ worker=\d+)", daemon.log()))
