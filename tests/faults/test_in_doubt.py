"""A COMMIT whose answer is lost: found out, counted by what was found, applied once, never acknowledged blind."""
import pytest

from lib.monitor import Monitor
from lib.proxy import CUT, HOLD, LOSE_CLIENT, Proxy
from lib.wait import wait_until
from stage import CONSUMER, QUEUE, counted, outcomes, run, script

NAMES = [f"k{n:02}" for n in range(20)]
CUTS = pytest.mark.parametrize("name, resolution", [("> COMMIT", "not_committed"), ("< COMMIT", "committed")],
                               ids=["before_the_server", "behind_the_server"])
RESOLUTIONS = ("committed", "not_committed")
WAITS_FOR_STANDBY = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' " \
                    f"AND application_name = 'effectd/{CONSUMER}/1'"  # others of the process may wait as well
# Only the first COMMIT of an effect takes long.
SLOW_COMMIT = """
CREATE SEQUENCE tries;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('tries') = 1 THEN PERFORM pg_sleep(600); END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION slow();
"""


class Doubt:
    """An effectd behind a proxy to PostgreSQL and one to RabbitMQ, idle, with what it shows of itself."""

    def __init__(self, stage, pg_proxy, mq_proxy):
        self.stage, self.proxy, self.mq_proxy, self.monitor = stage, pg_proxy, mq_proxy, Monitor()
        self.log = None

    def daemon(self, process=None, database=None, **settings):
        self.stage.declare()
        self.log = self.stage.daemon(process={"http_listen": self.monitor.listen, **(process or {})},
                                     database={"conninfo": self.proxy.conninfo(self.stage.db), **(database or {})},
                                     broker={"url": self.mq_proxy.url(self.stage.vhost)}, **settings)
        return self.log

    def resolutions(self):
        found = self.monitor.metrics()
        numbers = {name: found.value("effectd_commit_in_doubt_total", consumer=CONSUMER, resolution=name)
                   for name in RESOLUTIONS}
        return {name: number for name, number in numbers.items() if number}

    def wait_settled(self):
        """Wait until all is settled, and return the resolutions."""
        self.stage.vhost.wait_empty(QUEUE)
        return self.resolutions()

    def assert_held(self, count):
        """No acknowledgement was sent: the broker waits for all of them."""
        assert self.stage.vhost.depth(QUEUE) == (0, count)
        assert self.mq_proxy.passed["> basic.ack"] == 0


@pytest.fixture
def doubt(stage, pg, rabbit):
    with Proxy("postgresql", pg.port) as pg_proxy, Proxy("amqp", rabbit.port) as mq_proxy:
        yield Doubt(stage, pg_proxy, mq_proxy)


@CUTS
def test_a_lost_commit_is_found_out_and_applied_once(doubt, stage, name, resolution):
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm(name, CUT)
        stage.send(*[script(key) for key in NAMES])
        rule.wait()
        assert doubt.wait_settled() == {resolution: 1}
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": len(NAMES)} and counts["deliveries"] == len(NAMES)
    stage.assert_once(NAMES)


@CUTS
def test_what_is_in_doubt_is_held_until_postgresql_can_be_asked(doubt, stage, name, resolution):
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm(name, HOLD)
        stage.send(*[script(key) for key in NAMES])
        rule.wait()
        doubt.proxy.refuse()
        doubt.proxy.cut()
        stage.wait_delivered(len(NAMES))
        daemon.wait_log(r"(?s)(event=database_unavailable.*){4}")
        doubt.assert_held(len(NAMES))
        assert not doubt.resolutions(), "nobody was asked yet"
        doubt.proxy.accept()
        assert doubt.wait_settled() == {resolution: 1}
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": len(NAMES)} and counts["deliveries"] == len(NAMES)
    stage.assert_once(NAMES)


@CUTS
@pytest.mark.parametrize("verdict", ["verdict", "key_verdict"])
def test_a_park_in_doubt_is_one_row(doubt, stage, name, resolution, verdict):
    """Refused by apply() it had won a claim that was taken back, by key() it had none."""
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm(name, CUT)
        stage.send(script("k", **{verdict: "reject"}))
        rule.wait()
        assert doubt.wait_settled() == {resolution: 1}
    assert outcomes(counted(daemon)) == {"parked": 1}
    assert [parked.deliveries for parked in stage.parked()] == [1 + (resolution == "committed")]
    assert not stage.effects() and not stage.claims()


@CUTS
def test_what_a_version_guard_applied_in_doubt_is_counted_as_applied(doubt, stage, name, resolution):
    """It claims nothing; run again, the guard says stale."""
    with doubt.daemon(plugin__claim="none") as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm(name, CUT)
        stage.send(script("k", ["newer", "thing", 1], ["effect"]))
        rule.wait()
        doubt.wait_settled()
    assert outcomes(counted(daemon)) == {"applied": 1}
    assert stage.effects() == {"k": 1}


@CUTS
def test_a_duplicate_in_doubt_stays_one(doubt, stage, name, resolution):
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        stage.send(script("k"))
        stage.vhost.wait_empty(QUEUE)
        rule = doubt.proxy.arm(name, CUT)
        stage.send(script("k"))
        rule.wait()
        doubt.wait_settled()
    assert outcomes(counted(daemon)) == {"applied": 1, "duplicate": 1}
    stage.assert_once({"k"})


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_a_commit_that_still_runs_is_ended_and_asked_for_again(doubt, stage, pooled):
    """The server does not know that its client is gone, and works on: nobody can say yet what it will come to."""
    stage.db.execute(SLOW_COMMIT)
    doubt.proxy.pooled = pooled
    with doubt.daemon(database={"statement_timeout": "10min"}) as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm("> COMMIT sync", LOSE_CLIENT)
        stage.send(script("k"))
        rule.wait()
        assert doubt.wait_settled() == {"not_committed": 1}
        assert "still in progress" in daemon.log()
    assert outcomes(counted(daemon)) == {"applied": 1}
    stage.assert_once({"k"})
    assert stage.db.value("SELECT last_value FROM tries") == 2


def test_a_commit_that_waits_for_a_standby_is_acknowledged_only_when_the_standby_has_it(doubt, stage, pg):
    """Ended while it waits, it is committed here and nowhere else: a failover would lose what was acknowledged."""
    def standby(name):
        with pg.connect() as connection:
            connection.execute("SET synchronous_commit = local")
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
            connection.execute("SELECT pg_reload_conf()")

    with doubt.daemon() as daemon:
        stage.ready(daemon)
        try:
            standby("nobody")
            rule = doubt.proxy.arm("> COMMIT sync", LOSE_CLIENT)
            stage.send(script("k"))
            rule.wait()
            daemon.wait_log("still in progress")
            since = daemon.mark()
            wait_until(lambda: "k" in stage.effects(), 15, "the lost commit to be seen")
            wait_until(lambda: stage.db.value(WAITS_FOR_STANDBY) == 1, 15, "effectd to wait for the standby")
            doubt.assert_held(1)
            assert "commit_in_doubt_resolved" not in daemon.log()[since:]
        finally:
            standby("")
        assert doubt.wait_settled() == {"committed": 1}
    assert outcomes(counted(daemon)) == {"applied": 1}
    stage.assert_once({"k"})


@CUTS
def test_what_is_lost_with_both_connections_is_counted_once_as_applied(doubt, stage, name, resolution):
    """The delivery comes again as well: a duplicate, if the lost commit was one."""
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm(name, HOLD)
        stage.send(script("k"))
        rule.wait()
        doubt.proxy.refuse()
        doubt.proxy.cut()
        doubt.mq_proxy.cut()
        wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 15, "the delivery to go back")
        doubt.proxy.accept()
        assert doubt.wait_settled() == {resolution: 1}
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 1, **({"duplicate": 1} if resolution == "committed" else {})}
    assert counts["redelivered"] == 1
    stage.assert_once({"k"})


def test_a_stop_in_doubt_acknowledges_nothing(doubt, stage):
    """The answer does not come, and effectd is told to end: the next process finds the claim."""
    with doubt.daemon(process={"drain_timeout": "2s"}) as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm("< COMMIT", HOLD)
        stage.send(script("k"))
        rule.wait()
        daemon.stop()
        assert doubt.mq_proxy.passed["> basic.ack"] == 0
    wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 15, "the delivery to go back")
    assert outcomes(stage.drain()) == {"duplicate": 1}
    stage.assert_once({"k"})


def test_a_count_whose_answer_is_lost_is_no_crash(doubt, stage):
    """After a start each message is counted before the plugin sees it. That the count is there nobody heard, again and
    again; the process never died of it."""
    stage.declare().send(script("k"))
    rule = doubt.proxy.arm("> WITH sync", LOSE_CLIENT, times=5)
    with doubt.daemon() as daemon:
        rule.wait(5, timeout=60)
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon)) == {"applied": 1}
    stage.assert_once({"k"})
    assert stage.db.value("SELECT count(*) FROM effectd.attempts") == 0


def test_a_session_that_is_lost_while_a_faulty_message_is_rolled_back_costs_nothing(doubt, stage):
    """The others are to run again without it, and there is nothing to run them on."""
    with doubt.daemon() as daemon:
        stage.ready(daemon)
        rule = doubt.proxy.arm("> ROLLBACK", CUT)
        stage.send(*[script(key) for key in NAMES], script("bad", run("SELECT raise('22000')")))
        rule.wait()
        doubt.wait_settled()
    assert outcomes(counted(daemon)) == {"applied": len(NAMES), "parked": 1}
    stage.assert_once(NAMES)
