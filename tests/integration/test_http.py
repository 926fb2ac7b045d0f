"""What the daemon shows of itself: metrics that equal what a checker counts, health, readiness with its reasons."""
import os
import re
import signal
import socket
import time

import pytest

from lib import build, config, promtool
from lib.checker import Checker
from lib.monitor import OPENMETRICS, Metrics, Monitor
from lib.wait import wait_until
from stage import CONSUMER, QUEUE, run, script

EFFECTS = "SELECT key, count(*) FROM effects GROUP BY 1"
OUTCOMES = {"applied", "duplicate", "stale", "ignored", "retried", "parked"}
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def watched(stage, daemon, monitor):
    """A factory of daemons that listen on monitor: watched(effectd={...}, fault=..., env=..., **settings)."""
    stage.declare()

    def make(effectd=None, fault=None, env=None, name="effectd", **settings):
        sections = stage.sections(**settings)
        sections["effectd"].update({"http_listen": monitor.listen, **(effectd or {})})
        return daemon(sections, name=name, env={**(env or {}), **({"EFFECTD_FAULT": fault} if fault else {})})

    return make


def wait_settled(monitor, count):
    """Wait until so many deliveries have an outcome, and return the metrics."""
    wait_until(lambda: monitor.metrics().sum("effectd_outcomes_total") == count, 30, f"{count} outcomes",
               explain=lambda: monitor.metrics().text)
    return monitor.metrics()


def test_metrics_equal_what_the_checker_counts(stage, watched, monitor):
    names = [f"k{n:03}" for n in range(300)]
    now = int(time.time())
    with watched(workers=2) as daemon:
        stage.ready(daemon, workers=2)
        stage.send(*[script(name) for name in names], timestamp=now - 120)
        stage.send(*[script(name) for name in names[::10]], timestamp=now - 120)
        stage.send(*[script(f"p{n}", verdict="reject") for n in range(7)])
        stage.send(*[script(f"i{n}", verdict="ignore") for n in range(4)])
        stage.send(*[script(f"j{n}", key_verdict="ignore") for n in range(3)])
        stage.vhost.wait_empty(QUEUE)
        found = wait_settled(monitor, len(stage.publisher.log))
    log = [message for message in stage.publisher.log if not message.key.startswith(("i", "j"))]
    ledger = Checker(log, stage.vhost, stage.db, CONSUMER, QUEUE, EFFECTS).check()

    def outcome(name):
        return found.value("effectd_outcomes_total", consumer=CONSUMER, outcome=name)

    assert {dict(labels)["outcome"] for name, labels in found.samples if name == "effectd_outcomes_total"} == OUTCOMES
    assert outcome("applied") == ledger["applied"] == 300
    assert outcome("parked") == ledger["parked"] == 7
    assert outcome("duplicate") == 30
    assert outcome("ignored") == 7
    assert found.sum("effectd_deliveries_total", consumer=CONSUMER) == len(stage.publisher.log)
    assert found.value("effectd_deliveries_total", consumer=CONSUMER, redelivered="true") == 0
    assert found.value("effectd_inflight", consumer=CONSUMER) == 0
    # What was applied is two minutes old; copies have no age.
    assert found.value("effectd_event_age_seconds_count", consumer=CONSUMER) == 300
    assert found.value("effectd_event_age_seconds_bucket", consumer=CONSUMER, le="30.0") == 0
    assert found.value("effectd_event_age_seconds_bucket", consumer=CONSUMER, le="300.0") == 300
    assert 120 * 300 <= found.value("effectd_event_age_seconds_sum", consumer=CONSUMER) < 180 * 300


def test_deliveries_that_come_again_are_told_from_first_ones(stage, watched, monitor):
    with watched(name="killed") as daemon:
        stage.ready(daemon)
        with stage.gate() as open_gate:
            stage.send(script("gate"), *[script(f"k{n}") for n in range(20)])
            stage.wait_blocked()
            stage.wait_delivered(21)
            daemon.kill()
            open_gate()
    with watched(name="again"):
        monitor.wait_reasons()
        found = wait_settled(monitor, 21)
    assert found.value("effectd_deliveries_total", consumer=CONSUMER, redelivered="true") == 21
    assert found.value("effectd_deliveries_total", consumer=CONSUMER, redelivered="false") == 0


def test_distributions_agree_with_each_other(stage, watched, monitor):
    with watched(workers=1):
        monitor.wait_reasons()
        stage.send(*[script(f"k{n}") for n in range(200)])
        stage.send(script("slow", sleep_ms=1200))
        found = wait_settled(monitor, 201)
    batches = found.value("effectd_batch_size_count", consumer=CONSUMER)
    assert found.value("effectd_batch_size_sum", consumer=CONSUMER) == 201
    assert found.value("effectd_batch_size_bucket", consumer=CONSUMER, le="+Inf") == batches > 0
    assert found.value("effectd_transaction_seconds_count", consumer=CONSUMER) == batches
    assert found.value("effectd_claim_wait_seconds_count", consumer=CONSUMER) == batches
    assert found.value("effectd_plugin_seconds_count", consumer=CONSUMER) == batches
    for name in ("plugin", "transaction"):
        assert found.value(f"effectd_{name}_seconds_bucket", consumer=CONSUMER, le="1.0") == batches - 1
        assert found.value(f"effectd_{name}_seconds_bucket", consumer=CONSUMER, le="2.5") == batches
    assert found.value("effectd_claim_wait_seconds_bucket", consumer=CONSUMER, le="1.0") == batches


def test_a_slow_plugin_is_named(stage, watched, monitor):
    with watched() as daemon:
        stage.send(script("slow", sleep_ms=1200))
        daemon.wait_log(r"event=plugin_slow consumer=work worker=1 ms=1[23]\d\d messages=1\b")


def test_a_key_that_another_transaction_holds_is_seen_as_claim_wait(stage, watched, monitor):
    with watched(), stage.gate() as open_gate:
        monitor.wait_reasons()
        stage.send(script("gate"))
        stage.wait_blocked()
        wait_until(lambda: monitor.metrics().value("effectd_inflight", consumer=CONSUMER) == 1, 5, "one in flight")
        time.sleep(0.3)  # what is measured is time
        open_gate()
        found = wait_settled(monitor, 1)
    assert found.value("effectd_claim_wait_seconds_sum", consumer=CONSUMER) >= 0.3
    assert found.value("effectd_plugin_seconds_sum", consumer=CONSUMER) < 0.3


def test_both_formats_follow_their_rules(stage, watched, monitor):
    with watched():
        monitor.wait_reasons()
        text, openmetrics = monitor.get("/metrics"), monitor.get("/metrics", Accept=OPENMETRICS)
    assert text.headers["Content-Type"] == TEXT
    assert openmetrics.headers["Content-Type"].startswith(OPENMETRICS)
    assert openmetrics.body.endswith("\n# EOF\n") and "# EOF" not in text.body
    old, new = Metrics(text.body), Metrics(openmetrics.body)
    assert old.samples.keys() == new.samples.keys()
    assert old.types["effectd_outcomes_total"] == new.types["effectd_outcomes"] == "counter"
    assert (old.types["effectd_build_info"], new.types["effectd_build"]) == ("gauge", "info")
    assert old.types["effectd_batch_size"] == new.types["effectd_batch_size"] == "histogram"
    for family, kind in new.types.items():
        assert family.startswith("effectd_")
        assert not family.endswith(("_total", "_info", "_bucket", "_count", "_sum")), family
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        assert any(name.startswith(family + suffix) for name, _ in new.samples)
        assert f"# HELP {family} " in openmetrics.body


def test_promtool_accepts_the_metrics(watched, monitor):
    with watched():
        monitor.wait_reasons()
        text = monitor.get("/metrics").body
    promtool.check("check", "metrics", text=text)


def test_only_get_and_head_of_known_paths(watched, monitor):
    with watched():
        monitor.wait_reasons()
        for path in ("/metrics", "/healthz", "/readyz"):
            head = monitor.get(path, method="HEAD")
            assert (head.status, head.body) == (200, "") and int(head.headers["Content-Length"]) > 0
            refused = monitor.get(path, method="POST", body="x" * 100000)
            assert refused.status == 405 and refused.headers["Allow"] == "GET, HEAD"
            assert monitor.get(path + "?x=1").status == 200
        assert monitor.get("/").status == monitor.get("/metrics/").status == 404
        assert "/readyz" in monitor.get("/etc/passwd").body
        assert monitor.get("/healthz", body="a body that nobody asked for").body == "live\n"


@pytest.mark.slow
def test_clients_that_say_nothing_keep_nobody_out_for_long(watched, monitor):
    with watched() as daemon:
        monitor.wait_reasons()
        silent = [socket.create_connection(("127.0.0.1", monitor.port)) for _ in range(60)]
        try:
            wait_until(lambda: _answers(monitor), 40, "an answer in spite of 60 silent clients", interval=0.5)
            assert daemon.alive()
        finally:
            for one in silent:
                one.close()
        wait_until(lambda: _answers(monitor), 5, "an answer when they are gone")


def _answers(monitor):
    try:
        return monitor.get("/healthz", timeout=2).status == 200
    except OSError:
        return False


def test_ready_says_database_while_postgresql_is_away_and_recovers(stage, watched, monitor, pg):
    with watched(workers=2) as daemon:
        stage.ready(daemon, workers=2)
        monitor.wait_reasons()
        before = monitor.metrics()
        assert before.value("effectd_connected", peer="database:main") == 1
        assert before.value("effectd_reconnects_total", peer="database:main") == 0
        assert before.value("effectd_workers", consumer=CONSUMER, state="running") == 2
        pg.stop("fast")
        try:
            monitor.wait_reasons("database")
            assert monitor.live()
            away = monitor.metrics()
            assert away.value("effectd_connected", peer="database:main") == 0
            assert away.value("effectd_connected", peer="broker:main") == 1
            assert away.value("effectd_workers", consumer=CONSUMER, state="connecting") == 2
        finally:
            pg.start()
        monitor.wait_reasons()
        after = monitor.metrics()
        assert after.value("effectd_connected", peer="database:main") == 1
        assert after.value("effectd_reconnects_total", peer="database:main") == 3  # 2 workers, and the one for retries
        assert after.value("effectd_reconnects_total", peer="broker:main") == 0


@pytest.mark.slow
def test_ready_says_broker_while_rabbitmq_is_away_and_recovers(stage, watched, monitor, rabbit):
    with watched():
        monitor.wait_reasons()
        rabbit.stop()
        try:
            monitor.wait_reasons("broker")
            assert monitor.live()
            assert monitor.metrics().value("effectd_connected", peer="broker:main") == 0
        finally:
            rabbit.start()
        monitor.wait_reasons()
        after = monitor.metrics()
        assert after.value("effectd_connected", peer="broker:main") == 1
        assert after.value("effectd_reconnects_total", peer="broker:main") == 1
        assert after.value("effectd_reconnects_total", peer="database:main") == 0


def test_the_daemon_answers_before_its_servers_are_there(stage, watched, monitor, pg):
    pg.stop("fast")
    try:
        with watched():
            monitor.wait_reasons("database")
            assert monitor.live()
    finally:
        pg.start()


def test_ready_says_holding_while_postgresql_refuses_the_work(stage, watched, monitor):
    with watched() as daemon:
        monitor.wait_reasons()
        # A statement of its own that always fails for a reason of the environment holds a message back ...
        stage.send(script("k", run("SELECT raise('53100')")))
        monitor.wait_reasons("holding")
        assert monitor.live()
        assert monitor.metrics().value("effectd_workers", consumer=CONSUMER, state="holding") == 1
        # ... until it is mended.
        stage.db.execute("CREATE OR REPLACE FUNCTION raise(code text) RETURNS void LANGUAGE sql AS ''")
        monitor.wait_reasons()
        wait_settled(monitor, 1)
        assert daemon.alive()


def test_ready_says_schema_where_nobody_migrated(stage, daemon, empty_db, vhost, runtime_dir, monitor):
    stage.declare()
    sections = config.base(empty_db, vhost, runtime_dir)
    sections["effectd"]["http_listen"] = monitor.listen
    sections["consumer:work"] = config.consumer("scripted", QUEUE)
    with daemon(sections):
        monitor.wait_reasons("schema")
        assert monitor.live()


def test_a_fault_that_every_worker_finds_closes_their_consumer_once(stage, watched, monitor):
    """The wait before the next try grows with each failed try, not with each worker."""
    stage.db.execute("ALTER TABLE effectd.schema_version RENAME TO elsewhere")
    with watched(workers=4) as daemon:
        daemon.wait_log("event=consumer_closed")
        wait_until(lambda: monitor.metrics().value("effectd_workers", consumer=CONSUMER, state="closed") == 4, 15,
                   "all workers to stand still", explain=lambda: monitor.metrics().text)
    (line,) = [line for line in daemon.log().splitlines() if "event=consumer_closed" in line]
    assert "next_try_s=30" in line


def test_ready_says_broken_and_closed_for_the_consumer_concerned(stage, daemon, monitor):
    stage.declare("good", "broken", "closed")
    sections = stage.sections(consumers={"good": "good", "broken": "broken", "closed": "closed"})
    sections["effectd"]["http_listen"] = monitor.listen
    with daemon(sections):
        monitor.wait_reasons()
        stage.send(script("k", verdict="broken"), queue="broken")
        stage.send(script("k", ["run", "SELECT nothing FROM nowhere"]), queue="closed")
        monitor.wait_reasons("broken", "closed")
        body = monitor.get("/readyz").body
        assert "consumer good" not in body and "broken: consumer broken" in body and "closed: consumer closed" in body
        found = monitor.metrics()
        assert found.value("effectd_workers", consumer="good", state="running") == 1
        assert found.value("effectd_workers", consumer="broken", state="broken") == 1
        assert found.value("effectd_workers", consumer="closed", state="closed") == 1
        assert monitor.live()


def test_ready_says_draining_until_the_last_delivery_is_settled(stage, watched, monitor):
    daemon = watched().start()
    monitor.wait_reasons()
    stage.send(script("slow", sleep_ms=3000))
    stage.wait_delivered(1)
    daemon.signal(signal.SIGTERM)
    monitor.wait_reasons("draining", timeout=3)
    assert monitor.live()
    assert monitor.metrics().value("effectd_workers", consumer=CONSUMER, state="draining") in (0, 1)
    assert daemon.wait_exit() == 0
    stage.assert_once({"slow"})


def test_parked_messages_are_counted_in_the_database(stage, watched, monitor):
    stage.db.execute("INSERT INTO effectd.parked_messages (consumer, fingerprint, body, status, reason, next_attempt_at)"
                     " SELECT CASE WHEN n < 6 THEN 'work' ELSE 'other' END, sha256(n::text::bytea), '',"
                     " CASE WHEN n < 3 THEN 'retry' ELSE 'dead' END, 'rejected', now() + interval '1 day'"
                     " FROM generate_series(1, 9) AS n")
    with watched():
        monitor.wait_reasons()
        found = wait_until(lambda: [s for s in monitor.metrics().samples.items() if s[0][0].endswith("parked_messages")],
                           15, "parked messages to be counted")
    assert {dict(labels)["status"]: value for (_, labels), value in found} == {"retry": 2, "dead": 3}


def test_metrics_name_plugins_and_build(stage, watched, monitor):
    with watched():
        monitor.wait_reasons()
        found = monitor.metrics()
    (plugin,) = [dict(labels) for name, labels in found.samples if name == "effectd_plugin_info"]
    assert plugin["consumer"] == CONSUMER and plugin["version"] == "1.0" and plugin["plugin"].endswith("scripted.so")
    (build,) = [dict(labels) for name, labels in found.samples if name == "effectd_build_info"]
    assert build.keys() == {"version", "abi"}


def test_every_metric_and_every_reason_is_documented(stage, watched, monitor):
    with open(os.path.join(build.ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        tables = re.findall(r"^\| `(\w+)` \|", file.read(), re.MULTILINE)
    with watched(database={"retention_interval": "1s"}):
        monitor.wait_reasons()
        stage.send(script("k"))
        late = {"effectd_parked_messages", "effectd_oldest_claim_timestamp_seconds"}
        wait_until(lambda: late <= monitor.metrics().types.keys(), 15, "the database to be asked")
        families = set(monitor.metrics().types)
    assert families == {name for name in tables if name.startswith("effectd_")}
    with open(os.path.join(build.ROOT, "core", "run", "health.c"), encoding="utf-8") as file:
        words = set(re.findall(r'^\t\{ "(\w+)", ', file.read(), re.MULTILINE)) | {"draining"}
    assert len(words) > 5 and words <= set(tables)


def test_a_port_that_is_taken_is_said_at_start(watched, monitor):
    with watched(name="first"):
        monitor.wait_reasons()
        second = watched(name="second").start()
        assert second.wait_exit() == 69
        assert monitor.listen in second.log_tail() and "http_listen" in second.log_tail()
        assert monitor.live()


def test_an_address_that_is_not_here_is_a_fault_of_the_configuration(watched):
    daemon = watched(effectd={"http_listen": "192.0.2.1:9464"}).start()
    assert daemon.wait_exit() == 78
    assert "192.0.2.1:9464" in daemon.log_tail()


def test_an_empty_address_switches_it_off(stage, watched):
    with watched(effectd={"http_listen": ""}) as daemon:
        stage.ready(daemon)
        assert "http_listening" not in daemon.log()


def test_a_restart_needs_no_pause_for_its_port(watched, monitor):
    daemon = watched().start()
    for _ in range(3):
        monitor.wait_reasons()
        with socket.create_connection(("127.0.0.1", monitor.port)):
            daemon.restart()
    monitor.wait_reasons()
    daemon.stop()
