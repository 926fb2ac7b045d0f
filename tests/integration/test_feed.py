"""effectd feed: lines of a file are applied once, with the claims and batches of deliveries, and nothing is parked."""
import datetime
import gzip
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from lib import build, config, orders
from lib.outbox import Outbox
from lib.provider import Provider
from lib.wait import wait_until
from stage import CONSUMER, run, script


def ago(**delta):
    time = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(**delta)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def order(number, **changes):
    return orders.order(number, **{"completed_at": ago(hours=1), **changes})


def text(messages):
    return "".join(json.dumps(message) + "\n" if not isinstance(message, str) else message + "\n" for message in messages)


class Feed:
    """One consumer's `effectd feed`: what it is given, what it says, what it rejects."""

    def __init__(self, daemon, folder, consumer):
        self.daemon, self.consumer = daemon, consumer
        self.rejects_file = os.path.join(folder, "rejects.jsonl")
        self.file = os.path.join(folder, "lines.jsonl")

    def arguments(self, *more):
        return ["feed", "--consumer", self.consumer, "--rejects", self.rejects_file, *more]

    def __call__(self, messages, *more, rc=0):
        done = self.daemon.command(*self.arguments("--json", *more), stdin=text(messages))
        assert done.rc == rc, done.stderr
        summary = json.loads(done.stdout)
        return {name: summary[name] for name in ("applied", "duplicate", "stale", "ignored", "rejected") if summary[name]}

    def start(self, path, *more):
        return subprocess.Popen([build.EFFECTD, *self.arguments("-c", self.daemon.file, *more, path)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rejects(self):
        with open(self.rejects_file, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def loyalty(db, vhost, daemon, runtime_dir, tmp_path):
    sections = {**config.base(db, vhost, runtime_dir),
                "consumer:loyalty": config.consumer("loyalty_points", "loyalty", workers=2)}
    return Feed(daemon(sections), tmp_path, "loyalty")


@pytest.fixture
def scripted(stage, tmp_path):
    """--beyond-window where the test is not about age: the script's key does not say how old it is."""
    return lambda **settings: Feed(stage.daemon(**settings), tmp_path, CONSUMER)


def credited(db):
    return [number for number, in db.rows("SELECT order_id FROM point_ledger ORDER BY 1")]


def test_a_line_is_applied_once_however_often_it_is_fed(loyalty, db):
    lines = [order(n % 500 + 1) for n in range(1200)]
    assert loyalty(lines) == {"applied": 500, "duplicate": 700}
    assert loyalty(lines) == {"duplicate": 1200}
    assert credited(db) == list(range(1, 501))
    assert db.value("SELECT sum(points) FROM balances") == sum(orders.points(n) for n in range(1, 501))


def test_rejects_are_not_emptied_for_nothing(loyalty, db):
    """By a mistake in the call, or before they are read."""
    with open(loyalty.rejects_file, "w", encoding="utf-8") as file:
        file.write(text([order(1)]))
    assert loyalty.daemon.command(*loyalty.arguments("absent.jsonl")).rc == 78
    with open(loyalty.rejects_file, encoding="utf-8") as file:
        by_pipe = subprocess.run([build.EFFECTD, *loyalty.arguments("-c", loyalty.daemon.file)], stdin=file,
                                 capture_output=True, text=True, check=False, timeout=30)
    by_name = loyalty.daemon.command(*loyalty.arguments(loyalty.rejects_file))
    assert by_pipe.returncode == by_name.rc == 2
    assert all("rejects.jsonl is where rejected lines go" in done.stderr for done in (by_pipe, by_name))
    assert len(loyalty.rejects()) == 1 and not credited(db)


def test_what_a_delivery_applied_is_a_duplicate_and_the_other_way_round(loyalty, db, vhost, publisher):
    vhost.declare("loyalty")
    assert loyalty([order(1)]) == {"applied": 1}
    with loyalty.daemon:
        publisher.publish([publisher.message(orders.body(n), routing_key="loyalty") for n in (1, 2)])
        vhost.wait_empty("loyalty")
        assert loyalty([order(n) for n in (1, 2, 3)]) == {"applied": 1, "duplicate": 2}
    assert credited(db) == [1, 2, 3]


def test_what_cannot_be_applied_is_written_down_and_its_siblings_are_applied(loyalty, db):
    wrong = [order(2, customer_id=0), '{"event": "OrderComple', "[]", order(3, total_cents=1.5), "\u0000", '"\udc80"']
    lines = [order(1), *wrong, order(4), order(5, event="OrderCancelled")]
    data = text(lines).encode("utf-8", "surrogateescape")
    with open(loyalty.file, "wb") as file:
        file.write(data)
    done = loyalty.daemon.command(*loyalty.arguments(loyalty.file))
    assert done.rc == 1 and "2 applied, 0 duplicate, 0 stale, 1 ignored, 6 rejected" in done.stdout, done
    assert credited(db) == [1, 4] and not db.value("SELECT count(*) FROM effectd.parked_messages")
    rejects = {reject["line"]: reject for reject in loyalty.rejects()}
    assert sorted(rejects) == [2, 3, 4, 5, 6, 7]
    assert [rejects[n]["reason"] for n in (2, 3, 4, 5)] == ["row_count", "bad_body", "rejected", "rejected"]
    assert rejects[2]["key"] == "order-completed:2" and "balance" in rejects[2]["detail"]
    assert rejects[3]["text"] == wrong[1] and rejects[6]["text"] == "\0" and rejects[7]["text_escaped"] == '"\\x80"'
    db.execute("INSERT INTO balances VALUES (0, 0)")
    assert loyalty([rejects[2]["text"]]) == {"applied": 1} and loyalty.rejects() == []


def test_many_bad_lines_in_a_row_stop_nobody(loyalty, db):
    assert loyalty([*["nonsense"] * 100, order(1)], rc=1) == {"applied": 1, "rejected": 100}
    assert credited(db) == [1]


def test_what_is_older_than_the_window_is_not_applied_unless_asked_for(loyalty, scripted, db):
    old, young = order(1, completed_at=ago(days=31)), order(2, completed_at=ago(days=29))
    assert loyalty([old, young], rc=1) == {"applied": 1, "rejected": 1}
    assert credited(db) == [2]
    (reject,) = loyalty.rejects()
    assert (reject["line"], reject["reason"], reject["key"]) == (1, "expired", "order-completed:1")
    assert "--beyond-window" in reject["detail"], "and what to do"
    assert loyalty([old, young], "--beyond-window") == {"applied": 1, "duplicate": 1}
    assert credited(db) == [1, 2]


def test_what_does_not_say_how_old_it_is_may_be_too_old(scripted, stage):
    feed = scripted()
    assert feed([script("a")], rc=1) == {"rejected": 1}
    assert [reject["reason"] for reject in feed.rejects()] == ["expired"]
    envelope = {"body": script("b"), "timestamp": int(datetime.datetime.now().timestamp()) - 60}
    assert feed([envelope], "--envelope") == {"applied": 1}
    assert feed([script("a")], "--beyond-window") == {"applied": 1}
    stage.assert_once("ab")


def test_the_window_is_the_registered_one(loyalty, db):
    db.execute("INSERT INTO effectd.consumers (consumer, claims, \"window\") VALUES ('loyalty', 'table', '1 day')"
               " ON CONFLICT (consumer) DO UPDATE SET \"window\" = excluded.\"window\"")
    assert loyalty([order(1, completed_at=ago(days=2)), order(2)], rc=1) == {"applied": 1, "rejected": 1}
    db.execute("UPDATE effectd.consumers SET \"window\" = NULL")
    assert loyalty([order(1, completed_at=ago(days=4000))]) == {"applied": 1}


def test_an_envelope_brings_what_a_broker_would(scripted, stage):
    feed = scripted()
    assert feed([
        {"body": "{\"key\": \"text\"}"},
        {"body": {"key": "ignored"}, "headers": {"key": "header", "n": 1, "x": None, "t": {"a": [1]}}},
        {"routing_key": "r", "body": {"key": "number", "do": [["body"]], "exact": 1234567890123456789}},
    ], "--envelope", "--beyond-window") == {"applied": 3}
    assert stage.claims() == {"text", "header", "number"}
    assert "1234567890123456789" in stage.db.value("SELECT body::text FROM bodies")


def test_a_body_s_numbers_are_not_changed_by_the_envelope(scripted, stage):
    feed = scripted()
    line = '{"headers": {"body": 1}, "body" : {"key":"k","do":[["body"]],"n":1.10000000000000000000000001} , "type":"t"}'
    assert feed([line], "--envelope", "--beyond-window") == {"applied": 1}
    assert "1.10000000000000000000000001" in stage.db.value("SELECT body::text FROM bodies")


@pytest.mark.parametrize("line, words", [
    ("[1]", "no JSON object"), ("{", "no JSON object"), ('{"body": {}, "boddy": 1}', "boddy must be left out"),
    ('{"routing_key": "r"}', "there is no body"), ('{"body": 1, "timestamp": "2026"}', "timestamp must be"),
    ('{"body": 1, "headers": []}', "headers must be an object"), ('{"body": 1, "message_id": 7}', "message_id must be"),
])
def test_a_wrong_envelope_is_rejected_with_what_is_wrong(scripted, line, words):
    feed = scripted()
    assert feed([line], "--envelope", "--beyond-window", rc=1) == {"rejected": 1}
    (reject,) = feed.rejects()
    assert reject["reason"] == "bad_body" and words in reject["detail"] and reject["text"] == line


def test_lines_longer_than_max_body_are_rejected_alone(scripted, stage):
    feed = scripted(max_body="1KiB")
    fits = json.dumps(script("fits"))
    fits += " " * (1024 - len(fits))
    assert feed([script("a"), fits, fits.replace("fits", "long") + " ", "x" * 5_000_000, script("z")],
                "--beyond-window", rc=1) == {"applied": 3, "rejected": 2}
    assert [(r["line"], r["reason"], r["text"]) for r in feed.rejects()] == [(3, "too_big", None), (4, "too_big", None)]
    stage.assert_once({"a", "fits", "z"})
    assert feed([{"body": {"key": "k", "say": "x" * 1024}}], "--envelope", "--beyond-window", rc=1) == {"rejected": 1}
    assert [r["reason"] for r in feed.rejects()] == ["too_big"]


def test_line_ends_blanks_and_an_unfinished_last_line(loyalty, db):
    data = "\n".join([json.dumps(order(1)) + "\r", "", "  \t", json.dumps(order(2)), "nonsense", json.dumps(order(3))])
    with open(loyalty.file, "w", encoding="utf-8", newline="") as file:
        file.write(data)
    done = loyalty.daemon.command(*loyalty.arguments(loyalty.file))
    assert done.rc == 1 and credited(db) == [1, 2, 3] and [reject["line"] for reject in loyalty.rejects()] == [5]


@pytest.mark.parametrize("command", [["gzip"], ["zstd"], ["xz"], ["bzip2"]])
def test_compressed_files_are_known_by_their_content(loyalty, db, command):
    try:
        packed = subprocess.run(command, input=text([order(n) for n in range(1, 301)]).encode(), capture_output=True,
                                check=True).stdout
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not installed")
    with open(loyalty.file, "wb") as file:
        file.write(packed)
    assert loyalty.daemon.command(*loyalty.arguments(loyalty.file)).rc == 0
    assert credited(db) == list(range(1, 301))


def test_a_broken_compressed_file_is_an_error_and_what_was_read_is_applied(loyalty, db):
    packed = gzip.compress(text([order(n) for n in range(1, 20001)]).encode())
    with open(loyalty.file, "wb") as file:
        file.write(packed[:len(packed) // 2])
    done = loyalty.daemon.command(*loyalty.arguments(loyalty.file))
    assert done.rc == 78 and "cannot read behind line" in done.stderr
    assert credited(db)


def test_lines_are_applied_as_they_come(loyalty, db):
    """Like a delivery, a lone line waits for no other."""
    process = loyalty.start("-")
    try:
        for number in (1, 2):
            process.stdin.write(text([order(number)]))
            process.stdin.flush()
            wait_until(lambda: len(credited(db)) == number, 15, "the line to be applied")
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0 and "2 applied" in out


def test_relays_are_told_of_the_rows_that_it_commits(db, vhost, daemon, runtime_dir, tmp_path):
    """At once, and at most every 100 ms: the relay itself would not look for an hour."""
    receipts = Feed(daemon({**config.base(db, vhost, runtime_dir), "consumer:receipts":
                            config.consumer("receipts", "receipts", workers=2)}), tmp_path, "receipts")
    outbox = Outbox(db, daemon, runtime_dir)
    outbox.add(1, kind="send_receipt")
    with Provider() as provider, outbox.http(provider, kinds=("send_receipt",), relay={"poll_interval": "1h"}), \
            outbox.notices() as heard:
        outbox.wait(sent=1)
        process = receipts.start("-")
        try:
            begun = time.monotonic()
            for number in range(1, 31):
                process.stdin.write(text([order(number)]))
                process.stdin.flush()
                wait_until(lambda: outbox.counts().total() > number, 15, "the line to be applied", interval=0.01)
            outbox.wait(sent=31)  # while it waits for more
            process.stdin.write(text([order(31)]))
            process.communicate(timeout=30)
        finally:
            process.kill()
        outbox.wait(sent=32)
        took = time.monotonic() - begun
    assert 2 <= len(heard) <= took / 0.1 + 1


def test_what_it_waits_for_is_said(scripted, stage):
    """A pipe that gives nothing, then a lock that somebody holds."""
    process = scripted(database={"lock_timeout": "30s"}).start("-", "--beyond-window")
    too_long = threading.Timer(60, process.kill)  # else its stderr goes on without an end, and without the line
    too_long.start()
    try:
        with stage.gate() as open_gate:
            assert any("waiting: for more lines" in line for line in process.stderr)
            process.stdin.write(text([script("gate")]))
            process.stdin.close()
            assert any("waiting: a batch is under way for" in line and "effectd/work/feed" in line
                       for line in process.stderr)
            open_gate()
        assert process.wait(30) == 0 and "1 applied" in process.stdout.read()
    finally:
        too_long.cancel()
        process.kill()


@pytest.mark.slow
def test_broken_off_and_fed_again_everything_is_there_once(loyalty, db):
    """SIGINT ends it in order; kill -9 ends it anyhow."""
    count = 60000
    with open(loyalty.file, "w", encoding="utf-8") as file:
        file.write(text([order(n) for n in range(1, count + 1)]))
    for number in (signal.SIGINT, signal.SIGKILL):
        before = len(credited(db))
        process = loyalty.start(loyalty.file)
        wait_until(lambda: len(credited(db)) > before + 500, 30, "some lines to be applied")
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
        assert process.returncode == (75 if number == signal.SIGINT else -9), errors
        assert "lines in" in out or number == signal.SIGKILL
        assert len(credited(db)) < count, "it was too fast to be broken off"
    assert loyalty.daemon.command(*loyalty.arguments(loyalty.file)).rc == 0
    assert credited(db) == list(range(1, count + 1))
    assert db.value("SELECT sum(points) FROM balances") == sum(orders.points(n) for n in range(1, count + 1))


@pytest.mark.slow
def test_the_database_may_be_away_for_a_while(loyalty, db, pg):
    with open(loyalty.file, "w", encoding="utf-8") as file:
        file.write(text([order(n) for n in range(1, 30001)]))
    process = loyalty.start(loyalty.file)
    wait_until(lambda: len(credited(db)) > 100, 30, "some lines to be applied")
    pg.restart("immediate")
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert credited(db) == list(range(1, 30001)) and "0 rejected" in out


def test_a_program_fault_ends_it_with_the_reason(scripted, stage):
    feed = scripted()
    done = feed.daemon.command(*feed.arguments("--beyond-window"),
                               stdin=text([script("a", run("SELECT * FROM nowhere")), script("b")]))
    assert done.rc == 1 and "nowhere" in done.stderr and "42P01" in done.stderr


@pytest.mark.parametrize("args, rc, words", [
    (["--consumer", "nobody"], 78, "[consumer:nobody]"),
    (["--consumer", "loyalty", "a", "b"], 2, "one file"), (["--consumer", "loyalty", "--workers", "0"], 2, "between 1 and"),
    (["--consumer", "loyalty", "/nowhere.jsonl"], 78, "cannot open /nowhere.jsonl"),
    (["--consumer", "loyalty", "/"], 78, "is a folder"), (["--consumer", "loyalty", "--rejects", "/no/r"], 78, "/no/r"),
])
def test_wrong_calls_say_what_is_right(loyalty, args, rc, words, tmp_path):
    more = [] if "--rejects" in args else ["--rejects", str(tmp_path / "r")]
    done = loyalty.daemon.command("feed", *args, *more)
    assert done.rc == rc and words in done.stderr
