"""The relay and HTTP targets: at least once, the same key every time, never before the commit, whatever dies."""
import email.utils
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from decimal import Decimal

import pytest

from lib.monitor import Monitor
from lib.outbox import Outbox
from lib.provider import OK, Answer, Provider
from lib.wait import wait_until
from stage import script

SHORT = {"target": {"timeout": "400ms"}, "relay": {"lease": "1s"}}  # a lost lease costs a second


@pytest.fixture
def outbox(db, daemon, runtime_dir):
    return Outbox(db, daemon, runtime_dir)


def keys(first, last, prefix="key"):
    return [f"{prefix}/{n}" for n in range(first, last + 1)]


def test_committed_rows_are_called_once_each_and_marked_sent(outbox):
    outbox.add(1, 200, headers='{"X-Shop": "north", "X-Number": 7}')
    with Provider() as provider, outbox.http(provider, target={"header.X-Mine": "yes", "method": "PUT"}):
        outbox.wait(sent=200)
    assert sorted(provider.keys()) == sorted(keys(1, 200))
    assert sorted(call.body["n"] for call in provider.calls) == list(range(1, 201))
    for call in provider.calls:
        assert call.method == "PUT" and call.path == "/send"
        assert {name: call.headers[name] for name in ("content-type", "x-shop", "x-number", "x-mine")} == {
            "content-type": "application/json", "x-shop": "north", "x-number": "7", "x-mine": "yes"}
    assert outbox.db.rows("SELECT DISTINCT attempts, last_error, leased_until, sent_at >= created_at "
                          "FROM effectd.outbox") == [(1, None, None, True)]


@pytest.mark.parametrize("point", ["outbox_leased", "outbox_called", "outbox_answered", "outbox_before_mark",
                                   "outbox_after_mark"])
def test_a_relay_killed_at_any_point_loses_nothing_and_keeps_the_keys(outbox, fault_points, point):
    nth = 2 if point == "outbox_leased" else 5
    with Provider() as provider:
        dying = outbox.http(provider, **SHORT, fault=f"{point}=exit@{nth}", name="dying")
        dying.start()
        more = iter(range(1, 1000))
        wait_until(lambda: not dying.alive() or not outbox.add(next(more)), 30, f"the end at {point}", interval=0.05)
        assert dying.wait_exit() == 86
        total = next(more) - 1
        with outbox.http(provider, **SHORT) as relay:
            relay.wait_log("event=relaying")
            outbox.wait(sent=total)
    assert set(provider.keys()) == set(provider.effects) == set(keys(1, total))


# What an answer means for the row: (status, how often it is tried with max_attempts = 3, how it ends).
ANSWERS = [(200, 1, "sent"), (201, 1, "sent"), (202, 1, "sent"), (204, 1, "sent"), (299, 1, "sent"),
           (301, 3, "dead"), (302, 3, "dead"), (307, 3, "dead"), (400, 1, "dead"), (401, 1, "dead"), (403, 1, "dead"),
           (404, 1, "dead"), (408, 3, "dead"), (409, 1, "dead"), (410, 1, "dead"), (413, 1, "dead"), (422, 1, "dead"),
           (425, 3, "dead"), (429, 3, "dead"), (500, 3, "dead"), (501, 3, "dead"), (502, 3, "dead"), (503, 3, "dead"),
           (504, 3, "dead"), (418, 1, "sent"), (403, 1, "dead"), (451, 3, "dead"), (207, 1, "dead")]
OTHER_RULES = {"answer.418": "sent", "answer.451": "retry", "answer.207": "dead"}


def test_every_status_has_its_meaning_and_the_answer_is_kept(outbox):
    ids = outbox.add(1, len(ANSWERS))

    def rule(call):
        status = ANSWERS[call.body["n"] - 1][0]
        return Answer(status, f"because of {status}\nand so on".encode(),
                      {"Location": "http://127.0.0.1:1/"} if status // 100 == 3 else {})
    with Provider(rule) as provider, outbox.http(provider, target=OTHER_RULES, relay={"max_attempts": 3}):
        wait_until(lambda: not outbox.counts()["pending"], 30, "all rows to end", explain=outbox.counts)
    for row_id, (status, attempts, end) in zip(ids, ANSWERS):
        error = None if end == "sent" else f"HTTP {status}: because of {status}\\x0aand so on"
        assert outbox.row(row_id) == (end, attempts, error), status
    assert set(Counter(provider.keys()).values()) == {1, 3}


def test_a_repeated_call_that_meets_a_conflict_is_tried_again(outbox):
    """409 to a repetition: the target still works on the call before (its answer was lost)."""
    outbox.add(1)
    answers = {1: Answer(status=0), 2: Answer(409, b"in progress"), 3: OK}
    with Provider(lambda call: answers[call.nth]) as provider, outbox.http(provider):
        outbox.wait(sent=1)
    assert provider.keys() == ["key/1"] * 3


def test_the_target_says_when_to_come_again(outbox):
    """In seconds, or as a date, which knows no parts of a second."""
    outbox.add(1, 2)
    asked = {1: lambda: "2", 2: lambda: email.utils.formatdate(time.time() + 3, usegmt=True)}

    def rule(call):
        return Answer(429, headers={"Retry-After": asked[call.body["n"]]()}) if call.nth == 1 else OK
    with Provider(rule) as provider, outbox.http(provider):
        outbox.wait(sent=2)
    for n in asked:
        first, second = [call.at for call in provider.calls if call.body["n"] == n]
        assert second - first >= 1.8, n


@pytest.mark.parametrize("answer, attempts, error", [
    (Answer(delay=1.0), 2, "timed out"),
    (Answer(status=0), 2, "no answer: Empty reply from server"),
    (Answer(body=b"x" * 200_000, drop=True), 1, None),  # the status is here, and more than anybody reads
    (Answer(body=b"x" * 1000, drop=True), 2, "no answer: "),
    (Answer(body=b"x" * 10_000_000), 1, None),
    (Answer(500, b"x" * 10_000_000), 2, "HTTP 500: xxx"),
], ids=["slow", "no byte", "cut far behind", "cut", "10 MB", "10 MB of fault"])
def test_no_complete_answer_is_tried_again_with_the_same_key(outbox, answer, attempts, error):
    row_id, = outbox.add(1)
    seen = []

    def rule(call):
        if call.nth > 1:
            wait_until(lambda: outbox.row(row_id)[1] == 2, 10, "the second lease")
            seen.append(outbox.row(row_id)[2])
        return answer if call.nth == 1 else OK
    with Provider(rule) as provider, outbox.http(provider, **SHORT):
        outbox.wait(sent=1)
    assert provider.keys() == ["key/1"] * attempts
    assert not provider.errors
    assert len(seen) == attempts - 1 and all(error in text for text in seen)


def test_a_target_that_is_down_gets_one_call_at_a_time_until_it_is_back(outbox):
    outbox.add(1, 300)
    down = threading.Event()
    down.set()
    with Provider(lambda call: Answer(503) if down.is_set() else OK) as provider, outbox.http(provider) as relay:
        relay.wait_log("event=target_fails")
        wait_until(lambda: len(provider.calls) > 80, 30, "calls that probe")
        down.clear()
        outbox.wait(sent=300)
    # in_flight = 64 were under way when it went down; of the rest nobody lost many attempts
    assert outbox.db.value("SELECT max(attempts) FROM effectd.outbox") <= 10
    assert set(provider.effects) == set(keys(1, 300))


def test_two_relays_share_the_rows_and_call_each_once(outbox):
    outbox.add(1, 400)
    with Provider(lambda call: Answer(delay=0.05)) as provider:
        with outbox.http(provider, name="one", relay={"in_flight": 20}), \
                outbox.http(provider, name="two", relay={"in_flight": 20}):
            outbox.wait(sent=400)
    assert sorted(provider.keys()) == sorted(keys(1, 400))
    assert 2 <= provider.most <= 40


def test_rows_of_one_key_go_in_order_and_a_failing_one_blocks_only_its_key(outbox):
    names = [f"order-{n}" for n in range(15)]
    for n in range(1, 9):
        for name in names:
            outbox.add(n, prefix=name, ordering_key=name)
    outbox.add(1, 20)
    stuck = threading.Event()
    under_way = Counter()
    broken = []

    def rule(call):
        name = call.key.split("/")[0]
        if name == "key":
            return OK
        under_way[name] += 1
        if under_way[name] > 1:
            broken.append(name)
        time.sleep(0.005)
        under_way[name] -= 1
        return Answer(500) if call.key == "order-3/2" and not stuck.is_set() else OK
    with Provider(rule) as provider:
        relays = [outbox.http(provider, name=f"relay-{n}", relay={"max_attempts": 1000}).start() for n in range(3)]
        outbox.wait(sent=14 * 8 + 20 + 1, pending=7)  # the failing one and those behind it
        stuck.set()
        outbox.wait(sent=15 * 8 + 20)
        for relay in relays:
            relay.stop()
    order = defaultdict(list)
    for key in provider.effects:
        name, number = key.split("/")
        order[name].append(int(number))
    assert all(order[name] == list(range(1, 9)) for name in names), order
    assert not broken, "two calls of one ordering key at a time"


def test_a_dead_row_lets_its_ordering_key_go_on(outbox):
    outbox.add(1, 5, ordering_key="one")
    with Provider(lambda call: Answer(400) if call.body["n"] == 2 else OK) as provider, outbox.http(provider):
        outbox.wait(sent=4, dead=1)
    assert provider.keys() == keys(1, 5)


def test_a_lower_id_that_commits_later_is_sent(outbox):
    with Provider() as provider, outbox.http(provider), outbox.db.connect() as connection:
        connection.autocommit = False
        outbox.add(1, connection=connection)
        outbox.add(2, 10)
        outbox.wait(sent=9)
        assert "key/1" not in provider.keys()
        connection.commit()
        outbox.wait(sent=10)
    assert sorted(provider.keys()) == sorted(keys(1, 10))


def test_no_transaction_is_open_during_a_call_and_the_lease_is_committed(outbox):
    row_id, = outbox.add(1)
    seen = []

    def look(_):
        seen.extend(outbox.db.rows("SELECT state, xact_start FROM pg_stat_activity "
                                   "WHERE application_name LIKE 'effectd/relay:%'"))
        seen.append(outbox.db.rows("SELECT leased_until > now() + interval '30 s', attempts FROM effectd.outbox "
                                   "WHERE id = %s", (row_id,))[0])
    with Provider(seen=look) as provider, outbox.http(provider):
        outbox.wait(sent=1)
    assert not provider.errors
    assert seen == [("idle", None), (True, 1)]


def test_a_relay_whose_lease_ran_out_does_not_touch_the_row(outbox):
    row_id, = outbox.add(1)
    called, go_on = threading.Event(), threading.Event()

    def rule(call):
        called.set()
        if call.nth == 1:
            go_on.wait(20)
        return Answer(400, b"too late") if call.nth == 1 else OK
    with Provider(rule) as provider:
        stopped = outbox.http(provider, name="stopped", target={"timeout": "900ms"}, relay={"lease": "1s"}).start()
        assert called.wait(15)
        stopped.signal(19)  # SIGSTOP
        with outbox.http(provider, name="other", **SHORT):
            outbox.wait(sent=1)
        go_on.set()
        stopped.signal(18)  # SIGCONT
        stopped.wait_log("event=outbox_lease_lost")
        stopped.stop()
    assert outbox.row(row_id) == ("sent", 2, None)
    assert provider.keys() == ["key/1", "key/1"]


def test_an_idle_relay_asks_nothing_and_a_notification_wakes_it(outbox):
    asked = ("SELECT max(query_start)::text FROM pg_stat_activity WHERE application_name LIKE 'effectd/relay:%%' "
             "AND state = 'idle'")
    outbox.add(1)
    with Provider() as provider, outbox.http(provider, relay={"poll_interval": "1h"}):
        outbox.wait(sent=1)
        before = wait_until(lambda: (outbox.db.value(asked)), 10, "the relay to be idle")
        for _ in range(20):
            time.sleep(0.05)
            before, last = outbox.db.value(asked), before
        assert before == last
        outbox.add(2)
        time.sleep(0.2)
        assert outbox.counts()["pending"] == 1  # nobody told it
        outbox.db.execute("NOTIFY effectd_outbox")
        outbox.wait(sent=2)


def test_other_processes_are_told_at_most_every_100_ms_and_not_by_the_effect_s_transaction(stage, pg, daemon,
                                                                                            runtime_dir):
    outbox = Outbox(stage.db, daemon, runtime_dir)
    stage.declare()
    before = os.path.getsize(pg.log)
    conninfo = f"{stage.db.conninfo} options='-c log_statement=all'"
    with Provider() as provider, outbox.http(provider, kinds=("test",), relay={"poll_interval": "1h"}), \
            outbox.notices() as heard, stage.daemon(database={"conninfo": conninfo}) as host:
        stage.ready(host)
        begun = time.monotonic()
        for number in range(1, 41):
            stage.send(script(f"k{number}", ["outbox"]))
            wait_until(lambda: outbox.counts().total() == number, 15, "its row", interval=0.01)
        outbox.wait(sent=40)
    took = time.monotonic() - begun  # with the drain, which tells of the last rows and keeps the interval as well
    assert 2 <= len(heard) <= took / 0.1 + 1
    with open(pg.log, encoding="utf-8", errors="replace") as log:
        log.seek(before)
        lines = re.findall(rf"\[(\d+)\] effectd/work/\d/{stage.db.name} LOG:  (?:statement|execute [^:]*): (\w+)",
                           log.read())
    said = defaultdict(list)
    for pid, word in lines:
        said[pid].append(word)
    notices = [(words, i) for words in said.values() for i, word in enumerate(words) if word == "NOTIFY"]
    assert len(notices) == len(heard)
    for words, i in notices:
        assert words[:i].count("BEGIN") == sum(words[:i].count(end) for end in ("COMMIT", "ROLLBACK")), words[:i]


def test_what_is_applied_while_its_process_drains_is_told_as_well(stage, daemon, runtime_dir):
    outbox = Outbox(stage.db, daemon, runtime_dir)
    outbox.add(1, kind="test")
    stage.declare()
    with Provider() as provider, outbox.http(provider, kinds=("test",), relay={"poll_interval": "1h"}), \
            stage.gate() as open_gate:
        outbox.wait(sent=1)
        host = stage.daemon().start()
        stage.ready(host)
        stage.send(script("gate"))
        stage.wait_blocked()
        stage.send(script("later", ["outbox"]))
        stage.wait_delivered(2)
        host.signal(signal.SIGTERM)
        host.wait_log("event=draining")
        open_gate()
        assert host.wait_exit() == 0
        assert stage.claims() == {"gate", "later"}
        outbox.wait(sent=2)


def test_a_lost_session_costs_a_moment(outbox):
    with Provider() as provider, outbox.http(provider, relay={"poll_interval": "1h"}) as relay:
        relay.wait_log("event=relaying")
        outbox.add(1)
        outbox.db.execute("NOTIFY effectd_outbox")
        outbox.wait(sent=1)
        for n in range(2, 5):
            mark = relay.mark()
            outbox.add(n)  # told to nobody
            outbox.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                              "WHERE application_name LIKE 'effectd/relay:%'")
            relay.wait_log("event=database_unavailable", since=mark)
            outbox.wait(sent=n)


def test_secrets_do_not_reach_last_error_or_the_log(outbox, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cr3t-token\n")
    token.chmod(0o600)
    row_id, = outbox.add(1)

    def rule(call):
        return Answer(400, f"bad request, you sent {json.dumps(call.headers)}".encode())
    with Provider(rule) as provider:
        url = provider.url.replace("http://", "http://shop:h1dd3n@")
        target = {"url": url, "bearer_token_file": token, "header.X-Api-Key": "k3y-of-shop"}
        with outbox.http(provider, target=target) as relay:
            outbox.wait(dead=1)
        log = relay.log()
    call, = provider.calls
    assert call.headers["authorization"] == "Bearer s3cr3t-token" and call.headers["x-api-key"] == "k3y-of-shop"
    error = outbox.row(row_id)[2]
    assert error.startswith("HTTP 400: bad request") and "***" in error
    for secret in ("s3cr3t-token", "h1dd3n", "k3y-of-shop"):
        assert secret not in error and secret not in log


def test_a_row_that_cannot_be_a_request_is_dead_and_says_why(outbox):
    bad = ['{"X-A": "one\\ntwo"}', '{"X A": "1"}', '{"Content-Length": "3"}', '{"X-A": [1]}', '["X-A"]']
    ids = [outbox.add(n, headers=headers)[0] for n, headers in enumerate(bad, 1)]
    with Provider() as provider, outbox.http(provider):
        outbox.wait(dead=len(bad))
    assert not provider.calls
    assert [outbox.row(row_id)[2] for row_id in ids] == [
        "its header X-A has a control character", "its header X A is no name of a header",
        "its header Content-Length is effectd's own", "its header X-A is neither text, number, true nor false",
        "its headers are no JSON object"]


def test_a_key_of_any_text_is_one_header_line_and_stays_itself(outbox):
    for n, key in enumerate(["a b", "a%20b", "zwei\nZeilen\r\nX-Evil: 1", "Bestellung/ü/1", "x" * 500], 1):
        outbox.db.execute("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) "
                          "VALUES ('test', 'call', %s, %s::jsonb)", (key, json.dumps({"n": n})))
    with Provider() as provider, outbox.http(provider):
        outbox.wait(sent=5)
    assert {call.body["n"]: call.key for call in provider.calls} == {
        1: "a%20b", 2: "a%2520b", 3: "zwei%0AZeilen%0D%0AX-Evil:%201", 4: "Bestellung/%C3%BC/1", 5: "x" * 500}
    assert not any("x-evil" in call.headers for call in provider.calls)


@pytest.mark.parametrize("body", ["payload", "envelope"])
def test_numbers_arrive_to_the_digit(outbox, body):
    payload = '{"id": 9223372036854775807, "near": 9007199254740993, "price": 12345678901234567890.10}'
    outbox.db.execute("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) "
                      "VALUES ('test', 'call', 'k', %s::jsonb)", (payload,))
    with Provider() as provider, outbox.http(provider, target={"body": body}):
        outbox.wait(sent=1)
    got = provider.calls[0].body
    got = got["payload"] if body == "envelope" else got
    assert got == json.loads(payload, parse_float=Decimal) and str(got["price"]) == "12345678901234567890.10"


def test_an_envelope_says_where_the_row_comes_from(outbox):
    row_id, = outbox.add(7)
    with Provider() as provider, outbox.http(provider, target={"body": "envelope"}):
        outbox.wait(sent=1)
    body = provider.calls[0].body
    assert body.pop("created_at")
    assert body == {"id": row_id, "kind": "call", "consumer": "test", "message_key": "7", "idempotency_key": "key/7",
                    "payload": {"n": 7}}


def test_a_stop_waits_for_calls_and_gives_the_rest_back(outbox):
    outbox.add(1, 40)
    go_on = threading.Event()
    with Provider(lambda call: OK if go_on.wait(20) else Answer(500)) as provider:
        relay = outbox.http(provider, relay={"in_flight": 4, "lease": "1h"}).start()
        wait_until(lambda: len(provider.calls) == 4, 15, "four calls")
        relay.signal(15)  # SIGTERM
        wait_until(lambda: outbox.db.value("SELECT count(*) FROM effectd.outbox WHERE leased_until IS NULL "
                                           "AND attempts = 0") == 36, 15, "the rows that were not called to be free")
        go_on.set()
        assert relay.wait_exit() == 0
    assert outbox.counts() == {"sent": 4, "pending": 36}, outbox.db.rows(
        "SELECT DISTINCT status, attempts, last_error, leased_until FROM effectd.outbox")


def test_a_stop_does_not_wait_for_ever(outbox):
    outbox.add(1)
    end = threading.Event()
    with Provider(lambda call: OK if end.wait(60) else OK) as provider:
        relay = outbox.http(provider, target={"timeout": "1min"}, relay={"lease": "1h"},
                            effectd={"drain_timeout": "2s"}).start()
        wait_until(lambda: provider.calls, 15, "the call")
        relay.stop(timeout=20)
        end.set()
    status, attempts, error = outbox.row(outbox.db.value("SELECT id FROM effectd.outbox"))
    assert (status, attempts, error) == ("pending", 1, "effectd stopped before the answer came")
    assert outbox.db.value("SELECT leased_until IS NULL FROM effectd.outbox")


def test_rows_of_a_restored_database_are_sent(outbox, empty_db, daemon, runtime_dir):
    """Nothing hangs on what a dump does not carry: transaction ids, statistics, who listened."""
    outbox.add(1, 10)
    dump = subprocess.run(["pg_dump", "--schema=effectd", outbox.db.conninfo], check=True, capture_output=True).stdout
    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", empty_db.conninfo], input=dump, check=True,
                   capture_output=True)
    restored = Outbox(empty_db, daemon, runtime_dir)
    restored.add(11)
    with Provider() as provider, restored.http(provider):
        restored.wait(sent=11)
    assert sorted(provider.keys()) == sorted(keys(1, 11))


def test_only_sent_rows_go_when_they_are_old(outbox):
    outbox.add(1, 5)
    outbox.db.execute("UPDATE effectd.outbox SET created_at = now() - interval '1 year', "
                      "sent_at = now() - interval '1 year', "
                      "status = CASE id % 2 WHEN 0 THEN 'dead' ELSE 'sent' END")
    outbox.add(6, 7, kind="nobody")
    outbox.add(8)
    outbox.db.execute("UPDATE effectd.outbox SET next_attempt_at = now() + interval '1 year' "
                      "WHERE status = 'pending'")
    with Provider() as provider, outbox.http(provider, relay={"sent_retention": "30d"}):
        outbox.wait(dead=2, pending=3)
    assert not provider.calls


def test_calls_a_second_are_limited(outbox):
    outbox.add(1, 60)
    with Provider() as provider, outbox.http(provider, target={"max_per_second": 20}):
        outbox.wait(sent=60)
    assert provider.calls[-1].at - provider.calls[0].at >= 2.5  # 60 calls, two of them at once


def test_metrics_and_readiness_show_what_waits_and_what_is_dead(outbox):
    outbox.add(1, 3)
    outbox.add(4, 5, kind="other")
    outbox.db.execute("UPDATE effectd.outbox SET next_attempt_at = now() + interval '1 h' WHERE id IN "
                      "(SELECT max(id) FROM effectd.outbox)")
    monitor = Monitor()
    with Provider(lambda call: Answer(404 if call.body["n"] == 2 else 200)) as provider, \
            outbox.http(provider, kinds=("call", "other"), effectd={"http_listen": monitor.listen}):
        outbox.wait(sent=3, dead=1, pending=1)
        wait_until(lambda: monitor.metrics().value("effectd_outbox_dead", relay="main", kind="call") == 1, 15,
                   "the dead row to be counted")
        metrics, ready = monitor.metrics(), monitor.get("/readyz")
    of = {kind: {"relay": "main", "kind": kind} for kind in ("call", "other")}
    oldest = outbox.db.value("SELECT extract(epoch FROM created_at)::int8 FROM effectd.outbox WHERE status = 'pending'")
    for kind, pending, oldest_s in (("call", 0, 0), ("other", 1, oldest)):
        assert metrics.value("effectd_outbox_pending", **of[kind]) == pending
        assert metrics.value("effectd_outbox_oldest_timestamp_seconds", **of[kind]) == oldest_s
    calls = {(kind, outcome): metrics.value("effectd_outbox_calls_total", outcome=outcome, **of[kind])
             for kind in of for outcome in ("sent", "retried", "dead")}
    assert {what: n for what, n in calls.items() if n} == {("call", "sent"): 2, ("call", "dead"): 1, ("other", "sent"): 1}
    assert metrics.value("effectd_outbox_call_seconds_count", **of["call"]) == 3
    assert metrics.value("effectd_outbox_under_way", relay="main", target="there") == 0
    assert ready.status == 200 and "1 dead outbox rows of kind call" in ready.body


def test_no_statement_of_a_relay_scans_or_sorts_the_outbox(outbox, pg):
    outbox.add(1, 2000, prefix="old")
    outbox.db.execute("UPDATE effectd.outbox SET status = 'sent', sent_at = now()")
    outbox.add(1, 50)
    outbox.add(1, 20, prefix="one", ordering_key="one")
    explain = ("session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0")
    conninfo = f"{outbox.db.conninfo} options='{' '.join(f'-c {setting}' for setting in explain)}'"
    before = os.path.getsize(pg.log)
    with Provider() as provider:
        relay = outbox.http(provider, relay={"sent_retention": "7d"}, **{"database:main": {"conninfo": conninfo}})
        with relay:
            outbox.wait(sent=2070)
    with open(pg.log, encoding="utf-8", errors="replace") as log:
        log.seek(before)
        plans = re.findall(r"Query Text: (.*?)(?=\n[^\t])", log.read(), re.S)
    of_outbox = [plan for plan in plans if "effectd.outbox" in plan.partition("\n")[0]]
    for word in ("WITH due AS", "SET status = m.status", "SET next_attempt_at = now()", "count(*)", "DELETE FROM"):
        assert any(word in plan for plan in of_outbox), word
    assert any("Index Scan using outbox_due on outbox" in plan for plan in of_outbox if "WITH due AS" in plan)
    bad = [plan for plan in of_outbox if re.search(r"Seq Scan|Sort  |Hash Join|Merge Join", plan)]
    assert not bad, bad[0]
