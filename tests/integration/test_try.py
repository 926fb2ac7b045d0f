"""effectd try: what a message would do, shown and rolled back; with --golden and --twice a plugin's test."""
import fcntl
import json
import re
import struct
import subprocess
import termios

import pytest

from lib import build, config, orders
from lib.wait import wait_until
from stage import CONSUMER, run, script


class Try:
    def __init__(self, daemon, consumer):
        self.daemon, self.consumer = daemon, consumer

    def __call__(self, *messages, args=(), rc=0):
        lines = "".join((message if isinstance(message, str) else json.dumps(message)) + "\n" for message in messages)
        done = self.daemon.command("try", "--consumer", self.consumer, *args, stdin=lines)
        assert done.rc == rc, done
        return done

    def reports(self, *messages, args=(), rc=0):
        return [json.loads(line) for line in self(*messages, args=[*args, "--json"], rc=rc).stdout.splitlines()]


@pytest.fixture
def attempt(stage):
    return Try(stage.daemon(), CONSUMER)


@pytest.fixture
def shipped(db, vhost, daemon, runtime_dir):
    def make(consumer, plugin):
        return Try(daemon({**config.base(db, vhost, runtime_dir),
                           f"consumer:{consumer}": config.consumer(plugin, consumer)}), consumer)
    return make


def rows(db, *tables):
    return [db.value(f"SELECT count(*) FROM {table}") for table in tables]


def test_a_good_message_is_shown_step_by_step_and_leaves_nothing(shipped, db):
    report, = shipped("loyalty", "loyalty_points").reports(orders.order(7))
    assert (report["outcome"], report["claim"], report["verdict"]) == ("applied", "new", "ok")
    assert report["key"] == "order-completed:7" and report["event_time"] == "2026-11-30T12:00:00.000Z"
    assert report["lock_order"] == orders.customer(7)
    assert report["statements"] == [
        {"name": "entry", "parameters": ["7", str(orders.customer(7)), str(orders.points(7))], "rows": 1},
        {"name": "balance", "parameters": [str(orders.customer(7)), str(orders.points(7))], "rows": 1}]
    assert rows(db, "point_ledger", "effectd.processed_messages", "balances WHERE points <> 0") == [0, 0, 0]


def test_people_see_the_same_steps_and_how_long_they_took(shipped):
    text = shipped("loyalty", "loyalty_points")(orders.order(7)).stdout
    customer, points = orders.customer(7), orders.points(7)
    for line in ("line 1: applied", r"  key +order-completed:7", r"  claim +new", r"  verdict +ok",
                 rf"  entry +\$1 = 7, \$2 = {customer}, \$3 = {points}: 1 row", r"  balance .*: 1 row", r"  took +\d+\.\d ms"):
        assert re.search(f"^{line}$", text, re.MULTILINE), f"{line}: {text}"
    assert re.search(r"^  outbox row +.*send_receipt", shipped("receipts", "receipts")(orders.order(7)).stdout, re.MULTILINE)


def everything(db):
    """Each row of each table."""
    tables = [name for name, in db.rows("SELECT schemaname || '.' || tablename FROM pg_tables "
                                        "WHERE schemaname IN ('effectd', 'public')")]
    assert {"effectd.parked_messages", "effectd.effects"} <= set(tables)
    return {name: sorted(row for row, in db.rows(f"SELECT t::text FROM {name} t")) for name in tables}


def test_only_sequences_advance_and_help_says_so(attempt, stage):
    before = everything(stage.db)
    attempt(script("k"), script("k"), script("r", ["effect"], ["cast", "ten"]), script("j", verdict="retry"),
            script("b", ["outbox"], verdict="broken"), script("i", verdict="ignore"), "{", rc=1)
    assert everything(stage.db) == before
    assert stage.db.value("SELECT nextval(pg_get_serial_sequence('effects', 'id'))") == 4
    assert "Only sequences advance" in attempt.daemon.command("try", "--help").stdout


def test_an_outbox_row_is_shown_with_its_key(shipped, db):
    report, = shipped("receipts", "receipts").reports(orders.order(7))
    (row,) = report["outbox"]
    assert (row["kind"], row["idempotency_key"]) == ("send_receipt", "receipts/order-completed:7/1")
    assert row["payload"] and rows(db, "effectd.outbox") == [0]


def test_each_message_sees_the_tables_as_they_are(shipped, db):
    loyalty = shipped("loyalty", "loyalty_points")
    db.execute("INSERT INTO effectd.processed_messages VALUES ('loyalty', 'order-completed:1')")
    db.execute("INSERT INTO point_ledger (order_id, customer_id, points) VALUES (2, 2, 2)")
    reports = loyalty.reports(*(orders.order(n) for n in (1, 2, 3, 3)), orders.order(4, event="Other"))
    assert [report["outcome"] for report in reports] == ["duplicate", "duplicate", "applied", "applied", "ignored"]
    assert [report["claim"] for report in reports] == ["taken", "new", "new", "new", "none"]
    assert [s["rows"] for s in reports[1]["statements"]] == [0]
    assert [r["outcome"] for r in loyalty.reports(orders.order(1), args=["--ignore-claim"])] == ["applied"]


@pytest.mark.parametrize("message, parked", [
    (script("k", ["one", "nothing"]), ("dead", "row_count")), (script("k", ["cast", "ten"]), ("dead", "sql")),
    (script("k", verdict="reject", say="no"), ("dead", "rejected")), (script("k", verdict="retry"), ("retry", "rejected")),
    (script("x" * 513), ("dead", "bad_key")), ("{", ("dead", "bad_body")),
])
def test_what_would_be_parked_is_said_with_the_reason(attempt, stage, message, parked):
    report, = attempt.reports(message, rc=1)
    assert report["outcome"] == ("retried" if parked[0] == "retry" else "parked")
    assert (report["parked"]["status"], report["parked"]["reason"]) == parked and report["parked"]["detail"]
    assert not stage.parked() and not stage.claims()


def test_a_failed_statement_shows_its_error_and_those_behind_it_do_not_run(attempt):
    report, = attempt.reports(script("k", ["effect"], ["cast", "ten"], ["effect"]), rc=1)
    first, failed, third = report["statements"]
    assert first["rows"] == 1 and failed["error"]["sqlstate"] == "22P02" and "rows" not in third
    text = attempt(script("k", ["effect"], ["cast", "ten"], ["effect"]), rc=1).stdout
    assert "SQLSTATE 22P02" in text and "not run" in text and "parked as" in text


def test_a_deferred_constraint_speaks(attempt, stage):
    stage.db.execute("CREATE TABLE mothers (n int PRIMARY KEY); CREATE TABLE kids (n int REFERENCES mothers"
                     " DEFERRABLE INITIALLY DEFERRED)")
    report, = attempt.reports(script("k", run("INSERT INTO kids VALUES (1)")), rc=1)
    assert report["error"]["sqlstate"] == "23503" and "COMMIT" in report["error"]["text"]


def test_what_would_stop_the_consumer_and_what_would_wait(attempt, stage):
    report, = attempt.reports(script("k", run("SELECT * FROM nowhere")), rc=1)
    assert report["outcome"] == "stops" and report["error"]["sqlstate"] == "42P01"
    stage.db.execute("INSERT INTO things (name) VALUES ('thing')")
    with stage.gate("taken"), stage.db.connect() as other:
        other.autocommit = False
        other.execute("UPDATE things SET touched = 1")
        claim, lock, good = attempt.reports(script("taken"), script("k", ["one", "thing"]), script("g"), rc=1)
        other.rollback()
    assert claim["outcome"] == lock["outcome"] == "again" and good["outcome"] == "applied"
    assert lock["error"]["sqlstate"] == "55P03"
    attempt(script("k", run("SELECT 1 / (current_setting('lock_timeout') = '1s')::int")))


def started(attempt):
    return subprocess.Popen([build.EFFECTD, "try", "--consumer", CONSUMER, "-c", attempt.daemon.file, "--json"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_live_twins_do_not_wait_while_nobody_reads_what_it_says(attempt, stage):
    """The pipe is full, so it stands still with what it has to say of a message that a consumer applies meanwhile."""
    stage.declare()
    process, lines, room = started(attempt), 60, 4096
    try:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, room)
        process.stdin.write((json.dumps(script("k")) + "\n") * lines)
        process.stdin.close()
        report = json.loads(first := process.stdout.readline())
        wait_until(lambda: struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)))[0]
                   > room - len(first), 15, "the pipe to be full")
        with attempt.daemon:
            stage.send(script("k"))
            stage.vhost.wait_empty("work")
        stage.assert_once({"k"})
        outcomes = [json.loads(line)["outcome"] for line in process.stdout]
        assert report["outcome"] == "applied" and len(outcomes) == lines - 1
        assert outcomes[-1] == "duplicate" and set(outcomes) == {"applied", "duplicate"}
    finally:
        process.stdout.close()
        process.wait(15)
    assert process.returncode == 0


def test_nobody_waits_for_it_while_it_reads_and_writes(attempt, stage):
    """Between two messages of a pipe it holds no lock and no transaction."""
    process = started(attempt)
    try:
        process.stdin.write(json.dumps(script("k")) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["outcome"] == "applied"
        wait_until(lambda: stage.db.value("SELECT state FROM pg_stat_activity WHERE application_name = 'effectd/try'")
                   == "idle", 15, "the session to idle outside of a transaction")
    finally:
        process.stdin.close()
        process.wait(15)


def test_applied_twice_is_applied_once(shipped):
    for consumer, plugin in (("loyalty", "loyalty_points"), ("analytics", "analytics"), ("receipts", "receipts")):
        report, = shipped(consumer, plugin).reports(orders.order(7), args=["--twice"])
        assert (report["outcome"], report["second"]["outcome"]) == ("applied", "duplicate")
        assert report["second"]["claim"] == "taken"
    natural = shipped("loyalty", "loyalty_points").reports(orders.order(7), args=["--twice", "--ignore-claim"])
    assert natural[0]["second"]["outcome"] == "duplicate" and natural[0]["second"]["claim"] == "ignored"


def test_a_key_with_two_days_and_a_plugin_that_reads_the_clock_are_told(stage, attempt):
    at = [script("k") | {"event_time": f"2026-11-{day}T23:59:59Z"} for day in (29, 29, 30)]
    assert "the same key" not in attempt(*at).stderr  # no days, no harm
    daily = Try(stage.daemon(claims="daily", retention="3650d"), CONSUMER)
    done = daily(*at, script("other") | {"event_time": "2026-11-28T00:00:00Z"}, rc=1)
    assert done.stderr.count("the same key") == 1 and "line 3: its event is of 2026-11-30" in done.stderr
    done = attempt(script("k") | {"event_time": "now"}, args=["--twice"], rc=1)
    assert "line 1: the second time its event has another time" in done.stderr


def test_what_applies_twice_is_told(attempt):
    done = attempt(script("k"), args=["--twice", "--ignore-claim"], rc=1)
    assert "applied twice is not applied once" in done.stderr


def test_golden_files_are_written_and_compared(shipped, tmp_path):
    loyalty, golden = shipped("loyalty", "loyalty_points"), str(tmp_path / "golden.jsonl")
    messages = [orders.order(1), orders.order(2, total_cents="1"), orders.order(3)]
    loyalty(*messages, args=["--write-golden", golden])
    assert "3 messages, 0 differ" in loyalty(*messages, args=["--golden", golden]).stdout
    changed = loyalty(messages[0], orders.order(2), messages[2], args=["--golden", golden], rc=1)
    assert "line 2 differs" in changed.stderr and "expected" in changed.stderr
    assert "goes on behind" in loyalty(*messages[:2], args=["--golden", golden], rc=1).stderr
    assert "line 4 differs" in loyalty(*messages, orders.order(4), args=["--golden", golden], rc=1).stderr


def test_golden_and_twice_are_one_command(shipped, attempt, tmp_path):
    """Whichever way the golden file was written, it is about the first time; the second is judged by itself."""
    golden, twice = str(tmp_path / "golden.jsonl"), ["--twice", "--golden", str(tmp_path / "golden.jsonl")]
    attempt(script("k"), args=["--write-golden", golden])
    assert "applied twice" in attempt(script("k"), args=[*twice, "--ignore-claim"], rc=1).stderr
    loyalty, messages = shipped("loyalty", "loyalty_points"), [orders.order(1), orders.order(2)]
    for args in ([], ["--twice"]):
        loyalty(*messages, args=[*args, "--write-golden", golden])
        assert "2 messages, 0 differ" in loyalty(*messages, args=twice).stdout
    assert "line 2 differs" in loyalty(messages[0], orders.order(3), args=twice, rc=1).stderr


def test_a_key_made_of_the_message_id_is_warned_of(attempt):
    envelope = {"body": script("m-1"), "message_id": "m-1"}
    assert "message id" in attempt(envelope, args=["--envelope"]).stderr
    assert "message id" not in attempt({**envelope, "message_id": "m-2"}, args=["--envelope"]).stderr


def test_text_of_messages_cannot_move_the_terminal(attempt):
    done = attempt(script("k", verdict="reject", say="\x1b[2Jboo"), rc=1)
    assert "\x1b" not in done.stdout and "boo" in done.stdout


@pytest.mark.parametrize("args, rc, words", [
    (["--consumer", "no"], 78, "[consumer:no]"), (["--consumer", "work", "/nowhere"], 78, "/nowhere"),
    (["--consumer", "work", "--golden", "/nowhere"], 78, "/nowhere"),
])
def test_wrong_calls_say_what_is_right(stage, args, rc, words):
    done = stage.daemon().command("try", *args)
    assert done.rc == rc and words in done.stderr
