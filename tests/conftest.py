"""Fixtures: the private servers live for the whole run, each test gets a database and a virtual host of its own."""
import itertools
import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from lib import build, orders, shell
from lib.certificates import make as make_certificates
from lib.daemon import Effectd, effectd
from lib.installed import Installed
from lib.postgres import Postgres
from lib.publisher import Publisher
from lib.rabbit import Rabbit
from stage import Stage

SCRIPTED_SCHEMA = os.path.join(build.ROOT, "tests", "plugins", "scripted.sql")
PLUGINS = ("loyalty_points", "analytics", "order_status", "receipts")
_numbers = itertools.count(1)


def pytest_configure(config):
    """SIGTERM ends the run like Ctrl-C, so that the servers are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("SIGTERM", returncode=143))


@pytest.fixture(scope="session")
def servers_folder():
    folder = tempfile.mkdtemp(prefix="effectd-tests-")
    os.chmod(folder, 0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def installed(servers_folder):
    """effectd as `meson install` leaves it, in a folder of its own."""
    return Installed(os.path.join(servers_folder, "installed"))


@pytest.fixture(scope="session")
def certificates(servers_folder):
    """A folder of them; lib/certificates.py says which."""
    folder = pathlib.Path(servers_folder, "tls")
    folder.mkdir()
    return make_certificates(folder)


@pytest.fixture(scope="session")
def pg_server(servers_folder):
    server = Postgres(os.path.join(servers_folder, "pg"))
    try:
        yield server.create().start()
    finally:
        server.destroy()


@pytest.fixture(scope="session")
def rabbit_server(servers_folder):
    server = Rabbit(os.path.join(servers_folder, "mq"))
    try:
        yield server.create().start()
    finally:
        server.destroy()


@pytest.fixture
def pg(pg_server):
    """PostgreSQL, running again when the test before left it stopped or killed."""
    return pg_server if pg_server.alive() else pg_server.start()


@pytest.fixture
def rabbit(rabbit_server):
    """RabbitMQ, running again when the test before left it stopped or killed."""
    return rabbit_server if rabbit_server.alive() else rabbit_server.start()


@pytest.fixture
def empty_db(pg):
    """A database with nothing in it."""
    database = pg.createdb(f"test_{next(_numbers)}")
    yield database
    if pg.alive():
        database.drop()


def _template(pg_server, name, tmp_path_factory):
    """A database with effectd's schema, to be copied for each test."""
    database = pg_server.createdb(name)
    file = tmp_path_factory.mktemp("template") / "effectd.ini"
    file.write_text(f"[database:main]\nconninfo = {database.conninfo}\n")
    done = effectd("migrate", "up", "-c", file)
    assert done.rc == 0, f"effectd migrate up failed with {done.rc}:\n{done.stderr}"
    return database


@pytest.fixture(scope="session")
def shop_template(pg_server, tmp_path_factory):
    """The name of a database with effectd's schema, the plugins' tables and customers, copied for each test."""
    database = _template(pg_server, "shop_template", tmp_path_factory)
    for plugin in PLUGINS:
        database.run_file(build.plugin_schema(plugin))
    orders.seed_customers(database)
    return database.name


@pytest.fixture
def db(pg, shop_template):
    """A database with effectd's schema, the shipped plugins' tables and customers 1..10000 with a balance of 0."""
    database = pg.createdb(f"shop_{next(_numbers)}", shop_template)
    yield database
    if pg.alive():
        database.drop()


@pytest.fixture
def vhost(rabbit):
    virtual_host = rabbit.add_vhost(f"test_{next(_numbers)}")
    yield virtual_host
    if rabbit.alive():
        virtual_host.delete()


@pytest.fixture
def reader(installed, pg, vhost, tmp_path):
    """The environment of somebody who follows a page of docs/: effectd is installed, servers are there and empty.

    Databases that the page makes are dropped at the end.
    """
    there = set(pg.databases())
    folder = os.path.dirname(installed.variable("effectd"))
    env = {**installed.env, **shell.variables(pg, vhost.url), "HOME": str(tmp_path), "LANG": "C.UTF-8",
           "PATH": f"{folder}:/usr/bin:/bin", "PLUGINS": installed.variable("plugindir")}
    yield env
    if pg.alive():
        for name in set(pg.databases()) - there:
            pg.dropdb(name)


@pytest.fixture
def publisher(vhost):
    return Publisher(vhost)


@pytest.fixture
def daemon(tmp_path):
    """A factory of daemons: daemon(sections, *args, name="a"); those still alive at the end are killed."""
    started = []

    def make(sections, *args, name="effectd", env=None):
        if isinstance(sections, dict) and "runtime_dir" in sections.get("effectd", {}):  # one daemon each
            folder = os.path.join(sections["effectd"]["runtime_dir"], name)
            sections = {**sections, "effectd": {**sections["effectd"], "runtime_dir": folder}}
        started.append(Effectd(tmp_path / name, sections, args, env))
        return started[-1]

    yield make
    for one in started:
        if one.alive():
            one.kill()


@pytest.fixture
def runtime_dir():
    """A short path: a unix socket's name holds 107 bytes."""
    folder = tempfile.mkdtemp(prefix="effectd-run-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stage_template(pg_server, tmp_path_factory):
    """The name of a database with effectd's schema and the scripted plugin's tables, copied for each test."""
    database = _template(pg_server, "stage_template", tmp_path_factory)
    database.run_file(SCRIPTED_SCHEMA)
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
