"""One effect for each (consumer, key), however often, wherever and at the same time its message is delivered."""
import signal

import pytest

from lib.proxy import Proxy
from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, run, script

ISOLATION = pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
CLOSE_ALL = 'lists:foreach(fun(Pid) -> rabbit_networking:close_connection(Pid, "test") end, ' \
            'rabbit_networking:connections()), ok.'


def test_a_second_delivery_is_a_duplicate(stage):
    assert outcomes(stage.deliver(script("k"))) == {"applied": 1}
    assert outcomes(stage.deliver(script("k"), script("k"))) == {"duplicate": 2}
    stage.assert_once({"k"})


@ISOLATION
def test_eight_concurrent_deliveries_over_two_processes_are_one_effect(stage, isolation):
    """Four workers hold two deliveries each when the first claim commits; the others were waiting for it."""
    settings = {"workers": 2, "batch_max": 1, "prefetch": 2, "database": {"isolation": isolation}}
    stage.declare()
    with stage.gate("k") as open_gate, stage.daemon("a", **settings) as a, stage.daemon("b", **settings) as b:
        stage.ready(a, 2)
        stage.ready(b, 2)
        stage.send(*[script("k")] * 8)
        stage.wait_delivered(8)
        stage.wait_blocked(4)
        open_gate()
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(a) + counted(b)) == {"applied": 1, "duplicate": 7}
    stage.assert_once({"k"})
    assert not stage.parked()


@ISOLATION
@pytest.mark.parametrize("committed", [False, True], ids=["rolled_back", "committed"])
def test_a_delivery_waits_for_a_claim_and_takes_over_when_it_is_rolled_back(stage, isolation, committed):
    stage.declare()
    with stage.gate("k") as open_gate, stage.daemon(database={"isolation": isolation}) as daemon:
        stage.send(script("k"))
        stage.wait_blocked()
        assert not stage.effects()
        open_gate(commit=committed)
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon)) == ({"duplicate": 1} if committed else {"applied": 1})
    assert stage.effects() == ({} if committed else {"k": 1})
    assert stage.claims() == {"k"} and not stage.parked()


def test_two_consumers_apply_the_same_key_each_once(stage):
    stage.declare("first", "second")
    for queue in ("first", "second"):
        stage.send(script("k"), script("k"), script("j"), queue=queue)
    with stage.daemon(consumers={"first": "first", "second": "second"}) as daemon:
        stage.vhost.wait_empty("first", "second")
    for consumer in ("first", "second"):
        assert outcomes(counted(daemon, consumer)) == {"applied": 2, "duplicate": 1}
        stage.assert_once({"k", "j"}, consumer)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_serialization_failures_are_tried_again_and_park_nothing(stage, isolation):
    """Two processes, the same keys at the same time, and effects that read and write the same rows."""
    stage.db.execute("INSERT INTO things SELECT 'hot' || n FROM generate_series(0, 2) n")
    names = [f"k{n:03}" for n in range(200)]
    settings = {"workers": 2, "batch_max": 10, "database": {"isolation": isolation}}
    messages = [script(name, ["add", f"hot{n % 3}", 1], ["effect"], lock_order=n % 3) for n, name in enumerate(names)]
    stage.declare().send(*messages, *messages)
    with stage.daemon("a", **settings) as a, stage.daemon("b", **settings) as b:
        stage.vhost.wait_empty(QUEUE, timeout=60)
    counts = counted(a) + counted(b)
    assert outcomes(counts) == {"applied": 200, "duplicate": 200}
    assert "contended" in a.log() + b.log(), "nothing collided: this proves nothing"
    stage.assert_once(names)
    assert stage.db.value("SELECT sum(touched) FROM things") == 200
    assert not stage.parked()


@pytest.mark.parametrize("point, outcome", [("before_claim", "applied"), ("after_claim", "applied"),
                                            ("before_commit", "applied"), ("after_commit", "duplicate"),
                                            ("before_ack", "duplicate")])
def test_kill_at(stage, fault_points, point, outcome):
    """SIGKILL while a worker stands at the point; the next process gets the delivery again."""
    stage.declare()
    with stage.daemon(fault=f"{point}=delay:60000") as daemon:
        stage.send(script("k"))
        daemon.wait_log(rf"event=fault_point\b.*\bpoint={point}\b")
        assert stage.effects() == ({"k": 1} if outcome == "duplicate" else {})
        daemon.kill()
        wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 15, "the delivery to go back")
    counts = stage.drain()
    assert outcomes(counts) == {outcome: 1} and counts["redelivered"] == 1
    stage.assert_once({"k"})


def test_a_connection_that_is_lost_between_commit_and_ack_makes_a_duplicate(stage, fault_points, rabbit):
    stage.declare()
    with stage.daemon(fault="after_commit=delay:1500@1") as daemon:
        stage.send(*[script(f"k{n}") for n in range(10)])
        daemon.wait_log("event=fault_point")
        rabbit.eval(CLOSE_ALL)
        stage.vhost.wait_empty(QUEUE)
    counts = counted(daemon)
    assert counts["applied"] == 10 and counts["duplicate"] == counts["redelivered"] >= 1
    stage.assert_once({f"k{n}" for n in range(10)})


@pytest.mark.parametrize("point, in_doubt", [("before_commit", 0), ("commit_sent", 1)])
def test_what_a_lost_session_left_of_a_commit_is_found_out_and_counted_once(stage, fault_points, point, in_doubt):
    """commit_sent: COMMIT is on its way and its answer never comes. before_commit: the session is lost before it."""
    names = [f"k{n}" for n in range(20)]
    stage.declare()
    with stage.daemon(fault=f"{point}=error@1") as daemon:
        stage.ready(daemon)
        stage.send(*[script(name) for name in names])
        stage.vhost.wait_empty(QUEUE)
        daemon.wait_log(f"event=fault_point.*{point}")
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 20} and counts["in_doubt"] == in_doubt and counts["redelivered"] == 0
    stage.assert_once(names)


@pytest.mark.parametrize("place", ["statement", "sleep"])
def test_heartbeats_go_on_while_postgresql_works(stage, place):
    """A statement that takes three heartbeats; the plugin's own time is its own affair, and costs a redelivery at most."""
    slow = script("k", run("SELECT pg_sleep(4)"), ["effect"]) if place == "statement" else script("k", sleep_ms=200)
    stage.declare()
    with stage.daemon(broker={"heartbeat": "1s"}) as daemon:
        stage.send(slow)
        stage.vhost.wait_empty(QUEUE)
        assert "broker_lost" not in daemon.log()
    assert outcomes(counted(daemon)) == {"applied": 1}


def test_the_claim_of_a_stopped_process_is_ended_by_the_server(stage, fault_points):
    """It was synced, so the stopped process counts as idle in transaction, and its twin takes over."""
    stage.declare()
    timeouts = {"process": {"watchdog": "1s"}}  # 6 s idle in transaction
    with stage.daemon("a", fault="after_claim=delay:1000@1", prefetch=2, batch_max=2, **timeouts) as a:
        stage.ready(a)
        stage.send(script("k"))
        a.wait_log("event=fault_point")
        a.signal(signal.SIGSTOP)
        with stage.daemon("b", prefetch=100) as b:
            stage.ready(b)
            stage.send(*[script("k")] * 3)
            stage.wait_blocked()
            wait_until(lambda: stage.effects() == {"k": 1}, 20, "the twin to be applied")
            a.signal(signal.SIGCONT)
            stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(a) + counted(b)) == {"applied": 1, "duplicate": 3}
    stage.assert_once({"k"})


def test_what_comes_while_the_database_is_away_goes_back_after_hold_max(stage):
    """Nothing was in hand when it went: what the broker sends then is held no longer than what was."""
    stage.declare()
    with stage.daemon(hold_max="1s") as daemon:
        stage.ready(daemon)
        with stage.no_database():
            stage.send(*[script(f"k{n}") for n in range(10)])
            daemon.wait_log("event=held_too_long")
            wait_until(lambda: stage.vhost.depth(QUEUE) == (10, 0), 15, "the deliveries to go back")
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon)) == {"applied": 10}
    assert daemon.log().count("event=held_too_long") == 1


def test_the_claim_of_a_stopped_process_holds_up_only_its_own_message(stage, fault_points):
    """Its siblings do not wait for it. When the process goes on, it commits, and the other copy is a duplicate."""
    names = [f"k{n}" for n in range(20)]
    stage.declare()
    with stage.daemon("a", fault="after_claim=delay:1000@1") as a:
        stage.send(script("k7"))  # before probation is over: it takes no other one
        a.wait_log("event=fault_point")
        a.signal(signal.SIGSTOP)
        with stage.daemon("b", database={"lock_timeout": "200ms"}) as b:
            stage.ready(b)
            stage.send(*[script(name) for name in names])
            wait_until(lambda: stage.effects().keys() == set(names) - {"k7"}, 20, "the siblings to be applied",
                       explain=b.log_tail)
            b.wait_log("event=claim_blocked.*key=k7")
            a.signal(signal.SIGCONT)
            stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(a) + counted(b)) == {"applied": 20, "duplicate": 1}
    stage.assert_once(names)
    assert not stage.parked()


def test_a_pooler_that_drops_the_startup_options_leaves_no_session_without_them(stage, pg):
    """Isolation and timeouts would silently be the server's, and a COMMIT without its standby pass for a good one."""
    names = "'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_isolation', " \
            "'client_min_messages', 'client_connection_check_interval'"
    stage.declare()
    stage.db.execute("CREATE TABLE in_force (key text, name text, setting text)")

    def look(key, **database):
        with stage.daemon(key, database={"isolation": "serializable", **database}):
            stage.send(script(key, ["effect"], run(f"INSERT INTO in_force SELECT '{key}', name, setting FROM pg_settings "
                                                   f"WHERE name IN ({names})")))
            stage.vhost.wait_empty(QUEUE)
        return dict(stage.db.rows("SELECT name, setting FROM in_force WHERE key = %s", (key,)))

    direct = look("direct")
    with Proxy("postgresql", pg.port) as proxy:
        proxy.pooled = True
        pooled = look("pooled", conninfo=proxy.conninfo(stage.db))
    assert pooled == direct and direct["transaction_isolation"] == "serializable" and len(direct) == 6
