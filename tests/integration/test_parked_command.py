"""effectd parked: what an operator sees of parked messages, and what retry and drop do with them."""
import json
import re
import subprocess

import pika
import pytest

from lib import build
from lib.wait import wait_until
from stage import CONSUMER, QUEUE, script

HEADERS = {"tenant": "a\u00e9", "number": 2**40, "flag": True, "none": None, "nested": {"list": [1, "two"]},
           "bytes": b"\xff\x00\x1b[31m"}
ROW = """
INSERT INTO effectd.parked_messages (consumer, message_key, fingerprint, body, status, reason, next_attempt_at,
    first_seen_at, parked_at)
SELECT %(consumer)s, 'row' || n, sha256(('row' || n)::bytea), '{}', %(status)s, %(reason)s, now() + interval '1 hour',
    now() - %(age)s::interval, now() - %(age)s::interval FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture
def parked(stage):
    """The command on the stage's database: parked("list", ...) gives the result, with .data for --json."""
    daemon = stage.daemon()

    def run(*args, rc=0, **options):
        done = daemon.command("parked", *args, **options)
        assert done.rc == rc, done
        return json.loads(done.stdout) if "--json" in args and rc != 2 else done
    return run


@pytest.fixture
def rows(stage):
    """Writes rows: rows(count, consumer=..., status=..., reason=..., age=...)."""
    def write(count, consumer=CONSUMER, status="dead", reason="rejected", age="1 minute"):
        stage.db.execute(ROW, {"count": count, "consumer": consumer, "status": status, "reason": reason, "age": age})
    return write


def ids(listed):
    return [row["id"] for row in listed]


def test_list_names_each_message_with_its_reason_and_marks_those_that_are_claimed(stage, parked):
    stage.deliver(script("rejected", verdict="reject", say="no such customer\x1b[2J"), script("claimed", verdict="reject"),
                  script("waits", verdict="retry", say="not yet"), b"no json", script("daily", verdict="reject"),
                  retry_min="1h", retry_max="1h")
    stage.db.execute("""
        INSERT INTO effectd.processed_messages (consumer, message_key) VALUES ('work', 'claimed'), ('other', 'rejected');
        CREATE TABLE effectd.a_day PARTITION OF effectd.processed_messages_daily
            FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
        INSERT INTO effectd.processed_messages_daily VALUES ('work', 'daily', '2026-01-01')""")

    listed = {row["key"]: row for row in parked("list", "--json")}
    assert listed.keys() == {"rejected", "claimed", "daily", "waits", None}
    assert {key: (row["status"], row["reason"]) for key, row in listed.items()} == {
        "rejected": ("dead", "rejected"), "claimed": ("dead", "rejected"), "daily": ("dead", "rejected"),
        "waits": ("retry", "rejected"), None: ("dead", "bad_body")}
    assert [key for key, row in listed.items() if row["claimed"]] == ["claimed", "daily"]
    assert not any(row["beyond_window"] or row["in_work"] for row in listed.values())
    assert listed["waits"]["attempts"] == 1 and listed["waits"]["next_attempt_at"]

    lines = parked("list").stdout.splitlines()
    assert lines[0].split()[:2] == ["ID", "CONSUMER"] and len(lines) == 6
    assert re.search(r"\bdead +rejected .* rejected +- +no such customer\\x1b\[2J$", "\n".join(lines), re.MULTILINE)
    assert re.search(r"\bclaimed +claimed\b", "\n".join(lines))
    assert "\x1b" not in "".join(lines)


def test_rows_are_chosen_by_id_consumer_reason_status_key_and_age(parked, rows):
    rows(2)
    rows(1, consumer="other", reason="sql")
    rows(1, consumer="third", status="retry", reason="row_count", age="3 days")
    every = ids(parked("list", "--json"))
    assert len(every) == 4 and every == sorted(every)
    assert ids(parked("list", every[1], every[3], "--json")) == [every[1], every[3]]
    assert ids(parked("list", "--consumer", "other", "--json")) == [every[2]]
    assert ids(parked("list", "--reason", "sql", "--json")) == [every[2]]
    assert ids(parked("list", "--status", "retry", "--json")) == [every[3]]
    assert ids(parked("list", "--key", "row2", "--json")) == [every[1]]
    assert ids(parked("list", "--older-than", "2d", "--json")) == [every[3]]
    assert ids(parked("list", "--newer-than", "2d", "--json")) == every[:3]
    assert ids(parked("list", "--newer-than", "2d", "--consumer", "other", "--json")) == [every[2]]
    assert parked("list", "--consumer", "nobody", "--json") == []


def test_more_rows_than_a_chunk_are_all_shown_retried_and_dropped(stage, parked, rows):
    rows(1203)
    assert len(set(ids(parked("list", "--json")))) == 1203
    assert "1203 due" in parked("retry", "--all").stderr
    assert stage.db.value("SELECT count(*) FROM effectd.parked_messages WHERE status = 'retry'") == 1203
    assert "1203 dropped" in parked("drop", "--consumer", CONSUMER, "--yes").stderr
    assert stage.db.value("SELECT count(*) FROM effectd.parked_messages") == 0


def test_show_tells_every_property_and_the_body(stage, parked):
    body = b'{"key": "k1", "verdict": "reject", "say": "\xc3\xa9"}'
    stage.declare()
    with stage.daemon(name="parks") as daemon:
        stage.ready(daemon)
        stage.publisher.body(body, "k1", routing_key=QUEUE, content_type="application/json", content_encoding="gzip?",
                             headers=HEADERS, delivery_mode=2, priority=7, correlation_id="c-1", reply_to="r",
                             expiration="600000", message_id="m-1", timestamp=1700000000, type="order",
                             app_id="shop", cluster_id="x")
        stage.vhost.wait_empty(QUEUE)
    shown = parked("show", stage.db.value("SELECT id FROM effectd.parked_messages"), "--json")
    assert shown["key"] == "k1" and shown["consumer"] == CONSUMER and shown["detail"] == "\u00e9"
    assert shown["exchange"] == "" and shown["routing_key"] == QUEUE
    assert shown["properties"] == {
        "content_type": "application/json", "content_encoding": "gzip?", "delivery_mode": 2, "priority": 7,
        "correlation_id": "c-1", "reply_to": "r", "expiration": "600000", "message_id": "m-1",
        "timestamp": "2023-11-14T22:13:20Z", "type": "order", "app_id": "shop", "cluster_id": "x",
        "headers": {**HEADERS, "bytes": "\\xff\\x00\x1b[31m"}}
    assert shown["body"].encode() == body and shown["body_complete"] is True and shown["body_bytes"] == len(body)

    text = parked("show", shown["id"]).stdout
    for piece in ('priority             7', '"tenant"             "a\u00e9"', '"nested"             {"list":[1,"two"]}',
                  f"body, {len(body)} bytes\n  " + body.decode(), "reason               rejected"):
        assert piece in text
    assert "\x1b" not in text


def test_a_body_comes_out_byte_for_byte(stage, parked):
    body = bytes(range(256)) * 1000
    stage.declare()
    with stage.daemon(name="parks", max_body="1MiB") as daemon:
        stage.ready(daemon)
        stage.publisher.body(body, routing_key=QUEUE)
        stage.vhost.wait_empty(QUEUE)
    number = stage.db.value("SELECT id FROM effectd.parked_messages")
    raw = subprocess.run([build.EFFECTD, "parked", "show", str(number), "--body", "-c", stage.daemon().file],
                         capture_output=True, check=True, timeout=60)
    assert raw.stdout == body
    shown = parked("show", number, "--json")
    assert shown["body_complete"] is False and shown["body_bytes"] == len(body)
    assert bytes.fromhex(shown["body_hex"]) == body[:len(shown["body_hex"]) // 2]


def test_a_dry_run_says_what_is_new_what_is_claimed_and_what_is_older_than_the_window(stage, parked, rows):
    rows(4)
    stage.db.execute("INSERT INTO effectd.consumers (consumer, claims, \"window\") VALUES ('work', 'table', '7 days')")
    stage.db.execute("INSERT INTO effectd.processed_messages (consumer, message_key) VALUES ('work', 'row2')")
    stage.db.execute("UPDATE effectd.parked_messages SET first_seen_at = now() - interval '8 days' "
                     "WHERE message_key = 'row3'")
    stage.db.execute("UPDATE effectd.parked_messages SET leased_until = now() + interval '1 hour' "
                     "WHERE message_key = 'row4'")
    before = stage.db.rows("SELECT * FROM effectd.parked_messages ORDER BY id")

    would = parked("retry", "--all", "--dry-run", "--json", rc=1)
    assert {row["key"]: row["action"] for row in would} == {"row1": "apply", "row2": "remove", "row3": "refuse",
                                                            "row4": "none"}
    said = parked("retry", "--all", "--dry-run", rc=1)
    assert "2 would be due" in said.stderr and "only the row goes: 1\n" in said.stderr
    assert "--beyond-window" in said.stderr
    assert {row["key"]: row["action"] for row in parked("retry", "--all", "--dry-run", "--beyond-window", "--json")} == {
        "row1": "apply", "row2": "remove", "row3": "apply", "row4": "none"}
    assert stage.db.rows("SELECT * FROM effectd.parked_messages ORDER BY id") == before

    parked("retry", "--all", rc=1)
    due = "SELECT message_key FROM effectd.parked_messages WHERE status = 'retry' AND next_attempt_at <= now()"
    assert {key for key, in stage.db.rows(due)} == {"row1", "row2"}
    parked("retry", "--key", "row3", "--beyond-window")
    assert stage.db.rows("SELECT message_key FROM effectd.parked_messages WHERE beyond_window") == [("row3",)]


def test_a_retried_message_is_applied_once_and_its_row_goes(stage, parked):
    """What was parked for a missing row is applied after a person has added it; its claimed copy is a duplicate."""
    stage.declare()
    with stage.daemon(name="runs") as daemon:
        stage.ready(daemon)
        stage.send(script("a", ["effect"], ["one", "later"]), script("b", verdict="reject"))
        wait_until(lambda: len(stage.parked()) == 2, 15, "two parked messages")
        assert stage.effects() == {} and stage.claims() == set()
        stage.db.execute("INSERT INTO things (name) VALUES ('later')")
        stage.db.execute("INSERT INTO effectd.processed_messages (consumer, message_key) VALUES ('work', 'b')")
        parked("retry", "--all")
        wait_until(lambda: not stage.parked(), 15, "both rows to go")
        parked("retry", "--all")
    assert stage.effects() == {"a": 1} and stage.touched("later") == 1
    assert stage.claims() == {"a", "b"}


def test_drop_needs_a_yes_and_says_what_it_dropped(stage, parked, rows):
    rows(3)
    assert "--yes" in parked("drop", "--all", rc=2).stderr
    assert "3 would be dropped" in parked("drop", "--all", "--dry-run").stderr
    assert stage.db.value("SELECT count(*) FROM effectd.parked_messages") == 3
    first, *_ = ids(parked("list", "--json"))
    dropped = parked("drop", first, "--yes", "--json")
    assert [(row["id"], row["key"], row["action"]) for row in dropped] == [(first, "row1", "drop")]
    assert "1 of 2 ids" in parked("drop", first, first + 1, "--yes", rc=1).stderr
    assert stage.db.value("SELECT count(*) FROM effectd.parked_messages") == 1


def test_what_is_wrong_is_said(stage, parked):
    assert "nothing is parked" in parked("list").stderr
    assert "no parked message is like that" in parked("list", "--reason", "sql").stderr
    assert "there is no parked message" in parked("show", 17, rc=1).stderr
    for wrong, why in [(["list", "--reason", "sqll"], "bad_key, bad_body"), (["list", "--status", "pending"], "retry or dead"),
                       (["list", "--older-than", "soon"], "12h"), (["list", "seventeen"], "is no id"),
                       (["show"], "one id"), (["retry"], "--all"), (["drop", "--yes"], "--all"),
                       (["retry", "--yes", "--all"], "does not go with retry"), (["list", "--body"], "does not go"),
                       (["apply"], "list, show, retry or drop"), (["list", "--database", "no"], "[database:no]"),
                       (["retry", "--all", "--reason", "sql"], "nothing that chooses"),
                       (["list", "--key", "a", "--key", "b"], "once")]:
        assert why in parked(*wrong, rc=2).stderr, wrong
    assert stage.daemon().command("parked", "--help").stdout.startswith("Examples:\n  effectd parked list")


def test_ids_of_two_databases_are_told_apart(stage, stage_db, pg, stage_template):
    other = pg.createdb("parked_other", stage_template)
    sections = stage.sections()
    sections["database:other"] = {"conninfo": other.conninfo}
    sections["consumer:elsewhere"] = {**sections["consumer:work"], "database": "other", "queue": "elsewhere"}
    daemon = stage.daemon()
    daemon.configure(sections)
    for database, consumer in ((stage_db, "work"), (other, "elsewhere")):
        database.execute(ROW, {"count": 1, "consumer": consumer, "status": "dead", "reason": "sql", "age": "1 minute"})
    done = daemon.command("parked", "list", "--json")
    assert done.rc == 0, done.stderr
    listed = json.loads(done.stdout)
    assert [(row["database"], row["consumer"]) for row in listed] == [("main", "work"), ("other", "elsewhere")]
    number = str(listed[1]["id"])
    assert daemon.command("parked", "show", number).rc == 2
    assert "elsewhere" in daemon.command("parked", "show", number, "--database", "other").stdout
    assert "elsewhere" in daemon.command("parked", "show", number, "--consumer", "elsewhere").stdout
    other.drop()


def test_a_database_that_is_away_is_69(stage):
    daemon = stage.daemon(database={"conninfo": "host=/nowhere dbname=x"})
    assert daemon.command("parked", "list").rc == 69
