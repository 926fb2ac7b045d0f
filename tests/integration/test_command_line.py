"""What all commands have in common: exit codes, data on stdout and messages on stderr, JSON, no question without a
terminal. One table names every command; what one command does beyond that is told by the tests of that command."""
import json
import os
import re
import subprocess
from collections import namedtuple

import pytest

from lib import build, config
from lib.daemon import effectd
from stage import CONSUMER, script

# What a command reaches for, and so which exit codes it has: its file alone, the running daemon, the database.
FILE, DAEMON, DATABASE = "file", "daemon", "database"
Command = namedtuple("Command", "args reaches data", defaults=("json",))  # data: as JSON too, as text alone, or none
OF = ["--consumer", CONSUMER]
COMMANDS = [
    Command(["check"], FILE),
    Command(["check", "--live"], DATABASE),
    Command(["config", "show"], FILE),
    Command(["plugin", "list"], FILE),
    Command(["plugin", "show", build.plugin("scripted")], None),
    Command(["config", "default"], None, "text"),
    Command(["completion", "bash"], None, "text"),
    Command(["version"], None),
    Command(["status"], DAEMON),
    Command(["reload", "--dry-run"], DAEMON),
    Command(["reload"], DAEMON),
    Command(["migrate", "status"], DATABASE),
    Command(["migrate", "up"], DATABASE, None),  # it is done already
    Command(["migrate", "print"], DATABASE, None),
    Command(["migrate", "print", "--all"], None, "text"),
    Command(["parked", "list"], DATABASE),
    Command(["parked", "show", "1"], DATABASE),
    Command(["parked", "retry", "1", "--dry-run"], DATABASE),
    Command(["parked", "drop", "1", "--dry-run"], DATABASE),
    Command(["outbox", "list"], DATABASE),
    Command(["outbox", "show", "1"], DATABASE),
    Command(["outbox", "retry", "1", "--dry-run"], DATABASE),
    Command(["outbox", "drop", "1", "--dry-run"], DATABASE),
    Command(["retention"], DATABASE),
    Command(["retention", "--once"], DATABASE),
    Command(["explain", *OF, "k"], DATABASE),
    Command(["try", *OF], DATABASE),
    Command(["feed", *OF, "--beyond-window", "--rejects", "/dev/null"], DATABASE),
]
TELL_HOW_FAR = ("check", "feed")  # they came, when something stops them
ROWS = """
INSERT INTO effectd.consumers (consumer, claims, "window") VALUES ('work', 'table', '30 d') ON CONFLICT DO NOTHING;
INSERT INTO effectd.parked_messages (id, consumer, message_key, fingerprint, body, status, reason)
    OVERRIDING SYSTEM VALUE VALUES (1, 'work', 'k', sha256('k'), '{"key": "k"}', 'dead', 'rejected');
INSERT INTO effectd.outbox (id, consumer, message_key, kind, idempotency_key, payload, status)
    OVERRIDING SYSTEM VALUE VALUES (1, 'work', 'k', 'mail', 'k', '{}', 'dead');
"""
PLUGINS = {"plugin_dir": os.path.dirname(build.plugin("scripted"))}


def name(command):
    return " ".join(os.path.basename(arg) for arg in command.args)


def those_that_reach(*what):
    return [command for command in COMMANDS if command.reaches in what]


@pytest.fixture
def file(tmp_path):
    """Writes an INI file that has what is the same for all."""
    def write(sections):
        path = tmp_path / "effectd.ini"
        path.write_text(sections if isinstance(sections, str) else config.text(sections))
        return path
    return write


def call(command, path, *more, **options):
    """A message is on its stdin, for those that read one."""
    config_file = [] if command.reaches is None else ["-c", path]
    return effectd(*command.args, *more, *config_file, stdin=options.pop("stdin", json.dumps(script("k")) + "\n"),
                   **options)


def codes(path, commands, *more, **options):
    """{command: its exit code}; whoever fails says why, on stderr, and has no data."""
    found = {}
    for command in commands:
        done = call(command, path, *more, **options)
        found[name(command)] = done.rc
        if done.rc not in (0, 1):
            assert done.stderr and done.stderr.endswith("\n"), (command, done)
            assert done.stdout == "" or command.args[0] in TELL_HOW_FAR, (command, done)
    return found


def test_help_leads_with_examples_and_names_every_option():
    listed = re.findall(r"^  ([a-z]+) ", effectd("--help").stdout.split("Commands:")[1], re.MULTILINE)
    assert {command.args[0] for command in COMMANDS} | {"run"} == set(listed), "a command is missing in this table"
    for verb in [None, *listed]:
        for option in ("--help", "-h"):
            done = effectd(*([verb] if verb else []), option)
            assert (done.rc, done.stderr) == (0, ""), verb
            assert re.match(rf"Examples:\n  .*\beffectd {verb or ''}", done.stdout), verb
            assert "-c, --config" in done.stdout or verb is None, verb


def test_help_is_a_command_for_those_who_try_it(file):
    assert effectd("help").stdout == effectd("--help").stdout != ""
    assert effectd("help", "parked").stdout == effectd("parked", "--help").stdout
    done = effectd("help", "parkd")
    assert done.rc == 2 and "did you mean parked?" in done.stderr


ABOUT_ONE = [["explain", "k"], ["try"], ["feed", "--beyond-window", "--rejects", "/dev/null"]]


def test_the_only_consumer_need_not_be_named(stage):
    daemon = stage.daemon(process=PLUGINS)
    for args in ABOUT_ONE:
        done = effectd(*args, "-c", daemon.file, stdin=json.dumps(script("k")) + "\n")
        assert done.rc == 0, (args, done)


def test_one_of_several_consumers_must_be_named_and_a_wrong_name_is_put_right(file):
    consumers = {f"consumer:{name}": config.consumer("scripted", name) for name in ("work", "play")}
    path = file({"broker:main": {"url": "amqp://a@127.0.0.1:1/"}, "database:main": {"conninfo": "port=1"}, **consumers})
    for args in ABOUT_ONE:
        done = effectd(*args, "-c", path)
        assert done.rc == 2 and "--consumer NAME is missing: there is work or play" in done.stderr, (args, done)
        done = effectd(*args, "--consumer", "wrok", "-c", path)
        assert done.rc == 78 and "[consumer:wrok]" in done.stderr and "did you mean work?" in done.stderr, (args, done)
        done = effectd(*args, "--consumer", "nobody", "-c", path)
        assert done.rc == 78 and "[consumer:nobody]" in done.stderr and "there is work or play" in done.stderr, (args, done)


def test_data_goes_to_stdout_as_text_and_as_json(stage):
    stage.declare()
    stage.db.execute(ROWS)
    with stage.daemon(process=PLUGINS) as daemon:
        stage.ready(daemon)
        for command in COMMANDS:
            plain = call(command, daemon.file)
            assert plain.rc == 0 and bool(plain.stdout) == bool(command.data), (command, plain)
            if command.data != "json":
                continue
            done = call(command, daemon.file, "--json")
            assert done.rc == 0, (command, done)
            try:
                json.loads(done.stdout)
            except json.JSONDecodeError:
                [json.loads(line) for line in done.stdout.splitlines()]  # or an object a line


def test_what_cannot_be_written_is_an_error(stage):
    stage.declare()
    stage.db.execute(ROWS)
    with stage.daemon(process=PLUGINS) as daemon, open("/dev/full", "wb") as full:
        stage.ready(daemon)
        for command in COMMANDS:
            if not command.data:
                continue
            config_file = [] if command.reaches is None else ["-c", daemon.file]
            done = subprocess.run([build.EFFECTD, *command.args, *config_file], input=b'{"key": "k"}\n', stdout=full,
                                  stderr=subprocess.PIPE, check=False, timeout=30)
            assert done.returncode == 1 and b"No space left" in done.stderr, (command, done)


def test_servers_that_are_away_are_69(file, runtime_dir):
    path = file({"effectd": {**PLUGINS, "runtime_dir": runtime_dir},
                 "broker:main": {"url": "amqp://guest@127.0.0.1:1/"},
                 "database:main": {"conninfo": "host=127.0.0.1 port=1 dbname=x"},
                 f"consumer:{CONSUMER}": config.consumer("scripted", "work", hold_max="1s")})
    found = codes(path, those_that_reach(DAEMON, DATABASE))
    assert found == dict.fromkeys(found, 69)


def test_a_database_without_effectd_s_tables_is_78_and_how_to_make_them(stage, file, empty_db):
    path = file(stage.sections(database={"conninfo": empty_db.conninfo}))
    for command in those_that_reach(DATABASE):
        if command.args[0] == "migrate":
            continue  # that is how
        done = call(command, path)
        assert done.rc == 78 and "run `effectd migrate up`" in done.stderr, (command, done)


def test_a_login_that_is_refused_is_77(stage, file, runtime_dir):
    stage.declare()
    role = f"locked_out_{stage.db.name}"
    stage.db.execute(f"CREATE ROLE {role} NOLOGIN")
    try:
        sections = stage.sections(database={"conninfo": f"{stage.db.conninfo} user={role}"}, hold_max="1s")
        path = file(sections)
        found = codes(path, those_that_reach(DATABASE))
        assert found == dict.fromkeys(found, 77)
        said = call(COMMANDS[-1], path).stderr  # libpq has no SQLSTATE of it but in its verbose words
        assert said.endswith(" is not permitted to log in (SQLSTATE 28000)\n") and "LOCATION" not in said
    finally:
        stage.db.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("text", [None, "[effectd]\nlog_levl = info\n"], ids=["no_file", "a_mistake"])
def test_a_wrong_configuration_is_78(file, tmp_path, text):
    path = file(text) if text else tmp_path / "absent.ini"
    found = codes(path, those_that_reach(FILE, DATABASE))
    assert found == dict.fromkeys(found, 78)


def test_wrong_usage_is_2_and_says_what_is_right(file):
    path = file("[effectd]\n")
    for command in COMMANDS:
        for more, says in (("--nonsense",), "--nonsense"), (("a", "b", "c"), ""), (("--config",), "needs an argument"):
            if more[0] == "a" and command.args[0] in ("parked", "outbox"):
                continue  # they take any number of ids: wrong ones are told below
            done = effectd(*command.args, *more)
            assert done.rc == 2 and done.stdout == "" and says in done.stderr, (command, more, done)
            assert done.stderr.endswith("--help shows how it is used\n"), done
        if command.data == "text":
            done = effectd(*command.args, "--json")
            assert done.rc == 2 and done.stdout == "" and "not JSON" in done.stderr, (command, done)
    for command in ("parked", "outbox"):
        assert effectd(command, "show", "one", "-c", path).rc == 2


def test_nothing_is_asked_without_a_terminal(stage):
    """A pipe that says yes to everything is no person."""
    stage.db.execute(ROWS)
    daemon = stage.daemon()
    for args in (["parked", "drop", "1"], ["parked", "drop", "--all"], ["outbox", "drop", "1"],
                 ["retention", "--forget", CONSUMER]):
        done = daemon.command(*args, stdin="yes\n" * 9)
        assert done.rc == 2 and "--yes" in done.stderr and done.stdout == "", (args, done)
    assert stage.db.value("SELECT count(*) FROM effectd.parked_messages") == 1
    assert stage.db.value("SELECT count(*) FROM effectd.outbox") == 1
    for args in (["parked", "drop", "1"], ["outbox", "drop", "1"], ["retention", "--forget", CONSUMER]):
        assert daemon.command(*args, "--yes").rc == 0, args
    assert stage.db.value("SELECT count(*) FROM effectd.consumers") == 0
