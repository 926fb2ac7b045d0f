"""effectd migrate on real databases: up, status, print, two at once, changed and newer schemas, roles."""
import json
import os
import re
import subprocess
import threading

import pytest

from lib import build, config
from lib.daemon import effectd
from lib.wait import wait_until

ROLES = os.path.join(build.ROOT, "sql", "roles.sql")
FILES = sorted(name[:-4] for name in os.listdir(os.path.join(build.ROOT, "sql")) if re.match(r"\d{3}_.*\.sql$", name))
TABLES = {"attempts", "claim_days", "consumers", "outbox", "parked_messages", "processed_messages",
          "processed_messages_daily", "schema_version"}


@pytest.fixture
def migrate(empty_db, tmp_path):
    """migrate("up") runs the command on the empty database."""
    file = write_config(tmp_path, main=empty_db.conninfo)
    return lambda *args: effectd("migrate", *args, "-c", file)


def write_config(folder, **databases):
    file = folder / "effectd.ini"
    file.write_text(config.text({f"database:{name}": value if isinstance(value, dict) else {"conninfo": value}
                                 for name, value in databases.items()}))
    return file


def tables(database):
    return {name for name, in database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'effectd'")}


def applied(database):
    return [name for name, in database.rows("SELECT name FROM effectd.schema_version ORDER BY version")]


def test_up_makes_the_schema_and_a_second_one_changes_nothing(empty_db, migrate):
    first = migrate("up")
    assert first.rc == 0, first.stderr
    assert [f"main: applied {name}" in line for name, line in zip(FILES, first.stdout.splitlines())] == [True] * len(FILES)
    assert applied(empty_db) == FILES
    assert TABLES <= tables(empty_db)
    second = migrate("up")
    assert (second.rc, second.stdout) == (0, "")
    assert "up to date" in second.stderr


def test_status_says_pending_then_applied(migrate):
    def states():
        answer = migrate("status", "--json")
        assert answer.rc == 0, answer.stderr
        return [(row["database"], row["name"], row["state"]) for row in json.loads(answer.stdout)]

    assert states() == [("main", name, "pending") for name in FILES]
    assert migrate("up").rc == 0
    assert states() == [("main", name, "applied") for name in FILES]
    assert re.search(rf"main +{FILES[0]} +applied", migrate().stdout)


def test_print_is_a_script_that_does_what_up_does(empty_db, migrate):
    script = migrate("print")
    assert script.rc == 0, script.stderr
    assert "schema_version" in script.stdout
    assert tables(empty_db) == set()
    psql(empty_db, script.stdout)
    assert migrate("print").stdout == ""
    assert json.loads(migrate("status", "--json").stdout)[0]["state"] == "applied"
    assert migrate("up").stdout == ""


def test_print_all_asks_no_database():
    answer = effectd("migrate", "print", "--all", "-c", "/nonexistent")
    assert answer.rc == 0, answer.stderr
    assert all(f"-- {name}.sql" in answer.stdout for name in FILES)


def test_eight_at_once_apply_each_file_once(empty_db, migrate):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(migrate("up"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.rc for answer in answers] == [0] * 8, answers
    assert sum(answer.stdout.count("applied") for answer in answers) == len(FILES)
    assert applied(empty_db) == FILES


def test_a_second_one_says_who_it_waits_for(empty_db, tmp_path):
    file = write_config(tmp_path, main={"conninfo": empty_db.conninfo, "lock_timeout": "200ms"})
    with empty_db.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(28541562621490276)")
        answer = effectd("migrate", "up", "-c", file)
    assert answer.rc == 1
    assert "another `effectd migrate up`" in answer.stderr
    assert tables(empty_db) == set()


def test_a_changed_file_stops_everything(empty_db, migrate):
    assert migrate("up").rc == 0
    empty_db.execute("UPDATE effectd.schema_version SET checksum = 'x' WHERE version = 1")
    answer = migrate("up")
    assert answer.rc == 78
    assert f"{FILES[0]}.sql is not the file that was applied" in answer.stderr
    assert json.loads(migrate("status", "--json").stdout)[0]["state"] == "changed"


def test_a_newer_schema_is_left_alone(empty_db, migrate):
    assert migrate("up").rc == 0
    empty_db.execute("INSERT INTO effectd.schema_version VALUES (999, '999_future', 'x', now(), 999)")
    answer = migrate("up")
    assert answer.rc == 78
    assert f"at version 999, this effectd knows {len(FILES)}: use a newer effectd" in answer.stderr
    assert json.loads(migrate("status", "--json").stdout)[-1] == {
        "database": "main", "version": 999, "name": "999_future", "state": "unknown"}


def test_a_migration_that_fails_leaves_nothing(empty_db, migrate):
    empty_db.execute("CREATE SCHEMA effectd; CREATE TABLE effectd.outbox (id int)")
    answer = migrate("up")
    assert answer.rc == 1
    assert re.search(rf"database main: {FILES[0]}\.sql: .*outbox.* already exists \(SQLSTATE 42P07\)", answer.stderr)
    assert tables(empty_db) == {"outbox"}


def test_a_killed_one_leaves_nothing_and_the_next_goes_on(empty_db, migrate, tmp_path):
    file = tmp_path / "effectd.ini"
    with empty_db.connect() as connection:  # an open transaction that holds what the migration needs
        connection.execute("BEGIN; CREATE SCHEMA effectd")
        stuck = subprocess.Popen([build.EFFECTD, "migrate", "up", "-c", str(file)], stderr=subprocess.DEVNULL)
        wait_until(lambda: empty_db.value("SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                                          "'effectd/migrate' AND wait_event_type = 'Lock'"), 10, "the migration to wait")
        stuck.kill()
        stuck.wait()
        connection.execute("ROLLBACK")
    answer = migrate("up")
    assert answer.rc == 0, answer.stderr
    assert applied(empty_db) == FILES


def test_each_database_of_the_configuration_or_the_one_named(pg, empty_db, tmp_path):
    other = pg.createdb(f"{empty_db.name}_other")
    try:
        file = write_config(tmp_path, main=empty_db.conninfo, audit=other.conninfo)
        assert effectd("migrate", "up", "--database", "audit", "-c", file).rc == 0
        assert (tables(empty_db), applied(other)) == (set(), FILES)
        assert effectd("migrate", "up", "-c", file).rc == 0
        assert applied(empty_db) == FILES
        unknown = effectd("migrate", "up", "--database", "nosuch", "-c", file)
        assert (unknown.rc, "[database:nosuch]" in unknown.stderr) == (2, True)
    finally:
        other.drop()


def test_no_server_is_exit_69(tmp_path):
    file = write_config(tmp_path, main="host=127.0.0.1 port=1 user=x dbname=x")
    answer = effectd("migrate", "status", "-c", file)
    assert answer.rc == 69
    assert "database main: " in answer.stderr


def test_the_apps_role_can_work_but_not_change_the_schema(pg, empty_db, tmp_path):
    psql(empty_db, f"\\i {ROLES}\n\\i {ROLES}\n")  # a second time changes nothing
    app, owner = f"{empty_db.name}_app", f"{empty_db.name}_owner"
    empty_db.execute(f"CREATE ROLE {app} LOGIN IN ROLE effectd_app;"
                     f"CREATE ROLE {owner} LOGIN NOINHERIT IN ROLE effectd_owner")
    try:
        file = write_config(tmp_path, main={
            "conninfo": pg.conninfo(empty_db.name, app),
            "owner_conninfo": pg.conninfo(empty_db.name, owner) + " options='-c role=effectd_owner'"})
        answer = effectd("migrate", "up", "-c", file)
        assert answer.rc == 0, answer.stderr
        assert empty_db.value("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'effectd'") == "effectd_owner"

        def allowed(sql):
            done = subprocess.run(["psql", "-XqAt", pg.conninfo(empty_db.name, app), "-c", sql], capture_output=True,
                                  text=True)
            return done.returncode == 0

        assert allowed("INSERT INTO effectd.processed_messages VALUES ('c', 'k') ON CONFLICT DO NOTHING")
        assert allowed("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) "
                       "VALUES ('c', 'k', 'i', '{}') RETURNING id")
        assert allowed("SELECT version FROM effectd.schema_version")
        assert not allowed("CREATE TABLE effectd.mine (id int)")
        assert not allowed("DROP TABLE effectd.processed_messages")
        assert not allowed("UPDATE effectd.schema_version SET version = 7")
    finally:
        empty_db.execute(f"DROP ROLE {app}; DROP ROLE {owner}")


def test_key_columns_are_compared_by_bytes(empty_db, migrate):
    assert migrate("up").rc == 0
    wrong = empty_db.rows("""
        SELECT c.oid::regclass || '.' || a.attname
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_collation l ON l.oid = a.attcollation
        WHERE c.relnamespace = 'effectd'::regnamespace AND c.relkind IN ('r', 'p')
          AND a.attname IN ('consumer', 'message_key', 'idempotency_key', 'ordering_key', 'kind')
          AND l.collname <> 'C'""")
    assert wrong == []


def test_outside_a_transaction_failures_and_versions(empty_db):
    """See migrate_driver.c, which has migrations of its own."""
    driver = os.path.join(build.FOLDER, "tests", "integration", "migrate_driver")
    done = subprocess.run([driver], env={**os.environ, "CONNINFO": empty_db.conninfo}, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def psql(database, script):
    done = subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", database.conninfo], input=script,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
