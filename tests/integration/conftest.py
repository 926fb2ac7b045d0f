"""Fixtures of the tests that run whole daemons; the servers' are in tests/conftest.py."""
import itertools
import os

import pytest

from lib import build
from lib.daemon import effectd
from stage import Stage

SCHEMA = os.path.join(build.ROOT, "tests", "plugins", "scripted.sql")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def stage_template(pg_server, tmp_path_factory):
    """The name of a database with effectd's schema and the scripted plugin's tables, copied for each test."""
    database = pg_server.createdb("stage_template")
    file = tmp_path_factory.mktemp("template") / "effectd.ini"
    file.write_text(f"[database:main]\nconninfo = {database.conninfo}\n")
    done = effectd("migrate", "up", "-c", file)
    assert done.rc == 0, f"effectd migrate up failed with {done.rc}:\n{done.stderr}"
    database.run_file(SCHEMA)
    return database.name


@pytest.fixture
def stage_db(pg, stage_template):
    database = pg.createdb(f"stage_{next(_numbers)}", stage_template)
    yield database
    if pg.alive():
        database.drop()


@pytest.fixture
def stage(stage_db, vhost, publisher, daemon, runtime_dir):
    return Stage(stage_db, vhost, publisher, daemon, runtime_dir)


@pytest.fixture(scope="session")
def fault_points():
    """Skips the test where the build has no fault points; what is armed wrongly ends effectd only where it has."""
    if effectd("version", env={"EFFECTD_FAULT": "nowhere=exit"}).rc != 78:
        pytest.skip("this build has no fault points: meson configure -Dfault_points=true")
