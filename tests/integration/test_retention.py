"""Claims that are older than their consumer's window go, those within it stay, whoever runs the pass."""
import itertools
import json
import os
import re
import subprocess
from datetime import timedelta

import pytest

from lib import build
from lib.monitor import Monitor
from lib.wait import wait_until
from stage import CONSUMER, QUEUE, counted, outcomes, script

DAY = 24 * 60 * 60
EVERY_SECOND = {"retention_interval": "1s", "retention_pause": "0"}


def age(db, count, days, consumer=CONSUMER, prefix="old"):
    """Make claims that are that many days old."""
    db.execute("INSERT INTO effectd.processed_messages (consumer, message_key, processed_at) "
               "SELECT %s, %s || n, now() - %s * interval '24 hours' FROM generate_series(1, %s) AS n",
               (consumer, prefix, days, count))


def register(db, window_days, consumer=CONSUMER, claims="table"):
    """A consumer as it registered itself when it last ran."""
    db.execute('INSERT INTO effectd.consumers (consumer, claims, "window") VALUES (%s, %s, %s * interval \'24 hours\')',
               (consumer, claims, window_days))


def registry(db):
    return {name: (claims, seconds) for name, claims, seconds in db.rows(
        'SELECT consumer, claims, extract(epoch FROM "window")::bigint FROM effectd.consumers')}


@pytest.fixture
def pass_now(stage, daemon):
    """Run `effectd retention --once` as a process whose configuration need not know the consumers; its report."""
    def run(*args, **database):
        sections = {name: keys for name, keys in stage.sections(database=database).items()
                    if not name.startswith("consumer:")}
        done = daemon(sections, name="retention").command(
            "retention", "--json", *(args or ["--once"]))
        run.rc, run.stderr = done.rc, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    return run


def deleted(report):
    return {row["consumer"]: row["deleted"] for row in report["consumers"]}


# --- the registry ---


def test_a_start_registers_consumer_and_window(stage):
    stage.declare()
    with stage.daemon(retention="7d") as daemon:
        stage.ready(daemon)
        assert registry(stage.db) == {CONSUMER: ("table", 7 * DAY)}
    with stage.daemon(name="second", retention="never") as daemon:
        stage.ready(daemon)
        assert registry(stage.db) == {CONSUMER: ("table", None)}


def test_a_window_that_shrinks_is_announced(stage):
    stage.declare()
    register(stage.db, 30)
    with stage.daemon(retention="7d") as daemon:
        daemon.wait_log(rf"event=window_shrinks consumer={CONSUMER} .*from_s={30 * DAY} to_s={7 * DAY}")
    with stage.daemon(name="second", retention="8d") as daemon:
        stage.ready(daemon)
    assert "window_shrinks" not in daemon.log()


def test_a_new_consumer_beside_one_that_nobody_hosts_may_be_a_renamed_one(stage):
    stage.declare()
    register(stage.db, 30, consumer="former")
    with stage.daemon() as daemon:
        daemon.wait_log(rf"event=consumer_is_new consumer={CONSUMER} .*idle_consumers=former")


def test_a_consumer_whose_claims_are_kept_otherwise_is_refused_with_what_to_do(stage):
    stage.declare()
    register(stage.db, 30, claims="daily")
    stage.send(script("k"))
    with stage.daemon(claims="table") as daemon:
        daemon.wait_log(r"event=consumer_closed .*set claims = daily")
    assert stage.vhost.depth(QUEUE) == (1, 0)
    stage.db.execute("UPDATE effectd.consumers SET claims = 'table'")
    with stage.daemon(name="second", claims="daily") as daemon:
        daemon.wait_log(rf"event=consumer_closed .*effectd migrate claims {CONSUMER} daily")
    assert stage.vhost.depth(QUEUE) == (1, 0)
    assert not stage.effects()


@pytest.mark.parametrize("settings, key", [
    ({"retention": "39min"}, "hold_max"),
    ({"retention": "3d", "max_attempts": 1000, "retry_max": "1h"}, "max_attempts"),
    ({"retention": "1d", "declare": "yes", "queue_arg__x-message-ttl": 2 * DAY * 1000 + 1}, "queue_arg.x-message-ttl"),
    ({"retention": "30d", "declare": "yes", "queue_arg__x-message-ttl": DAY * 1000}, None),
    ({"retention": "never", "max_attempts": 1000, "retry_max": "30d"}, None),
])
def test_a_window_shorter_than_a_copy_may_take_is_warned_of(stage, daemon, settings, key):
    stage.declare()
    idle = daemon(stage.sections(**settings))
    report = json.loads(idle.command("check", "--json").stdout)
    assert [warning["key"] for warning in report["warnings"]] == ([key] if key else [])
    assert report["problem_count"] == 0
    assert ("warning: " in idle.command("check").stderr) == bool(key)
    if key and "declare" not in settings:
        with idle:
            idle.wait_log(rf"event=window_is_short consumer={CONSUMER} .*key={key}\b")


def test_check_says_what_a_start_would_do_to_the_row(stage, daemon):
    stage.declare()
    check = lambda **settings: daemon(stage.sections(**settings), name="check").command("check", "--live", "--json")
    register(stage.db, 30, consumer="former")
    warning, = json.loads(check().stdout)["warnings"]
    assert "nobody hosts former" in warning["text"]
    register(stage.db, 30)
    assert json.loads(check(retention="31d").stdout)["warnings"] == []
    warning, = json.loads(check(retention="29d").stdout)["warnings"]
    assert warning["key"] == "retention"
    done = check(claims="daily", retention="30d")
    assert done.rc == 78 and "effectd migrate claims" in json.loads(done.stdout)["problems"][0]["text"]
    assert registry(stage.db)[CONSUMER] == ("table", 30 * DAY)


# --- who prunes what ---


def test_a_pass_prunes_every_registered_consumer_by_its_own_window(stage, pass_now):
    for consumer, window in (("a", 10), ("b", 40), ("forever", None)):
        register(stage.db, window, consumer)
        for days in (5, 20, 50):
            age(stage.db, 10, days, consumer, f"{days}-")
    age(stage.db, 10, 1000, "unknown")
    assert deleted(pass_now()) == {"a": 20, "b": 10, "forever": 0}
    left = stage.db.rows("SELECT consumer, count(*) FROM effectd.processed_messages GROUP BY 1 ORDER BY 1")
    assert left == [("a", 10), ("b", 20), ("forever", 30), ("unknown", 10)]


def test_two_processes_with_other_windows_delete_nobodys_claims_early(stage):
    """Each hosts one of the consumers and knows nothing of the other; both run retention."""
    stage.declare("a", "b")
    for consumer in ("a", "b"):
        age(stage.db, 10, 5, consumer, "5-")
        age(stage.db, 10, 20, consumer, "20-")
    claims = "SELECT consumer, count(*) FROM effectd.processed_messages GROUP BY 1 ORDER BY 1"
    with stage.daemon(name="a", consumers={"a": "a"}, retention="10d", database=EVERY_SECOND) as a, \
            stage.daemon(name="b", consumers={"b": "b"}, retention="40d", database=EVERY_SECOND) as b:
        for daemon in (a, b):
            stage.ready(daemon)
        wait_until(lambda: stage.db.rows(claims) == [("a", 10), ("b", 20)], 20, "a's old claims to go, and only those",
                   explain=lambda: stage.db.rows(claims))
        a.stop()
        age(stage.db, 5, 11, "a", "11-")
        wait_until(lambda: stage.db.rows(claims) == [("a", 10), ("b", 20)], 20,
                   "b's process to prune for a, which nobody hosts", explain=lambda: stage.db.rows(claims))


def test_run_with_chosen_consumers_leaves_retention_to_others(stage, daemon):
    stage.declare()
    age(stage.db, 10, 50)
    sections = stage.sections(retention="30d", database=EVERY_SECOND)
    with daemon(sections, "--consumer", CONSUMER, name="consumer") as consumer:
        stage.ready(consumer)
        with daemon(sections, "--retention", name="retention") as retention:
            retention.wait_log(r"event=claims_deleted database=main rows=10\b")
            assert "event=consuming" not in retention.log()
        assert "claims_deleted" not in consumer.log()


def test_a_claim_whose_key_is_parked_stays(stage, pass_now):
    register(stage.db, 30)
    age(stage.db, 3, 50, prefix="k")
    stage.db.execute("INSERT INTO effectd.parked_messages (consumer, message_key, fingerprint, body, status, reason) "
                     "VALUES (%s, 'k2', sha256('x'), 'x', 'dead', 'sql'), ('other', 'k3', sha256('x'), 'x', 'dead', "
                     "'sql')", (CONSUMER,))
    assert deleted(pass_now()) == {CONSUMER: 2}
    assert stage.claims() == {"k2"}


def test_a_claim_within_the_window_still_makes_a_duplicate_and_one_beyond_it_does_not(stage):
    stage.declare()
    age(stage.db, 1, 50, prefix="beyond")
    age(stage.db, 1, 29, prefix="within")
    with stage.daemon(retention="30d", database=EVERY_SECOND) as daemon:
        daemon.wait_log(r"event=claims_deleted .*rows=1\b")
        stage.ready(daemon)
        stage.send(script("beyond1"), script("within1"))
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon)) == {"applied": 1, "duplicate": 1}
    assert set(stage.effects()) == {"beyond1"}


# --- batches ---


@pytest.mark.parametrize("pause_ms, takes_ms, apart_ms", [(60, 0, 60), (0, 20, 3 * 20)])
def test_batches_go_on_with_a_pause_after_each_until_nothing_is_left(stage, pass_now, pause_ms, takes_ms, apart_ms):
    """As long as told, and at least twice as long as the batch took."""
    register(stage.db, 30)
    age(stage.db, 1050, 50)
    age(stage.db, 10, 5, prefix="new")
    stage.db.execute("CREATE TABLE deletes (rows bigint, at timestamptz); CREATE FUNCTION note() RETURNS trigger "
                     f"LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep({takes_ms / 1000}); INSERT INTO deletes SELECT "
                     "count(*), clock_timestamp() FROM gone; RETURN NULL; END$$; CREATE TRIGGER note AFTER DELETE ON effectd.processed_messages "
                     "REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note()")
    assert deleted(pass_now(retention_batch=200, retention_pause=f"{pause_ms}ms")) == {CONSUMER: 1050}
    sizes, times = zip(*stage.db.rows("SELECT rows, at FROM deletes ORDER BY at"))
    assert list(sizes) == [200] * 5 + [50]
    assert all(later - at >= timedelta(milliseconds=apart_ms) for at, later in itertools.pairwise(times))
    assert len(stage.claims()) == 10


def test_a_statement_timeout_makes_batches_smaller_and_loses_no_progress(stage, pass_now):
    """A server on which 1,000 rows take too long and 100 do not."""
    register(stage.db, 30)
    age(stage.db, 1000, 50)
    stage.db.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                     "$$BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END$$; "
                     "CREATE TRIGGER slow BEFORE DELETE ON effectd.processed_messages "
                     "FOR EACH ROW EXECUTE FUNCTION slow()")
    assert deleted(pass_now(retention_batch=1000, statement_timeout="900ms", lock_timeout="500ms")) == {CONSUMER: 1000}
    assert "retention_batch_halved" in pass_now.stderr
    assert not stage.claims()


def test_one_runner_for_a_consumer_and_another_takes_over_when_it_dies(stage, pass_now):
    register(stage.db, 30)
    age(stage.db, 10, 50)
    runner = stage.db.connect()
    runner.execute("SELECT pg_advisory_lock(hashtextextended('effectd retention ' || %s, 0))", (CONSUMER,))
    report, = pass_now()["consumers"]
    assert (report["busy"], report["deleted"]) == (True, 0)
    stage.db.execute("SELECT pg_terminate_backend(%s)", (runner.info.backend_pid,))
    wait_until(lambda: deleted(pass_now()) == {CONSUMER: 10}, 10, "the next one to prune")


def test_readers_and_other_claims_do_not_wait_for_a_batch_nor_it_for_them(stage, pass_now):
    """A reader that began before sees all; a claim of a key that goes waits for the batch, one of another does not."""
    stage.declare()
    register(stage.db, 30)
    age(stage.db, 10, 50)
    with stage.daemon(retention="30d") as daemon, stage.db.connect() as reader, stage.db.connect() as deleter:
        stage.ready(daemon)
        wait_until(lambda: not stage.claims(), 10, "the first pass to be over")
        age(stage.db, 10, 50)
        reader.autocommit = deleter.autocommit = False
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        assert len(reader.execute("SELECT FROM effectd.processed_messages").fetchall()) == 10
        deleter.execute("DELETE FROM effectd.processed_messages WHERE message_key = 'old1'")
        assert deleted(pass_now()) == {CONSUMER: 9}  # all but the row that somebody has locked, without waiting
        stage.send(script("other"))
        stage.vhost.wait_empty(QUEUE)
        stage.send(script("old1"))
        stage.wait_blocked()
        deleter.commit()
        stage.vhost.wait_empty(QUEUE)
        assert len(reader.execute("SELECT FROM effectd.processed_messages").fetchall()) == 10
        reader.rollback()
    assert set(stage.effects()) == {"other", "old1"}


def test_age_counts_not_the_place_in_the_table(stage, pass_now):
    """Pages that were freed are filled again: a young claim may lie before an old one."""
    register(stage.db, 30)
    age(stage.db, 5000, 50, prefix="first")
    stage.db.execute("DELETE FROM effectd.processed_messages")
    stage.db.execute("VACUUM effectd.processed_messages")
    for n in range(10):
        age(stage.db, 100, 5, prefix=f"young{n}-")
        age(stage.db, 100, 50, prefix=f"old{n}-")
    assert deleted(pass_now(retention_batch=300)) == {CONSUMER: 1000}
    assert all(key.startswith("young") for key in stage.claims())


def test_the_space_of_old_claims_is_used_again(stage, pass_now):
    """Window after window comes and goes: table and indexes stop growing."""
    register(stage.db, 30)
    sizes = []
    for number in range(6):
        age(stage.db, 4000, 50, prefix=f"a-key-of-some-length-{number}-")
        age(stage.db, 100, 5, prefix=f"young-{number}-")
        assert deleted(pass_now(retention_batch=2000, retention_pause="0")) == {CONSUMER: 4000}
        stage.db.execute("VACUUM effectd.processed_messages")  # as autovacuum does behind every second batch
        sizes.append(stage.db.rows("SELECT pg_table_size(c), pg_indexes_size(c) "
                                   "FROM to_regclass('effectd.processed_messages') AS c")[0])
    assert all(last < 1.5 * second for last, second in zip(sizes[-1], sizes[1])), sizes
    assert stage.db.value("SELECT reloptions @> '{autovacuum_vacuum_threshold=100000, autovacuum_vacuum_scale_factor=0}' "
                          "FROM pg_class WHERE oid = 'effectd.processed_messages'::regclass")


@pytest.mark.parametrize("statistics", ["empty", "fresh", "stale"])
def test_old_claims_are_found_by_their_index_whatever_the_statistics_say(stage, statistics, pass_now):
    db = stage.db
    register(db, 30)
    if statistics == "stale":
        db.execute("ANALYZE effectd.processed_messages")
    age(db, 20000, 50)
    age(db, 20000, 5, prefix="new")
    if statistics == "fresh":
        db.execute("ANALYZE effectd.processed_messages")
    db.execute("ALTER DATABASE {0} SET session_preload_libraries = 'auto_explain'; "
               "ALTER DATABASE {0} SET auto_explain.log_min_duration = 0; "
               "ALTER DATABASE {0} SET auto_explain.log_level = 'warning'".format(db.name))
    with open(db.server.log, encoding="utf-8", errors="replace") as log:
        log.seek(0, 2)
        assert deleted(pass_now(retention_batch=1000, retention_pause="0")) == {CONSUMER: 20000}
        plans = [text for text in re.split(r"^(?=\d{4}-)", log.read(), flags=re.MULTILINE)
                 if "effectd/retention" in text and "Query Text: DELETE" in text]
    assert len(plans) == 21
    for plan in plans:
        assert "Tid Scan on processed_messages" in plan, plan
        assert "Index Scan using processed_messages_age" in plan or \
            "Index Only Scan using processed_messages_age" in plan, plan
        assert "Seq Scan" not in plan and "Sort" not in plan, plan


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_the_window_ends_at_the_same_moment_in_every_time_zone(stage, daemon, zone):
    """Rows around the cutoff, across the end of summer time, server and process in different zones."""
    db = stage.db
    db.execute(f"ALTER DATABASE {db.name} SET timezone = '{zone}'")
    register(db, 45)
    db.execute("INSERT INTO effectd.processed_messages (consumer, message_key, processed_at) SELECT %s, h::text, "
               "now() - interval '1080 hours' + h * interval '1 minute' FROM generate_series(-180, 180) AS h "
               "WHERE h <> 0", (CONSUMER,))
    sections = {name: keys for name, keys in stage.sections().items() if not name.startswith("consumer:")}
    done = daemon(sections).command("retention", "--once", env={"TZ": "Asia/Kathmandu", "PGTZ": "Europe/Berlin"})
    assert done.rc == 0, done.stderr
    assert {int(key) for key in stage.claims()} == set(range(1, 181))


# --- the command ---


def test_dry_run_tells_what_would_go_and_changes_nothing(stage, pass_now):
    register(stage.db, 30)
    age(stage.db, 7, 50)
    age(stage.db, 2, 5, prefix="new")
    for args in (["--dry-run"], ["--once", "--dry-run"]):
        row, = pass_now(*args)["consumers"]
        assert row["would_delete"] == 7
        assert row["window_s"] == 30 * DAY
    assert len(stage.claims()) == 9


def test_on_a_terminal_a_bar_moves_while_claims_go(stage, daemon):
    register(stage.db, 30)
    age(stage.db, 300, 50)
    age(stage.db, 10, 5, prefix="new")
    sections = {name: keys for name, keys in stage.sections(database={"retention_batch": 100}).items()
                if not name.startswith("consumer:")}
    terminal, side = os.openpty()
    done = subprocess.run([build.EFFECTD, "retention", "--once", "-c", daemon(sections).file],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=side, text=True, timeout=60)
    os.close(side)
    with open(terminal, "rb", buffering=0) as screen:
        drawn = screen.read(65536).decode()
    assert done.returncode == 0 and re.search(r"\b300$", done.stdout, re.MULTILINE), done
    assert re.findall(r"\[([# ]{30})\] (\d+) of 300 claims", drawn)[-1] == ("#" * 30, "300"), drawn
    assert re.search(r"\[#+ +\] [12]00 of 300 claims", drawn), drawn


def test_forget_removes_a_consumer_with_all_its_claims(stage, pass_now):
    stage.declare()
    register(stage.db, 30)
    register(stage.db, 30, "other")
    age(stage.db, 250, 5)
    age(stage.db, 5, 5, "other")
    pass_now("--forget", CONSUMER)
    assert pass_now.rc == 2 and "--yes" in pass_now.stderr
    with stage.daemon() as daemon:
        stage.ready(daemon)
        pass_now("--forget", CONSUMER, "--yes")
        assert pass_now.rc == 1 and f"hosted by effectd/{CONSUMER}/0" in pass_now.stderr
        assert len(stage.claims()) == 250
    report = pass_now("--forget", CONSUMER, "--yes", retention_batch=100, retention_pause="0")
    assert report["forgotten"]["deleted"] == 250
    assert registry(stage.db) == {"other": ("table", 30 * DAY)}
    assert not stage.claims() and len(stage.claims("other")) == 5


def test_forget_is_refused_while_messages_are_parked(stage, pass_now):
    register(stage.db, 30)
    age(stage.db, 1, 5)
    stage.db.execute("INSERT INTO effectd.parked_messages (consumer, fingerprint, body, status, reason) "
                     "VALUES (%s, sha256('x'), 'x', 'dead', 'sql')", (CONSUMER,))
    pass_now("--forget", CONSUMER, "--yes")
    assert pass_now.rc == 1 and "1 parked messages" in pass_now.stderr
    assert len(stage.claims()) == 1


# --- seen from outside ---


def test_metrics_tell_what_went_and_whether_retention_works(stage, daemon):
    stage.declare()
    monitor = Monitor()
    age(stage.db, 30, 50)
    age(stage.db, 1, 20, prefix="new")
    sections = stage.sections(retention="30d", database=EVERY_SECOND)
    sections["effectd"]["http_listen"] = monitor.listen
    labels = {"database": "main", "consumer": CONSUMER}
    with daemon(sections) as running:
        stage.ready(running)
        running.wait_log(r"event=claims_deleted")

        def figure(name, **by):
            return monitor.metrics().value(f"effectd_{name}", **by)

        wait_until(lambda: figure("retention_last_success_timestamp_seconds", database="main") > 0, 10, "a success")
        assert figure("retention_deleted_total", **labels) == 30
        assert figure("claim_window_seconds", **labels) == 30 * DAY
        oldest = stage.db.value("SELECT extract(epoch FROM min(processed_at))::bigint FROM effectd.processed_messages")
        assert abs(figure("oldest_claim_timestamp_seconds", **labels) - oldest) <= 1
        stage.db.execute("CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no'; END$$; "
                         "CREATE TRIGGER fail BEFORE DELETE ON effectd.processed_messages "
                         "FOR EACH STATEMENT EXECUTE FUNCTION fail()")
        age(stage.db, 1, 50)
        wait_until(lambda: figure("retention_failures", database="main") > 0, 20, "failures to be counted")
        assert monitor.reasons() == set()  # nobody's work stands still for it
        stage.db.execute("DROP TRIGGER fail ON effectd.processed_messages")
        wait_until(lambda: figure("retention_failures", database="main") == 0, 30, "retention to work again")
