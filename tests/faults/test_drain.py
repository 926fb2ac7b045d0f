"""SIGTERM in every state: the process ends with 0 within drain_timeout, and nothing is lost. A second one: at once."""
import contextlib
import os
import signal

import pytest

from lib.ports import free_ports
from lib.wait import wait_until
from stage import QUEUE, script

DRAIN_S = 2
SLACK_S = 4  # for a busy machine; what waits for a server that hangs waits ten seconds and more
LOAD = [script(f"k{number:03}", sleep_ms=5) for number in range(400)]
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'effectd/%'"


class Scene:
    """What a state is made of: an effectd with two workers, the stage, and both servers."""

    def __init__(self, stage, pg, rabbit):
        self.stage, self.pg, self.rabbit = stage, pg, rabbit
        self.names = set()
        self.drain_s = DRAIN_S
        stage.declare()

    def start(self, **settings):
        settings = {"workers": 2, "batch_max": 10, "prefetch": 30, **settings}
        return self.stage.daemon(process={"drain_timeout": f"{self.drain_s}s"}, **settings).start()

    def ready(self, **settings):
        return self.stage.ready(self.start(**settings), 2)

    def send(self, *messages):
        self.names |= {message["key"] for message in messages}
        self.stage.send(*messages)

    def at_work(self):
        """It is in the middle of many messages."""
        daemon = self.ready()
        self.send(*LOAD)
        wait_until(lambda: len(self.stage.effects()) > 20, 15, "some effects", explain=daemon.log_tail)
        return daemon

    def sessions(self):
        return [pid for pid, in self.stage.db.rows(SESSIONS)]

    @contextlib.contextmanager
    def without_database(self):
        """The database takes no sessions, and those that there were are ended."""
        with self.pg.connect() as connection:
            connection.execute(f'ALTER DATABASE "{self.stage.db.name}" ALLOW_CONNECTIONS false')
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                               (self.stage.db.name,))
            yield
            connection.execute(f'ALTER DATABASE "{self.stage.db.name}" ALLOW_CONNECTIONS true')


@contextlib.contextmanager
def standing_still(*processes):
    """These, pids or servers, do nothing for a while."""
    def tell(number):
        for one in processes:
            one.signal(number) if hasattr(one, "signal") else os.kill(one, number)
    tell(signal.SIGSTOP)
    try:
        yield
    finally:
        tell(signal.SIGCONT)


# Each state yields an effectd that is in it; what comes behind the yield puts the servers right again.

def idle(scene):
    yield scene.ready()


def in_the_middle_of_a_batch(scene):
    yield scene.at_work()
    held = scene.stage.vhost.depth(QUEUE)
    assert (held.ready, held.unacked) == (len(LOAD) - len(scene.stage.effects()), 0), "an ack did not arrive"


def in_probation(scene):
    scene.send(script("slow", sleep_ms=500), *LOAD)
    daemon = scene.start()
    wait_until(lambda: scene.stage.vhost.depth(QUEUE).unacked, 15, "a delivery", explain=daemon.log_tail)
    yield daemon


def inside_the_plugin(scene):
    daemon = scene.ready()
    scene.stage.send(script("endless", sleep_ms=600000))
    scene.stage.wait_delivered(1)
    yield daemon
    assert b"endless" in scene.stage.vhost.get(QUEUE)[2], "it did not go back to its queue"


def waiting_for_a_claim(scene):
    with scene.stage.gate("k"):
        daemon = scene.ready()
        scene.send(script("k"), script("j"))
        scene.stage.wait_blocked()
        yield daemon


def waiting_for_a_standby_to_commit(scene):
    daemon = scene.ready()
    with scene.pg.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            scene.send(script("k"))
            wait_until(lambda: scene.stage.db.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
                       15, "a COMMIT that waits for the standby")
            yield daemon
        finally:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")


def postgresql_hangs(scene):
    daemon = scene.at_work()
    with standing_still(*scene.sessions()):
        yield daemon


def postgresql_does_not_answer_at_the_start(scene):
    with standing_still(scene.pg):
        daemon = scene.start()
        daemon.wait_log("event=starting")
        yield daemon


def postgresql_is_away(scene):
    daemon = scene.at_work()
    with scene.without_database():
        daemon.wait_log("event=database_unavailable.*held=[1-9]")
        yield daemon


def the_broker_hangs(scene):
    daemon = scene.at_work()
    with standing_still(scene.rabbit):
        yield daemon


def the_broker_does_not_answer_at_the_start(scene):
    with standing_still(scene.rabbit):
        daemon = scene.start()
        wait_until(scene.sessions, 15, "a session with PostgreSQL, which comes first")
        yield daemon


def the_broker_is_away(scene):
    port, = free_ports(1)
    daemon = scene.start(broker={"url": f"amqp://127.0.0.1:{port}/%2f"})
    daemon.wait_log("event=broker_unavailable")
    yield daemon


STATES = [idle, in_the_middle_of_a_batch, in_probation, inside_the_plugin, waiting_for_a_claim,
          waiting_for_a_standby_to_commit, postgresql_hangs, postgresql_does_not_answer_at_the_start,
          postgresql_is_away, the_broker_hangs, the_broker_does_not_answer_at_the_start, the_broker_is_away]
SLOW_TO_END = [inside_the_plugin, waiting_for_a_claim, postgresql_hangs, the_broker_hangs]
name = lambda state: state.__name__


@pytest.fixture
def scene(stage, pg, rabbit):
    return Scene(stage, pg, rabbit)


@pytest.mark.parametrize("state", STATES, ids=name)
def test_sigterm_ends_it_in_time_when(scene, state):
    with contextlib.contextmanager(state)(scene) as daemon:
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit(DRAIN_S + SLACK_S) == 0, daemon.log_tail()
    assert_nothing_lost(scene)


@pytest.mark.parametrize("state", SLOW_TO_END, ids=name)
def test_a_second_sigterm_ends_it_at_once_when(scene, state):
    scene.drain_s = 500
    with contextlib.contextmanager(state)(scene) as daemon:
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("event=draining")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit(SLACK_S) == 0, daemon.log_tail()
    assert_nothing_lost(scene)


def assert_nothing_lost(scene):
    wait_until(lambda: scene.stage.vhost.depth(QUEUE).unacked == 0, 30, "the deliveries to go back")
    scene.send(script("after"))  # nothing before it is in its way
    scene.stage.drain()
    scene.stage.assert_once(scene.names)
    assert not scene.stage.parked()
