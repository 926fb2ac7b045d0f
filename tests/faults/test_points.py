"""The fault points that no delivery passes: migrations, retention and relays. Done again, all is as if nothing had
happened."""
import itertools
import os
import re

import pytest

from days import HOURS_24, event, partitions, register, tables, today
from lib import build, config
from lib.daemon import effectd
from lib.outbox import Outbox
from lib.process import Process
from lib.provider import Provider
from lib.proxy import Proxy
from lib.wait import wait_until
from matrix import CUT_POSTGRESQL, CUT_SPEC, DELAY, ERROR, EXIT, EXIT_CODE, SPEC, hit, points
from stage import script

SCHEMA = ("SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
          "WHERE table_schema = 'effectd' ORDER BY 1, 2")
HISTORY = "SELECT version, name, checksum FROM effectd.schema_version ORDER BY 1"
ACTIONS = (EXIT, DELAY, ERROR, CUT_POSTGRESQL)
RC = {EXIT: EXIT_CODE, DELAY: 0}
UNAVAILABLE, IN_DOUBT = 69, 75
COMMITTED = "migration_committed"

pytestmark = pytest.mark.usefixtures("fault_points")


@pytest.fixture
def proxy(pg):
    with Proxy("postgresql", pg.port) as one:
        yield one


@pytest.fixture(scope="module")
def undisturbed(pg_server, tmp_path_factory):
    """What `effectd migrate up` makes of a database when nothing happens."""
    database, file = pg_server.createdb("undisturbed"), tmp_path_factory.mktemp("undisturbed") / "effectd.ini"
    file.write_text(config.text({"database:main": {"conninfo": database.conninfo}}))
    assert effectd("migrate", "up", "-c", file).rc == 0
    yield look(database)
    database.drop()


def look(database):
    return database.rows(SCHEMA), database.rows(HISTORY)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("point", points("MIGRATIONS"))
def test_a_migration_is_there_as_a_whole_or_not_at_all(empty_db, undisturbed, proxy, tmp_path, point, action):
    file, output = tmp_path / "effectd.ini", tmp_path / "output"
    file.write_text(config.text({"database:main": {"conninfo": proxy.conninfo(empty_db)}}))
    process = Process.spawn([build.EFFECTD, "migrate", "up", "-c", str(file)], output,
                            env={**os.environ, "EFFECTD_FAULT": f"{point}={SPEC.get(action, CUT_SPEC)}@1"})
    wait_until(lambda: re.search(hit(point), output.read_text()), 15, f"{point} to be passed", explain=output.read_text)
    if action == CUT_POSTGRESQL:
        proxy.cut()
    rc = process.wait(30)
    assert rc == RC.get(action, rc) and (rc == 0) == (action == DELAY), output.read_text()
    there = empty_db.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'effectd'")
    count = len(undisturbed[1]) if action == DELAY else int(point == COMMITTED)
    assert there == (count > 0) and (not there or empty_db.rows(HISTORY) == undisturbed[1][:count])
    again = effectd("migrate", "up", "-c", file)
    assert again.rc == 0, again.stderr
    assert look(empty_db) == undisturbed


# --- retention ---


class Retained:
    """A consumer that keeps its claims in one table and one that keeps them by day, each with claims that are to go and
    claims that stay, a process that hosts both and leaves retention to others, and a pass that goes wrong."""

    BATCHES, BATCH = 3, 100
    WINDOW, SHRUNK = 5, 2  # days

    def __init__(self, stage, daemon, proxy, folder):
        self.stage, self.db, self._folder, self._proxy = stage, stage.db, folder, proxy
        self._queues = {"table": "table", "days": "days"}
        stage.declare(*self._queues)
        for consumer in self._queues:
            register(self.db, self.WINDOW, "daily" if consumer == "days" else "table", consumer)
        assert self.run() == 0  # makes the days
        sections = stage.sections(self._queues, retention=f"{self.WINDOW}d")
        sections["consumer:days"]["claims"] = "daily"
        self.host = daemon(sections, "--consumer", "table", "--consumer", "days", name="host")
        self.copies = {"table": [script("young")], "days": [event("young", 1), event("old", self.WINDOW - 1)]}

    def begin(self):
        """All is applied. Then old claims are beyond their windows, and a day ahead is missing."""
        self.deliver()
        self.settled()
        self.db.execute("INSERT INTO effectd.processed_messages SELECT 'table', 'old' || n, now() - %s * interval '25 hours' "
                        "FROM generate_series(1, %s) AS n", (self.WINDOW, self.BATCHES * self.BATCH))
        self.db.execute("UPDATE effectd.consumers SET \"window\" = %s * interval '24 hours' WHERE consumer = 'days'",
                        (self.SHRUNK,))
        self.db.execute(f"DROP TABLE effectd.processed_messages_daily_{today() + 7 * HOURS_24:%Y%m%d}")

    def deliver(self):
        """All messages again, wherever the claims are just now."""
        for queue, messages in self.copies.items():
            self.stage.send(*messages, queue=queue)

    def settled(self):
        self.stage.vhost.wait_empty(*self._queues)
        assert {consumer: self.stage.effects(consumer) for consumer in self._queues} == {
            "table": {"young": 1}, "days": {"young": 1, "old": 1}}
        assert all((row.key, row.reason) == ("old", "expired") for row in self.stage.parked())

    def start(self, fault=None):
        """A pass through the proxy."""
        file = self._folder / "pass.ini"
        file.write_text(config.text({"database:main": {"conninfo": self._proxy.conninfo(self.db), "retention_pause": 0,
                                                       "retention_batch": self.BATCH}}))
        return Process.spawn([build.EFFECTD, "retention", "--once", "-c", str(file)], self._folder / "output",
                             env={**os.environ, **({"EFFECTD_FAULT": fault} if fault else {})})

    def run(self):
        return self.start().wait(30)

    def output(self):
        return (self._folder / "output").read_text()

    def young(self):
        """The claims that must stay."""
        return self.stage.claims("table") >= {"young"} and self.db.value(
            "SELECT count(*) FROM effectd.processed_messages_daily WHERE message_key = 'young'") == 1

    def is_done(self):
        """Whether all that had to go is gone, and all that had to be made is there."""
        days = [today() + n * HOURS_24 for n in range(-self.SHRUNK, 8)]
        return self.stage.claims("table") == {"young"} and partitions(self.db) == days and tables(self.db) == len(days)


@pytest.mark.parametrize("action", [EXIT, ERROR, CUT_POSTGRESQL])
@pytest.mark.parametrize("point", points("RETENTION"))
def test_a_pass_that_ends_anywhere_lets_nothing_go_early_and_is_finished_by_the_next(stage, daemon, proxy, tmp_path,
                                                                                     point, action):
    """Copies of all messages come right then, and again in the end."""
    world = Retained(stage, daemon, proxy, tmp_path)
    with world.host:
        world.begin()
        nth = 3 if point == "retention_batch" else 1  # the first finds nothing, of the other consumer
        broken = world.start(f"{point}={SPEC.get(action, CUT_SPEC)}@{nth}")
        wait_until(lambda: re.search(hit(point), world.output()), 15, f"{point} to be passed", explain=world.output)
        world.deliver()
        if action == CUT_POSTGRESQL:
            proxy.cut()
        assert broken.wait(30) in ((EXIT_CODE,) if action == EXIT else (UNAVAILABLE, IN_DOUBT)), world.output()
        world.settled()
        assert world.young() and not world.is_done()
        # Claims in a table do not wait for days.
        left = world.BATCHES - 1 if point == "retention_batch" else 0 if action == ERROR else world.BATCHES
        assert len(stage.claims("table") - {"young"}) == left * world.BATCH
        # The session of the one before may need a moment to see that nobody is there any more.
        wait_until(lambda: world.run() == 0 and world.is_done(), 20, "the next pass to finish the job",
                   explain=world.output)
        world.deliver()
        world.settled()
        assert world.young() and [row.key for row in stage.parked()] == ["old"]


# --- relays ---


@pytest.mark.parametrize("action", [DELAY, ERROR, CUT_POSTGRESQL])
@pytest.mark.parametrize("point", points("RELAYS"))
def test_every_outbox_row_is_called_with_its_key_whatever_happens_at(db, daemon, runtime_dir, proxy, point, action):
    """exit is in test_relay.py."""
    outbox = Outbox(db, daemon, runtime_dir)
    with Provider() as provider:
        relay = outbox.http(provider, target={"timeout": "2s"}, relay={"lease": "3s"},
                            fault=f"{point}={SPEC.get(action, CUT_SPEC)}@2",
                            **{"database:main": {"conninfo": proxy.conninfo(db)}})
        with relay:
            relay.wait_log("event=relaying")
            more = itertools.count(1)
            wait_until(lambda: relay.matches(hit(point)) or not outbox.add(next(more)), 30, f"{point} to be passed",
                       interval=0.05, explain=relay.log_tail)
            if action == CUT_POSTGRESQL:
                proxy.cut()
            total = next(more) - 1
            outbox.wait(sent=total)
    assert set(provider.keys()) == set(provider.effects) == {f"key/{n}" for n in range(1, total + 1)}
