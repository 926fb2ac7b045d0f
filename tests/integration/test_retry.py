"""Retries: parked rows that are due are applied once, in time, by one process; order = queue retries in place."""
import json
import signal

import pytest

from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, script

# Each row as each transaction left it, with that transaction's time.
HISTORY = """
CREATE TABLE history (id bigserial, at timestamptz, key text, status text, reason text, attempts int, delay_ms int);
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.attempts <> OLD.attempts THEN
        INSERT INTO history (at, key, status, reason, attempts, delay_ms) VALUES (now(), NEW.message_key, NEW.status,
            NEW.reason, NEW.attempts, extract(epoch FROM NEW.next_attempt_at - now()) * 1000);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER remember AFTER INSERT OR UPDATE ON effectd.parked_messages FOR EACH ROW EXECUTE FUNCTION remember();
"""
ROW = """
INSERT INTO effectd.parked_messages (consumer, message_key, fingerprint, body, status, reason, next_attempt_at,
    first_seen_at)
VALUES ('work', %(key)s, sha256(%(key)s::text::bytea), %(body)s, 'retry', 'rejected', now(), now() - %(age)s::interval)
"""
SINGLE = {"x-single-active-consumer": True}
ONE_IN_THREE = ["run_retry", "INSERT INTO children SELECT 99 WHERE nextval('tries') % 3 > 0"]


@pytest.fixture
def park(stage):
    """Writes a row that is due, as a person might: the script alone, without properties."""
    def write(message, age="0 days"):
        stage.db.execute(ROW, {"key": message["key"], "body": json.dumps(message).encode(), "age": age})
    return write


def wait_gone(stage, timeout=20):
    wait_until(lambda: not stage.parked(), timeout, "the parked rows to go", explain=stage.parked)


def wait_leased(stage):
    wait_until(lambda: stage.db.value("SELECT count(*) FROM effectd.parked_messages WHERE leased_until > now()"), 20,
               "a row to be leased")


def make_due(stage):
    stage.db.execute("UPDATE effectd.parked_messages SET next_attempt_at = now(), leased_until = NULL")


def test_what_is_missing_is_waited_for_with_backoff_and_applied_once_it_is_there(stage):
    stage.db.execute(HISTORY)
    names = [f"k{n}" for n in range(6)]
    stage.declare()
    with stage.daemon(retry_min="200ms", retry_max="500ms", max_attempts=50) as daemon:
        stage.ready(daemon)
        stage.send(*[script(name, ["effect"], ["one_retry", "later"]) for name in names])
        wait_until(lambda: stage.db.value("SELECT count(*) FROM history WHERE attempts >= 3") >= 6, 40,
                   "three attempts of each", explain=daemon.log_tail)
        assert stage.effects() == {} and stage.claims() == set()
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        wait_gone(stage)
    stage.assert_once(names)
    assert stage.touched("later") == 6
    counts = counted(daemon)
    assert counts["applied"] == 6 and counts["retried"] >= 18 and counts["parked"] == 0

    # The first delay lies between half of retry_min and all of it, the next ones double, up to retry_max.
    for attempts, most in ((1, 200), (2, 400), (3, 500), (4, 500)):
        delays = [delay for delay, in stage.db.rows("SELECT delay_ms FROM history WHERE attempts = %s", (attempts,))]
        assert all(most / 2 <= delay <= most for delay in delays), (attempts, delays)
    first = stage.db.rows("SELECT delay_ms FROM history WHERE attempts IN (1, 3)")
    assert len(set(first)) > 2, "no jitter"
    assert stage.db.value("SELECT bool_and(status = 'retry' AND reason = 'row_count') FROM history")
    # And no attempt came before its time.
    assert stage.db.value("""
        SELECT count(*) FROM history a JOIN history b ON b.key = a.key AND b.attempts = a.attempts + 1
        WHERE b.at < a.at + a.delay_ms * interval '1 millisecond'""") == 0


def test_after_max_attempts_it_is_dead_until_a_person_retries_it(stage):
    stage.db.execute(HISTORY)
    stage.declare()
    with stage.daemon(retry_min="50ms", retry_max="50ms", max_attempts=3) as daemon:
        stage.ready(daemon)
        stage.send(script("k", ["effect"], ["one_retry", "later"]))
        wait_until(lambda: [row.status for row in stage.parked()] == ["dead"], 20, "the row to be dead")
        (row,) = stage.parked()
        assert (row.key, row.reason) == ("k", "retries_exhausted")
        assert "one_retry touched 0 rows" in row.detail
        assert stage.db.rows("SELECT attempts, status FROM history ORDER BY id") == [
            (1, "retry"), (2, "retry"), (3, "dead")]
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        assert daemon.command("parked", "retry", "--key", "k").rc == 0
        wait_gone(stage)
    stage.assert_once({"k"})
    assert outcomes(counted(daemon)) == {"applied": 1, "retried": 2, "parked": 1}


def test_two_processes_share_the_due_rows_and_each_row_is_applied_by_one(stage, park):
    names = [f"k{n:03}" for n in range(60)]
    stage.declare()
    with stage.daemon("first") as first, stage.daemon("second") as second:
        stage.ready(first)
        stage.ready(second)
        for name in names:
            park(script(name, ["effect"], ["one_retry", "later"], sleep_ms=20))
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        make_due(stage)
        wait_gone(stage, timeout=40)
    stage.assert_once(names)
    assert stage.touched("later") == 60
    shares = [counted(one)["applied"] for one in (first, second)]
    assert sum(shares) == 60 and min(shares) > 5, shares


@pytest.mark.parametrize("taken", ["DELETE FROM effectd.parked_messages",
                                   "UPDATE effectd.parked_messages SET leased_until = now() + interval '1 hour'"],
                         ids=["dropped", "leased by another"])
def test_a_row_that_was_taken_away_meanwhile_leaves_no_effect(stage, park, taken):
    """A process that was stopped longer than its lease wakes up: its mark touches no row, so nothing of it commits."""
    stage.declare()
    with stage.gate() as open_gate, stage.daemon() as daemon:
        stage.ready(daemon)
        park(script("gate"))
        stage.wait_blocked()
        daemon.signal(signal.SIGSTOP)
        stage.db.execute(taken)
        open_gate()
        daemon.signal(signal.SIGCONT)
        stage.send(script("next"))
        stage.vhost.wait_empty(QUEUE)
        daemon.restart()
        stage.ready(daemon, since=daemon.mark())
    stage.assert_once({"next"})
    assert len(stage.parked()) == (0 if "DELETE" in taken else 1)


def test_a_lease_keeps_others_away_and_ends_with_its_time(stage, park):
    stage.declare()
    with stage.gate() as open_gate:
        died = stage.daemon("died").start()
        stage.ready(died)
        park(script("gate"))
        stage.wait_blocked()
        died.kill()
        open_gate()
    (before,) = stage.db.rows("SELECT leased_until, leased_until > now(), crashes FROM effectd.parked_messages")
    assert before[1:] == (True, 1)
    with stage.daemon("other") as other:
        stage.ready(other)
        stage.send(script("k"))
        stage.vhost.wait_empty(QUEUE)
        # It looked for due rows more than once since it started: at least twice as long as it waits between.
        since = stage.db.value("SELECT clock_timestamp()")
        wait_until(lambda: stage.db.value("SELECT clock_timestamp() > %s::timestamptz + interval '2.5 seconds'",
                                          (since,)), 10, "some time to pass", interval=0.3)
        assert stage.db.rows("SELECT leased_until, leased_until > now(), crashes FROM effectd.parked_messages") == [
            before]
        stage.db.execute("UPDATE effectd.parked_messages SET leased_until = now()")
        wait_gone(stage)
    stage.assert_once({"gate", "k"})


@pytest.mark.parametrize("point", ["after_claim", "before_commit", "after_commit", "before_ack"])
def test_claim_effect_and_the_rows_end_are_one(stage, park, point, fault_points):
    stage.declare()
    daemon = stage.daemon("dies", fault=f"{point}=exit@1").start()
    park(script("k"))
    daemon.wait_exit()
    committed = point in ("after_commit", "before_ack")
    assert len(stage.parked()) == (0 if committed else 1)
    stage.assert_once({"k"} if committed else set())
    stage.db.execute("UPDATE effectd.parked_messages SET leased_until = NULL")
    with stage.daemon("again") as again:
        stage.ready(again)
        wait_gone(stage)
    stage.assert_once({"k"})


def test_a_row_older_than_the_window_is_not_applied_until_a_person_says_so(stage, park):
    stage.declare()
    with stage.daemon(retention="30d") as daemon:
        stage.ready(daemon)
        stage.db.execute("INSERT INTO effectd.consumers (consumer, claims, \"window\") VALUES ('work', 'table', "
                         "'30 days') ON CONFLICT DO NOTHING")
        park(script("old"), age="31 days")
        park(script("young"), age="29 days")
        wait_until(lambda: [row.status for row in stage.parked()] == ["dead"], 20, "the young one to be applied",
                   explain=stage.parked)
        (row,) = stage.parked()
        assert (row.key, row.reason) == ("old", "expired")
        stage.assert_once({"young"})
        assert daemon.command("parked", "retry", "--key", "old").rc == 1
        assert daemon.command("parked", "retry", "--key", "old", "--beyond-window").rc == 0
        wait_gone(stage)
    stage.assert_once({"old", "young"})


def test_a_retry_of_a_key_that_is_claimed_is_a_duplicate_and_the_row_goes(stage, park):
    stage.declare()
    assert outcomes(stage.deliver(script("k"))) == {"applied": 1}
    park(script("k"))
    with stage.daemon("retries") as daemon:
        wait_gone(stage)
    stage.assert_once({"k"})
    assert outcomes(counted(daemon)) == {"duplicate": 1}


def test_what_a_plugin_ignores_at_its_retry_leaves_no_row(stage, park):
    stage.declare()
    park(script("a", verdict="ignore"))
    park(script("b", key_verdict="ignore"))
    with stage.daemon() as daemon:
        wait_gone(stage)
    stage.assert_once(set())
    assert outcomes(counted(daemon)) == {"ignored": 2}


# ---- order = queue ----

def ordered(stage, name="effectd", **settings):
    stage.declare(arguments=SINGLE)
    return stage.daemon(name, **{"order": "queue", "retry_min": "20ms", "retry_max": "100ms", "max_attempts": 100,
                                 **settings})


def test_a_message_that_is_retried_in_place_holds_up_those_behind_it(stage):
    with ordered(stage) as daemon:
        stage.ready(daemon)
        stage.send(script("a"), script("b", ["effect"], ["one_retry", "later"]), script("c"), script("d"))
        daemon.wait_log(r"event=retry_in_place .*\bkey=b failures=3\b")
        assert stage.order() == ["a"] and stage.parked() == []
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        stage.vhost.wait_empty(QUEUE)
    assert stage.order() == ["a", "b", "c", "d"]
    stage.assert_once("abcd")
    assert outcomes(counted(daemon)) == {"applied": 4}


def test_arrival_order_is_kept_whatever_is_retried_and_killed(stage):
    """Every message fails two times of three; the process is killed in between, and a second one takes over."""
    stage.db.execute("CREATE SEQUENCE tries")
    names = [f"k{n:02}" for n in range(60)]
    first = ordered(stage, "first", batch_max=10).start()
    stage.ready(first)
    with stage.gate("k30") as open_gate:
        stage.send(*[script(name, ["effect"], ONE_IN_THREE) for name in names])
        stage.wait_blocked(timeout=40)
        with ordered(stage, "second", batch_max=10) as second:
            second.wait_log(r"event=consuming\b")
            first.kill()
            open_gate()
            stage.vhost.wait_empty(QUEUE, timeout=60)
    assert counted(second)["applied"] >= 30 and "event=retry_in_place" in first.log()
    assert stage.order() == names
    stage.assert_once(names)
    assert stage.parked() == []


def test_a_drain_hands_the_queue_over_in_order(stage):
    """What the draining process was sent and did not begin comes back before what was never sent."""
    names = [f"k{n:03}" for n in range(300)]
    settings = {"batch_max": 5, "prefetch": 200}
    first = ordered(stage, "first", **settings).start()
    stage.ready(first)
    with ordered(stage, "second", **settings) as second:
        second.wait_log(r"event=consuming\b")
        stage.send(*[script(name, sleep_ms=4) for name in names])
        wait_until(lambda: len(stage.order()) >= 20, 30, "some effects")
        first.stop()
        stage.vhost.wait_empty(QUEUE)
    assert stage.order() == names
    stage.assert_once(names)
    assert counted(first)["applied"] > 0 and counted(second)["applied"] > 0


def test_a_message_without_attempts_left_is_parked_and_lets_the_next_go_on(stage):
    with ordered(stage, max_attempts=3) as daemon:
        stage.ready(daemon)
        stage.send(script("a"), script("b", verdict="retry", say="never"), script("c"))
        stage.vhost.wait_empty(QUEUE)
    assert stage.order() == ["a", "c"]
    assert [(row.key, row.status, row.reason, row.detail) for row in stage.parked()] == [
        ("b", "dead", "retries_exhausted", "never")]
    assert outcomes(counted(daemon)) == {"applied": 2, "parked": 1}


@pytest.mark.parametrize("way", ["retry", "drop"])
def test_stop_on_dead_stops_before_the_next_until_a_person_decides(stage, way):
    with ordered(stage, stop_on_dead=True) as daemon:
        stage.ready(daemon)
        stage.send(script("a"), script("b", ["effect"], ["one", "later"]), script("c"), script("d"))
        daemon.wait_log(r"event=stopped_on_dead\b")
        assert stage.order() == ["a"] and [row.key for row in stage.parked()] == ["b"]
        daemon.restart()
        daemon.wait_log(r"event=stopped_on_dead\b", since=daemon.mark())
        assert stage.order() == ["a"]
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        assert daemon.command("parked", way, "--key", "b", *(["--yes"] if way == "drop" else [])).rc == 0
        stage.vhost.wait_empty(QUEUE)
    assert stage.order() == (["a", "b", "c", "d"] if way == "retry" else ["a", "c", "d"])
    assert stage.parked() == []
