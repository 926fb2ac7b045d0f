"""An environment that fails without going away: what is in hand waits, nothing is parked, and work goes on by itself."""
import contextlib
import os
import signal
import subprocess
import tempfile

import psycopg
import pytest

from lib.account import Account
from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, script
from works import start

pytestmark = pytest.mark.slow

TWO_WORKERS = {"workers": 2, "batch_max": 10, "prefetch": 30}
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'effectd/%'"


def messages(first, last):
    return [script(f"k{number:04}") for number in range(first, last)]


def suffer_and_recover(stage, break_it, mend, pattern, arguments=None, times=3, **settings):
    """Work, then fail at least `times` in the way that pattern shows in the log, then work again as if nothing was."""
    stage.declare(arguments=arguments)
    sent = messages(0, 1000)
    with stage.daemon(**TWO_WORKERS, **settings) as daemon:
        stage.ready(daemon, 2)
        stage.send(*sent[:200])
        stage.vhost.wait_empty(QUEUE)
        break_it()
        try:
            stage.send(*sent[200:])
            wait_until(lambda: len(daemon.matches(pattern)) >= times, 60, f"{times} log lines like {pattern}",
                       explain=daemon.log_tail)
        finally:
            mend()
        stage.vhost.wait_empty(QUEUE, timeout=60)
    assert outcomes(counted(daemon))["applied"] == len(sent)
    stage.assert_once(message["key"] for message in sent)
    assert not stage.parked()
    return daemon


def test_postgresql_becomes_read_only(stage, pg):
    """As the server of a name does after a failover: sessions that live find it out by 25006, new ones are refused."""
    def configure(command):
        with pg.connect(options="-c default_transaction_read_only=off") as connection:
            connection.execute(f"ALTER SYSTEM {command}")
            connection.execute("SELECT pg_reload_conf()")

    suffer_and_recover(stage, lambda: configure("SET default_transaction_read_only = on"),
                       lambda: configure("RESET default_transaction_read_only"), "sqlstate=25006")


def test_postgresql_comes_back_as_a_standby_and_is_promoted(stage, pg):
    def demote():
        pg.stop()
        signal_file = os.path.join(pg.data, "standby.signal")
        open(signal_file, "w").close()
        Account().own(signal_file)
        pg.start()

    def promote():
        with pg.connect() as connection:
            connection.execute("SELECT pg_promote()")

    suffer_and_recover(stage, demote, promote, "event=database_unavailable.*sqlstate=25006")


def test_postgresql_takes_no_more_sessions(stage, pg):
    role = f"few_{stage.db.name}"
    stage.db.execute(f"CREATE ROLE {role} LOGIN; ALTER ROLE {role} SET search_path = effectd;"
                     f"GRANT USAGE ON SCHEMA effectd TO {role};"
                     f"GRANT ALL ON ALL TABLES IN SCHEMA effectd TO {role};"
                     f"GRANT ALL ON ALL SEQUENCES IN SCHEMA effectd TO {role}")

    def limit(sessions):
        stage.db.execute(f"ALTER ROLE {role} CONNECTION LIMIT {sessions}")
        stage.db.execute(END_SESSIONS)

    try:
        suffer_and_recover(stage, lambda: limit(0), lambda: limit(-1), "too many connections for role",
                           database={"conninfo": pg.conninfo(stage.db.name, role)})
    finally:
        stage.db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@contextlib.contextmanager
def small_disk(account, megabytes):
    """A folder on a file system that is full soon."""
    folder = tempfile.mkdtemp(prefix="effectd-disk-")
    options = f"size={megabytes}m,uid={account.uid},gid={account.gid},mode=0700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    try:
        if mounted.returncode != 0:
            pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")
        yield folder
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


@pytest.fixture
def small_tablespace(stage, pg):
    """The name of a tablespace for 8 MB; the plugin's effects are in it."""
    with small_disk(Account(), 8) as folder:
        name = f"small_{stage.db.name}"
        stage.db.execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'")
        stage.db.execute(f"ALTER TABLE effects SET TABLESPACE {name}")
        yield name
        stage.db.execute("ALTER TABLE effects SET TABLESPACE pg_default")
        stage.db.execute(f"DROP TABLESPACE {name}")


def fill(stage, tablespace):
    """Claims can be written from now on, effects cannot: also not in pages that were taken ahead."""
    stage.db.execute("VACUUM FULL effects")
    stage.db.execute(f"CREATE TABLE filler (data text) TABLESPACE {tablespace};"
                     "ALTER TABLE filler ALTER data SET STORAGE PLAIN")
    with stage.db.connect() as connection:
        for size in (7000, 1):
            with pytest.raises(psycopg.errors.DiskFull):
                while True:
                    connection.execute(f"INSERT INTO filler SELECT repeat('x', {size}) FROM generate_series(1, 100)")


def test_the_disk_is_full(stage, small_tablespace):
    suffer_and_recover(stage, lambda: fill(stage, small_tablespace),
                       lambda: stage.db.execute("DROP TABLE filler"), "sqlstate=53100")


def test_a_disk_that_stays_full_costs_no_message_its_delivery_limit(stage, small_tablespace):
    """Each return counts, and the fourth drops the message: what goes back is not asked for again before it fits."""
    daemon = suffer_and_recover(stage, lambda: fill(stage, small_tablespace),
                                lambda: stage.db.execute("DROP TABLE filler"), "event=still_failing.*sqlstate=53100",
                                arguments={"x-delivery-limit": 3}, hold_max="1s", times=8)
    assert 1 <= len(daemon.matches("event=held_too_long")) <= TWO_WORKERS["workers"]


def test_a_stopped_process_that_wakes_up_acknowledges_nothing_of_its_past(stage, fault_points):
    """It had committed, and stood still before its acks until the broker gave up on it and another one was asked."""
    stage.declare()
    sent = messages(0, 10)
    broker = {"heartbeat": "1s"}
    with stage.daemon("a", fault="after_commit=delay:500@1", broker=broker) as a:
        stage.ready(a)
        stage.send(*sent)
        a.wait_log("event=fault_point")
        a.signal(signal.SIGSTOP)
        with stage.daemon("b") as b:
            stage.vhost.wait_empty(QUEUE)
            a.signal(signal.SIGCONT)
            a.wait_log("event=broker_lost")
            stage.ready(a, since=a.log().index("event=broker_lost"))
    mine, others = counted(a), counted(b)
    assert mine["applied"] == others["duplicate"] > 0 and mine["applied"] + others["applied"] == len(sent)
    stage.assert_once(message["key"] for message in sent)


@pytest.mark.slow
def test_a_process_stands_still_under_load_and_goes_on(works):
    """Longer than heartbeats and PostgreSQL's patience with its open transactions; the other process takes its part."""
    impatient = {"watchdog": "1s", "broker": {"heartbeat": "1s"}}
    a, b = works.process("a", **impatient), works.process("b")
    life = start(a)
    life.wait_full()
    start(b).wait_full()
    for seed in range(2):
        with works.traffic():
            works.wait_progress()
            a.signal(signal.SIGSTOP)
            works.wait_progress()
        works.wait_empty()
        mark = a.mark()
        a.signal(signal.SIGCONT)
        a.wait_log("event=broker_lost", since=mark)
        a.wait_log("event=consuming", since=mark)
    a.stop(), b.stop()
    works.check_all_applied()
