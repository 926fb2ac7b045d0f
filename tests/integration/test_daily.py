"""Claims by the day of the event: whole days come and go, and no copy is applied twice on the way."""
import itertools
import json
from datetime import datetime, timedelta, timezone

import pytest

from days import HOURS_24, event, partitions, register, tables, today
from lib.monitor import Monitor
from lib.wait import wait_until
from stage import CONSUMER, QUEUE, counted, outcomes, script

DAILY = {"claims": "daily", "retention": "30d"}


def daily_claims(db, consumer=CONSUMER):
    return {key for key, in db.rows("SELECT message_key FROM effectd.processed_messages_daily WHERE consumer = %s",
                                    (consumer,))}


def mode(db):
    return db.value("SELECT claims FROM effectd.consumers WHERE consumer = %s", (CONSUMER,))


def floor(db):
    return db.value("SELECT floor_day FROM effectd.claim_days")


@pytest.fixture
def command(stage, daemon):
    """Run a command on the stage's configuration: its result."""
    def run_command(*args, claims="daily", database=None, env=None):
        return daemon(stage.sections(database=database, claims=claims, retention="30d"), name="command").command(
            *args, env=env)

    return run_command


@pytest.fixture
def keep(command):
    """One pass of retention, which must succeed: what it did about days."""
    def run_pass(**options):
        done = command("retention", "--once", "--json", **options)
        assert done.rc == 0, done.stderr
        days, = json.loads(done.stdout)["days"]
        return days

    return run_pass


@pytest.fixture
def host(stage, keep):
    """A stage whose days are there: host() is a daemon that hosts the consumer and leaves days to others."""
    stage.declare()
    register(stage.db)
    keep()

    def make(name="effectd", **settings):
        return stage.daemon(name, **{**DAILY, "database": {"retention_interval": "1h"}, **settings})

    return make


def finish(stage, daemon):
    """Wait until all is settled, stop, and return the outcomes."""
    stage.vhost.wait_empty(QUEUE)
    daemon.stop()
    return outcomes(counted(daemon))


# --- applied once ---


def test_a_first_start_makes_days_from_the_window_to_a_week_ahead(stage):
    stage.declare()
    with stage.daemon(**DAILY) as daemon:
        stage.ready(daemon)
        assert partitions(stage.db) == [today() + n * HOURS_24 for n in range(-30, 8)]
        assert floor(stage.db) == today() - 30 * HOURS_24
        stage.send(*[event(f"k{n}", n) for n in range(30)] * 2)
        assert finish(stage, daemon) == {"applied": 30, "duplicate": 30}
    assert daily_claims(stage.db) == set(stage.effects()) == {f"k{n}" for n in range(30)}
    assert not stage.claims()


def test_copies_of_one_message_over_processes_and_workers_are_applied_once(stage, host):
    with host("a", workers=4) as a, host("b", workers=4) as b:
        for daemon in (a, b):
            stage.ready(daemon, workers=4)
        stage.send(*[event("same", 3)] * 200, *[event(f"k{n}", n % 30) for n in range(100)] * 3)
        stage.vhost.wait_empty(QUEUE)
    both = counted(a) + counted(b)
    assert outcomes(both) == {"applied": 101, "duplicate": 399}
    assert all(count == 1 for count in stage.effects().values())


@pytest.mark.parametrize("claimed", itertools.combinations(range(4), 2))
def test_a_claim_that_is_there_hides_none_behind_it(stage, host, claimed):
    """A batch of four, two of them claimed, at every place."""
    stage.db.execute("INSERT INTO effectd.processed_messages_daily (consumer, message_key, event_day) "
                     "SELECT %s, 'k' || n, (now() AT TIME ZONE 'UTC')::date FROM unnest(%s::int[]) AS n",
                     (CONSUMER, list(claimed)))
    stage.send(*[event(f"k{n}") for n in range(4)])
    with host() as daemon:
        assert finish(stage, daemon) == {"applied": 2, "duplicate": 2}
    assert set(stage.effects()) == {f"k{n}" for n in range(4) if n not in claimed}


def test_a_verdict_that_leaves_no_claim_leaves_none_in_its_day(stage, host):
    with host() as daemon:
        stage.send(event("ignored", verdict="ignore"), event("rejected", verdict="reject"), event("good"))
        assert finish(stage, daemon) == {"applied": 1, "ignored": 1, "parked": 1}
    assert daily_claims(stage.db) == {"good"}
    assert stage.db.rows("SELECT message_key, event_day FROM effectd.parked_messages") == [("rejected", today())]


# --- what cannot be looked up ---


def test_a_message_older_than_the_window_is_parked_and_never_applied(stage, host):
    with host() as daemon:
        stage.send(event("last", 30), event("late", 31), event("very late", 100000))
        stage.vhost.wait_empty(QUEUE)
        assert {(row.key, row.reason) for row in stage.parked()} == {("late", "expired"), ("very late", "expired")}
        stage.db.execute("UPDATE effectd.parked_messages SET status = 'retry', next_attempt_at = now()")
        wait_until(lambda: {row.status for row in stage.parked()} == {"dead"}, 15, "the retries to be refused")
    assert set(stage.effects()) == {"last"}


def test_a_window_shorter_than_the_largest_one_counts_for_its_own_consumer(stage, host):
    with host(retention="7d") as daemon:
        stage.send(event("last", 7), event("late", 8))
        assert finish(stage, daemon) == {"applied": 1, "parked": 1}
    assert [(row.key, row.reason) for row in stage.parked()] == [("late", "expired")]


def test_what_a_person_wants_beyond_the_window_is_applied_once(stage, host):
    """Its day is gone, so two copies that differ (they are parked twice) meet in the other table."""
    with host() as daemon:
        stage.send(event("late", 40, copy=1), event("late", 40, copy=2))
        stage.vhost.wait_empty(QUEUE)
        assert len(stage.parked()) == 2
        stage.db.execute("UPDATE effectd.parked_messages SET status = 'retry', next_attempt_at = now(), "
                         "beyond_window = true")
        wait_until(lambda: not stage.parked(), 15, "both to be settled")
    assert stage.effects() == {"late": 1}
    assert stage.claims() == {"late"}


def test_a_message_of_the_future_is_parked(stage, host):
    with host() as daemon:
        stage.send(event("day after tomorrow", -2), event("too far", -3), event("absurd", -10000))
        assert finish(stage, daemon) == {"applied": 1, "parked": 2}
    assert {(row.key, row.reason) for row in stage.parked()} == {("too far", "future"), ("absurd", "future")}


def test_a_key_without_an_event_time_is_a_bad_key(stage, host):
    with host() as daemon:
        stage.send(script("timeless"), event("good"))
        assert finish(stage, daemon) == {"applied": 1, "parked": 1}
    parked, = stage.parked()
    assert parked.reason == "bad_key" and "event time" in parked.detail


def test_two_days_for_one_key_are_a_fault_of_the_plugin(stage, host):
    with host() as daemon:
        stage.ready(daemon)
        gate = stage.db.connect()
        gate.autocommit = False
        gate.execute("INSERT INTO effectd.processed_messages_daily (consumer, message_key, event_day) "
                     "VALUES (%s, 'gate', (now() AT TIME ZONE 'UTC')::date)", (CONSUMER,))
        stage.send(event("gate"))
        stage.wait_blocked()
        stage.send(event("torn", 1), event("torn", 2))
        stage.wait_delivered(3)
        gate.rollback()
        gate.close()
        daemon.wait_log(r"event=consumer_broken .*the key torn two event days")
    assert set(stage.effects()) == {"gate"}
    assert stage.vhost.depth(QUEUE) == (2, 0)


@pytest.mark.parametrize("comes_again", [True, False])
def test_a_redelivery_that_is_claimed_on_another_day_is_not_applied(stage, host, comes_again):
    """Its plugin gave it another day before. What comes for the first time is not asked about: see operations.md."""
    stage.db.execute("INSERT INTO effectd.processed_messages_daily (consumer, message_key, event_day) "
                     "SELECT %s, 'torn', (now() AT TIME ZONE 'UTC')::date - n FROM unnest('{3,4}'::int[]) AS n",
                     (CONSUMER,))
    stage.send(event("before"), event("same", 3), event("torn", 2))
    if comes_again:
        stage.vhost.browse(QUEUE)
    with host() as daemon:
        if comes_again:
            daemon.wait_log(r"event=consumer_broken .*the key torn two event days")
        else:
            stage.vhost.wait_empty(QUEUE)
    assert stage.effects() == {"before": 1, "same": 1, **({} if comes_again else {"torn": 1})}
    assert stage.vhost.depth(QUEUE) == (int(comes_again), 0)


# --- days come and go ---


def test_a_missing_day_parks_nobody_and_its_work_waits(stage, host, daemon, keep):
    monitor = Monitor()
    sections = stage.sections(**DAILY)
    sections["effectd"]["http_listen"] = monitor.listen
    with daemon(sections, "--consumer", CONSUMER, name="watched") as watched:
        stage.ready(watched)
        stage.db.execute(f"DROP TABLE effectd.processed_messages_daily_{today():%Y%m%d}")
        stage.send(event("waits"))
        wait_until(lambda: "days" in (monitor.reasons() or ()), 15, "health to turn red")
        assert stage.vhost.depth(QUEUE) == (0, 1)
        assert keep()["made"] == 1
        stage.vhost.wait_empty(QUEUE)
        monitor.wait_reasons()
    assert stage.effects() == {"waits": 1}
    assert not stage.parked()


def test_a_consumer_starts_only_when_its_days_are_there_and_its_process_makes_them(stage, daemon):
    stage.declare()
    stage.send(event("k"))
    sections = stage.sections(**DAILY)
    with daemon(sections, "--consumer", CONSUMER, name="alone") as alone:
        alone.wait_log(r"event=claim_days_missing")
        assert stage.vhost.depth(QUEUE) == (1, 0)
        with daemon(sections, "--retention", name="keeper"):
            stage.vhost.wait_empty(QUEUE)
    assert stage.effects() == {"k": 1}


def test_a_consumer_that_was_off_for_weeks_starts_right(stage, keep):
    """Nobody made days meanwhile: the floor rises first, then what is missing is made, then the old ones go."""
    stage.declare()
    register(stage.db)
    keep()
    stage.db.execute("DO $$ DECLARE d date; BEGIN FOR n IN -23..7 LOOP d := (now() AT TIME ZONE 'UTC')::date + n; "
                     "EXECUTE format('DROP TABLE effectd.processed_messages_daily_%s', to_char(d, 'YYYYMMDD')); "
                     "END LOOP; FOR n IN 31..90 LOOP d := (now() AT TIME ZONE 'UTC')::date - n; "
                     "EXECUTE format('CREATE TABLE effectd.processed_messages_daily_%s PARTITION OF "
                     "effectd.processed_messages_daily FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + 1); "
                     "END LOOP; UPDATE effectd.claim_days SET floor_day = floor_day - 60; END $$")
    stage.send(event("fresh"), event("late", 50))
    with stage.daemon(**DAILY) as daemon:
        wait_until(lambda: partitions(stage.db)[0] == today() - 30 * HOURS_24, 30, "old days to go")
        assert finish(stage, daemon) == {"applied": 1, "parked": 1}
    assert set(partitions(stage.db)) >= {today() + n * HOURS_24 for n in range(-30, 8)}


def test_whole_days_go_past_the_largest_window_of_all(stage, keep):
    register(stage.db, 30)
    keep()
    register(stage.db, 10, consumer="shorter")
    assert keep()["dropped"] == 0
    stage.db.execute("UPDATE effectd.consumers SET \"window\" = interval '480 hours' WHERE consumer = %s", (CONSUMER,))
    assert keep()["dropped"] == 10
    assert partitions(stage.db)[0] == floor(stage.db) == today() - 20 * HOURS_24
    stage.db.execute("UPDATE effectd.consumers SET \"window\" = interval '960 hours'")
    assert keep() == {"database": "main", "floor": str(today() - 20 * HOURS_24), "made": 0, "dropped": 0,
                      "missing": 0, "behind": 0}  # the floor never falls


def test_a_reader_that_stays_makes_a_pass_give_up_and_claims_go_on(stage, host, command, keep):
    """A report on the claims runs while a day is to go: nothing queues behind the one that waits for it."""
    with host() as daemon, stage.db.connect() as reader:
        stage.ready(daemon)
        daemon.wait_log(r"event=retention_pass\b")
        reader.autocommit = False
        reader.execute("SELECT count(*) FROM effectd.processed_messages_daily")
        stage.db.execute("UPDATE effectd.consumers SET \"window\" = interval '600 hours'")
        done = command("retention", "--once", database={"lock_timeout": "500ms"})
        assert done.rc == 1 and "55P03" in done.stderr, done.stderr
        stage.send(*[event(f"k{n}", n % 20) for n in range(50)])
        stage.vhost.wait_empty(QUEUE)
        assert len(stage.effects()) == 50
        done = command("retention", "--once", database={"lock_timeout": "500ms"})
        assert done.rc == 1 and "finishing to detach" in done.stderr, done.stderr
        reader.rollback()
        keep()
    assert partitions(stage.db)[0] == today() - 25 * HOURS_24
    assert tables(stage.db) == 33


def test_a_day_taken_out_by_hand_comes_back_with_its_claims(stage, keep):
    register(stage.db, 30)
    keep()
    stage.db.execute("INSERT INTO effectd.processed_messages_daily VALUES (%s, 'k', %s)", (CONSUMER, today()))
    stage.db.execute(f"ALTER TABLE effectd.processed_messages_daily DETACH PARTITION "
                     f"effectd.processed_messages_daily_{today():%Y%m%d}")
    assert keep()["made"] == 1
    assert daily_claims(stage.db) == {"k"}


def test_a_default_partition_is_reported_and_consumers_go_on(stage, host, command):
    """With rows in it the right day could not be made any more, and it would outlive every window."""
    stage.db.execute("CREATE TABLE effectd.strays PARTITION OF effectd.processed_messages_daily DEFAULT")
    done = command("retention", "--once")
    assert done.rc == 78 and "DEFAULT partition" in done.stderr
    with host() as daemon:
        stage.send(event("k"))
        assert finish(stage, daemon) == {"applied": 1}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_days_are_those_of_utc_whatever_the_time_zones(stage, keep, zone):
    """Server 14 hours ahead of UTC, or 11 behind; process and libpq elsewhere."""
    stage.db.execute(f"ALTER DATABASE {stage.db.name} SET timezone = '{zone}'")
    stage.declare()
    register(stage.db)
    keep(env={"TZ": "Asia/Kathmandu", "PGTZ": "America/St_Johns"})
    assert partitions(stage.db) == [today() + n * HOURS_24 for n in range(-30, 8)]
    midnight = datetime.combine(today(), datetime.min.time(), timezone.utc)
    stage.send(script("before") | {"event_time": (midnight - timedelta(seconds=1)).isoformat()},
               script("at") | {"event_time": midnight.isoformat()})
    with stage.daemon(**DAILY) as daemon:
        assert finish(stage, daemon) == {"applied": 2}
    assert dict(stage.db.rows("SELECT message_key, event_day FROM effectd.processed_messages_daily")) == {
        "before": today() - HOURS_24, "at": today()}


# --- from one table to days ---


def test_a_switch_is_refused_while_the_consumer_is_hosted(stage, command):
    stage.declare()
    with stage.daemon(retention="30d") as daemon:
        stage.ready(daemon)
        done = command("migrate", "claims", CONSUMER, "daily")
        assert done.rc == 1 and f"hosted by effectd/{CONSUMER}/0" in done.stderr
    assert mode(stage.db) == "table"
    done = command("migrate", "claims", CONSUMER, "daily")
    assert done.rc == 0 and "Set claims = daily" in done.stdout, done.stderr
    assert mode(stage.db) == "both"
    with stage.daemon("old", retention="30d") as daemon:
        daemon.wait_log(r"event=consumer_closed .*set claims = daily")
    assert "already" in command("migrate", "claims", CONSUMER, "daily").stdout


def end_of_window(db):
    """One window passes since the switch."""
    db.execute("UPDATE effectd.consumers SET switched_at = now() - \"window\" - interval '1 minute'")


@pytest.mark.parametrize("first, second", [order for order in itertools.combinations_with_replacement(
    ["table", "both", "daily"], 2) if order != ("table", "table")])
def test_a_duplicate_that_straddles_the_switch_is_caught(stage, command, keep, first, second):
    """One copy before and one after; from table to daily a whole window lies between, and the copy is expired."""
    stage.declare()
    message, stages = event("k", 2), ["table", "both", "daily"]
    applied = []
    for now in stages[:stages.index(second) + 1]:
        if now == "both":
            assert command("migrate", "claims", CONSUMER, "daily", claims="table").rc == 0
        if now == "daily":
            end_of_window(stage.db)
            if first == "table":  # a window has passed since: the event is that much older, its claim too
                stage.db.execute("UPDATE effectd.processed_messages SET processed_at = processed_at - interval '32 days'")
                message = event("k", 33)
            keep()
            assert mode(stage.db) == "daily"
        with stage.daemon(now, claims="table" if now == "table" else "daily", retention="30d") as daemon:
            stage.ready(daemon)
            if now in (first, second):
                stage.send(message)
                if first == second:
                    stage.send(message)
            stage.vhost.wait_empty(QUEUE)
        applied.append(outcomes(counted(daemon)))
    assert stage.effects() == {"k": 1}
    if (first, second) == ("table", "daily"):
        assert [row.reason for row in stage.parked()] == ["expired"]
    else:
        assert sum(counts.get("duplicate", 0) for counts in applied) == 1


def test_in_both_modes_a_copy_waits_for_its_twin_in_either_table(stage, command):
    """A process of before the end of the window (both) and one of after it (daily) at the same time."""
    stage.declare()
    register(stage.db, 30, claims="table")
    assert command("migrate", "claims", CONSUMER, "daily", claims="table").rc == 0
    with stage.daemon("both", **DAILY, workers=2) as both:
        stage.ready(both, workers=2)
        end_of_window(stage.db)
        stage.db.execute("UPDATE effectd.consumers SET claims = 'daily', switched_at = NULL")
        with stage.daemon("daily", **DAILY, workers=2) as daily:
            stage.ready(daily, workers=2)
            stage.send(*[event(f"k{n}", n % 30) for n in range(100)] * 4)
            stage.vhost.wait_empty(QUEUE)
    counts = counted(both) + counted(daily)
    assert outcomes(counts) == {"applied": 100, "duplicate": 300}
    assert all(count == 1 for count in stage.effects().values())


@pytest.mark.usefixtures("fault_points")
@pytest.mark.parametrize("point", ["after_claim", "before_commit", "after_commit"])
def test_a_kill_in_mode_both_leaves_both_claims_or_none(stage, command, point):
    stage.declare()
    register(stage.db, 30, claims="table")
    assert command("migrate", "claims", CONSUMER, "daily", claims="table").rc == 0
    stage.send(event("k"))
    with stage.daemon("killed", fault=f"{point}=exit@1", **DAILY) as daemon:
        daemon.wait_exit()
    committed = point == "after_commit"
    assert (stage.claims() == {"k"}) == (daily_claims(stage.db) == {"k"}) == (stage.effects() == {"k": 1}) == committed
    with stage.daemon("again", **DAILY) as daemon:
        assert finish(stage, daemon) == {"duplicate" if committed else "applied": 1}
    assert stage.effects() == {"k": 1} and stage.claims() == daily_claims(stage.db) == {"k"}


def test_both_ends_by_itself_after_one_window(stage, command, keep):
    stage.declare()
    register(stage.db, 30, claims="table")
    assert command("migrate", "claims", CONSUMER, "daily", claims="table").rc == 0
    keep()
    assert mode(stage.db) == "both"
    end_of_window(stage.db)
    keep()
    assert mode(stage.db) == "daily"
    stage.send(event("k"))
    with stage.daemon(**DAILY) as daemon:
        assert finish(stage, daemon) == {"applied": 1}
    assert daily_claims(stage.db) == {"k"} and not stage.claims()
