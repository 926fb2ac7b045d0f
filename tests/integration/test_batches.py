"""What shares a transaction: poison in a batch, copies of a key, wrong row counts, statements that decide, order."""
import pytest

from lib.wait import wait_until
from stage import CONSUMER, QUEUE, counted, outcomes, run, script

NAMES = [f"k{n:03}" for n in range(100)]
POISON = ["cast", "poison"]  # 22P02
BOTH_PLUGINS = pytest.mark.parametrize("plugin", ["scripted", "scripted_batch"])
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@BOTH_PLUGINS
def test_one_poison_message_in_a_batch_of_100_is_parked_and_99_are_applied(stage, plugin):
    messages = [script(name) for name in NAMES]
    messages[50] = script("k050", ["effect"], POISON)
    counts = stage.one_batch(messages, plugin=plugin)
    assert outcomes(counts) == {"applied": 99, "parked": 1}
    stage.assert_once(set(NAMES) - {"k050"})
    (parked,) = stage.parked()
    assert (parked.key, parked.status, parked.reason, parked.sqlstate) == ("k050", "dead", "sql", "22P02")


@BOTH_PLUGINS
def test_thirty_poison_messages_in_a_batch_are_parked_and_their_siblings_applied(stage, plugin):
    poison = set(NAMES[0:60:2])
    messages = [script(name, ["effect"], POISON) if name in poison else script(name) for name in NAMES]
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 70, "parked": 30}
    stage.assert_once(set(NAMES) - poison)
    assert {parked.key for parked in stage.parked()} == poison


@BOTH_PLUGINS
def test_three_copies_of_a_key_in_a_batch_are_one_effect(stage, plugin):
    messages = [script(name) for name in NAMES[:10] + NAMES[5:8] + NAMES[:10]]
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 10, "duplicate": 13}
    stage.assert_once(NAMES[:10])


@BOTH_PLUGINS
@pytest.mark.parametrize("first", [script("k", ["effect"], POISON), script("k", ["one", "nothing"]),
                                   script("k", verdict="reject"), script("k", verdict="reject", early=True)],
                         ids=["sql", "row_count", "reject", "reject_early"])
def test_a_good_copy_behind_a_bad_one_is_applied(stage, plugin, first):
    messages = [script("a"), first, script("b"), script("k"), script("k"), script("z")]
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 4, "duplicate": 1, "parked": 1}
    stage.assert_once({"a", "b", "k", "z"})
    assert [parked.key for parked in stage.parked()] == ["k"]


@BOTH_PLUGINS
def test_a_bad_copy_behind_a_good_one_is_a_duplicate(stage, plugin):
    messages = [script("k"), script("k", POISON), script("k", verdict="reject"), script("a")]
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 2, "duplicate": 2}
    stage.assert_once({"a", "k"})
    assert not stage.parked()


@pytest.mark.parametrize("first", [{"verdict": "ignore"}, {"key_verdict": "ignore"}], ids=["apply", "key"])
def test_a_copy_behind_an_ignored_one_is_applied(stage, first):
    messages = [script("k", **first), script("k"), script("a")]
    assert outcomes(stage.one_batch(messages)) == {"applied": 2, "ignored": 1}
    stage.assert_once({"a", "k"})


@BOTH_PLUGINS
@pytest.mark.parametrize("statement, rows", [("one", 0), ("one", 2), ("some", 0), ("each", 0), ("each", 7)])
def test_a_wrong_row_count_in_the_middle_of_a_batch_leaves_no_claim(stage, plugin, statement, rows):
    stage.db.execute(f"INSERT INTO things SELECT 'thing' FROM generate_series(1, {rows})")
    messages = [script(name) for name in NAMES[:20]]
    messages[10] = script("k010", ["effect"], [statement, "thing"], ["effect"])
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 19, "parked": 1}
    stage.assert_once(set(NAMES[:20]) - {"k010"})
    (parked,) = stage.parked()
    assert (parked.key, parked.status, parked.reason) == ("k010", "dead", "row_count")
    assert f"{statement} touched {rows} rows" in parked.detail
    assert stage.touched("thing") in (0, None)


def test_a_missing_row_is_tried_again_later_where_the_statement_says_so(stage):
    messages = [script("a"), script("k", ["effect"], ["one_retry", "thing"]), script("z")]
    assert outcomes(stage.one_batch(messages)) == {"applied": 2, "retried": 1}
    stage.assert_once({"a", "z"})
    (parked,) = stage.parked()
    assert (parked.key, parked.status, parked.reason) == ("k", "retry", "row_count")


def test_counts_that_fit_are_applied_together(stage):
    """Also EACH, which in apply() is one row however many messages share the transaction."""
    stage.db.execute("INSERT INTO things VALUES ('one'), ('two'), ('two')")
    messages = [script(name, ["effect"], ["one", "one"], ["each", "one"], ["some", "two"], ["any", "none"])
                for name in NAMES[:20]]
    counts = stage.one_batch(messages)
    assert outcomes(counts) == {"applied": 20} and counts["rollbacks"] == 0
    assert (stage.touched("one"), stage.touched("two")) == (40, 40)


def test_nothing_stays_behind_a_deciding_statement_that_said_duplicate(stage):
    """Whether what it queued behind would have worked or not; its siblings are applied."""
    stage.db.execute("INSERT INTO natural_keys VALUES ('taken')")
    messages = [script(name) for name in NAMES[:10]]
    messages[3] = script("k003", ["new", "taken"], ["effect"])
    messages[5] = script("k005", ["new", "taken"], ["effect"], POISON)
    messages[7] = script("k007", ["new", "free"], ["effect"])
    messages[8] = script("k008", ["new", "taken"])
    assert outcomes(stage.one_batch(messages)) == {"applied": 7, "duplicate": 3}
    assert stage.effects() == {name: 1 for name in NAMES[:10] if name not in ("k003", "k005", "k008")}
    assert stage.claims() == set(NAMES[:10])
    assert not stage.parked()


def test_an_older_version_is_stale_and_leaves_nothing_behind(stage):
    messages = [script(f"v{n}", ["newer", "thing", n], ["effect"]) for n in (5, 7, 6, 8, 7)]
    messages[4]["key"] = "v7 again"
    assert outcomes(stage.deliver(*messages, plugin__claim="none", batch_max=1)) == {"applied": 3, "stale": 2}
    assert stage.effects() == {"v5": 1, "v7": 1, "v8": 1} and not stage.claims()
    assert stage.db.rows("SELECT * FROM versions") == [("thing", 8)]


def test_without_claims_a_natural_key_decides_also_between_copies_in_a_batch(stage):
    stage.declare().send(*[script("k", ["new", "k"], ["effect"])] * 3, script("a", ["new", "a"], ["effect"]))
    assert outcomes(stage.drain(plugin__claim="none")) == {"applied": 2, "duplicate": 2}
    assert stage.effects() == {"k": 1, "a": 1} and not stage.claims()


@BOTH_PLUGINS
@pytest.mark.parametrize("early", [False, True], ids=["", "after_statements"])
def test_an_ignored_message_leaves_neither_claim_nor_effect(stage, plugin, early):
    messages = [script(name) for name in NAMES[:10]]
    messages[5] = script("k005", verdict="ignore", early=early)
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 9, "ignored": 1}
    stage.assert_once(set(NAMES[:10]) - {"k005"})
    assert not stage.parked()


@BOTH_PLUGINS
@pytest.mark.parametrize("verdict, outcome, status", [("reject", "parked", "dead"), ("retry", "retried", "retry")])
@pytest.mark.parametrize("early", [False, True], ids=["", "after_statements"])
def test_a_refused_message_is_parked_with_the_plugin_s_words_and_leaves_no_claim(stage, plugin, verdict, outcome, status,
                                                                                 early):
    messages = [script(name) for name in NAMES[:10]]
    messages[5] = script("k005", verdict=verdict, say="the shop is closed", early=early)
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": 9, outcome: 1}
    stage.assert_once(set(NAMES[:10]) - {"k005"})
    (parked,) = stage.parked()
    assert (parked.key, parked.status, parked.reason) == ("k005", status, "rejected")
    assert parked.detail == "the shop is closed"


def test_a_batch_is_applied_in_lock_order_then_by_key_bytes(stage):
    keys = ["b", "a", "Z", "é", "aa"]
    messages = [script(f"{key}{order}", lock_order=order) for order in (9, -3, 9223372036854775807, 2) for key in keys]
    counts = stage.one_batch(messages)
    assert outcomes(counts) == {"applied": 20} and counts["batches"] == 2
    by_bytes = sorted(keys, key=str.encode)
    assert stage.order() == [f"{key}{order}" for order in (-3, 2, 9, 9223372036854775807) for key in by_bytes]


def test_two_workers_on_hot_rows_never_deadlock_when_lock_order_names_the_row(stage):
    stage.db.execute("INSERT INTO things SELECT 'hot' || n FROM generate_series(0, 9) n")
    stage.declare().send(*[script(f"k{n}", ["add", f"hot{n * 7 % 10}", 1], ["effect"], lock_order=n * 7 % 10)
                           for n in range(3000)])
    assert outcomes(stage.drain(workers=2, batch_max=50)) == {"applied": 3000}
    assert stage.db.value("SELECT sum(touched) FROM things") == 3000
    assert stage.db.value(DEADLOCKS) == 0


def test_batches_of_the_same_keys_in_opposite_orders_never_deadlock(stage):
    names = [f"k{n:04}" for n in range(1000)]
    stage.declare().send(*[script(name) for name in names + names[::-1]])
    with stage.daemon("a", batch_max=100) as a, stage.daemon("b", batch_max=100) as b:
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(a) + counted(b)) == {"applied": 1000, "duplicate": 1000}
    stage.assert_once(names)
    assert stage.db.value(DEADLOCKS) == 0


def test_two_batches_in_opposite_orders_claim_in_the_same_order(stage):
    """Both stand at m. In the order of arrival one would hold a and the other z, each wanting the other's."""
    stage.declare(QUEUE, "other")
    with stage.gate() as open_gate, stage.gate("m") as open_m, \
            stage.daemon("a") as a, stage.daemon("b", consumers={CONSUMER: "other"}) as b:
        for daemon, queue in ((a, QUEUE), (b, "other")):
            stage.ready(daemon)
            stage.send(script("gate"), queue=queue)
        stage.wait_blocked(2)
        for queue, names in ((QUEUE, "amz"), ("other", "zma")):
            stage.send(*[script(name) for name in names], queue=queue)
            stage.wait_delivered(4, queue)
        open_gate(commit=True)
        wait_until(lambda: stage.vhost.depth(QUEUE).unacked + stage.vhost.depth("other").unacked == 6, 15,
                   "both batches to begin")
        stage.wait_blocked(2)
        open_m()
        stage.vhost.wait_empty(QUEUE, "other")
    stage.db.execute("DELETE FROM effectd.processed_messages WHERE message_key = 'gate'")
    stage.assert_once("amz")
    assert stage.db.value(DEADLOCKS) == 0


def test_a_multiple_ack_never_passes_over_a_delivery_that_is_not_settled(stage):
    """One claim is blocked by somebody else: its 99 siblings are settled, it alone stays with the worker."""
    stage.declare()
    with stage.gate("k050") as open_gate, stage.daemon(database={"lock_timeout": "200ms"}) as daemon:
        stage.ready(daemon)
        stage.send(*[script(name) for name in NAMES])
        wait_until(lambda: stage.vhost.depth(QUEUE) == (0, 1), 20, "99 of 100 deliveries to be settled")
        assert stage.effects().keys() == set(NAMES) - {"k050"}
        daemon.kill()
        wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 20, "the last delivery to go back")
        open_gate()
    (body,) = stage.vhost.browse(QUEUE)
    assert b'"k050"' in body
    assert outcomes(stage.drain()) == {"applied": 1}
    stage.assert_once(NAMES)


def test_an_outbox_row_commits_with_its_claim_and_not_without_it(stage):
    messages = [script("a", ["outbox"], ["outbox"]), script("b", ["outbox"], POISON), script("c", ["outbox"])]
    assert outcomes(stage.one_batch(messages)) == {"applied": 2, "parked": 1}
    assert stage.db.rows("SELECT message_key, idempotency_key, payload ->> 'key' FROM effectd.outbox ORDER BY id") == [
        ("a", "work/a/1", "a"), ("a", "work/a/2", "a"), ("c", "work/c/1", "c")]


def test_a_batch_runs_in_one_transaction(stage):
    messages = [script(name, ["effect"], run("INSERT INTO things (touched) VALUES (pg_current_xact_id()::text::bigint)"))
                for name in NAMES]
    counts = stage.one_batch(messages)
    assert outcomes(counts) == {"applied": 100} and counts["batches"] == 2
    assert stage.db.value("SELECT count(DISTINCT touched) FROM things") == 1
