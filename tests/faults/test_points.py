"""The fault points that no delivery passes: migrations and relays. Done again, all is as if nothing had happened."""
import itertools
import os
import re

import pytest

from lib import build, config
from lib.daemon import effectd
from lib.outbox import Outbox
from lib.process import Process
from lib.provider import Provider
from lib.proxy import Proxy
from lib.wait import wait_until
from matrix import CUT_POSTGRESQL, CUT_SPEC, DELAY, ERROR, EXIT, EXIT_CODE, SPEC, hit, points

SCHEMA = ("SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
          "WHERE table_schema = 'effectd' ORDER BY 1, 2")
HISTORY = "SELECT version, name, checksum FROM effectd.schema_version ORDER BY 1"
ACTIONS = (EXIT, DELAY, ERROR, CUT_POSTGRESQL)
RC = {EXIT: EXIT_CODE, DELAY: 0}
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
