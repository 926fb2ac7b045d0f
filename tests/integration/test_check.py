"""effectd check, config and the command line, as a person or a deployment script calls them."""
import json
import os
import re
import shutil
import subprocess

import pytest

from lib import build, config
from lib.daemon import effectd
from lib.listener import tls_context
from lib.mailbox import Mailbox
from lib.outbox import Outbox
from lib.provider import Provider
from lib.wait import wait_until


@pytest.fixture
def check(tmp_path):
    """Write sections as effectd.ini and run `effectd check` on it."""
    def run(sections, *args, **options):
        file = tmp_path / "effectd.ini"
        file.write_text(sections if isinstance(sections, str) else config.text(sections))
        return effectd("check", "-c", file, *args, **options)
    return run


@pytest.fixture
def shop(db, vhost, runtime_dir):
    """The three consumers on queues that exist."""
    names = {"loyalty": "loyalty_points", "analytics": "analytics", "receipts": "receipts"}
    vhost.declare(*names)
    return {**config.base(db, vhost, runtime_dir),
            **{f"consumer:{name}": config.consumer(plugin, name) for name, plugin in names.items()}}


OFFLINE = {
    "effectd": {"plugin_dir": build.FOLDER},
    "broker:main": {"url": "amqp://guest@127.0.0.1:1/"},
    "database:main": {"conninfo": "host=127.0.0.1 port=1 dbname=x"},
    "consumer:loyalty": config.consumer("loyalty_points", "loyalty"),
}


def test_a_good_configuration_is_called_fine_without_a_server(check):
    done = check(OFFLINE)
    assert (done.rc, done.stderr) == (0, "")
    assert done.stdout == "configuration is fine: 1 consumer, 1 worker, 1 broker, 1 database\n"


def test_plugin_problems_have_the_line_of_their_setting(check, tmp_path):
    sections = {**OFFLINE,
                "consumer:loyalty": config.consumer("loyalty_points", "a", plugin__cents_per_pont=1,
                                                    plugin__cents_per_point=0),
                "consumer:wrong": config.consumer("analytics", "b"),
                "consumer:gone": {"plugin": "gone.so", "queue": "c"}}
    done = check(sections)
    lines = (tmp_path / "effectd.ini").read_text().splitlines()

    def at(text):
        return f"{tmp_path}/effectd.ini:{lines.index(text) + 1}: "

    wrong = f"plugin = {build.plugin('analytics')}"
    expected = [
        at("plugin.cents_per_pont = 1") + "[consumer:loyalty] plugin.cents_per_pont: the plugin has no such option: "
                                          "did you mean plugin.cents_per_point?",
        at("plugin.cents_per_point = 0") + "[consumer:loyalty] plugin.cents_per_point: must be at least 1",
        at(wrong) + "[consumer:wrong] plugin: ",
        at("plugin = gone.so") + "[consumer:gone] plugin: ",
        "4 problems",
    ]
    assert done.rc == 78
    for line, begin in zip(done.stderr.splitlines(), expected, strict=True):
        assert line.startswith(begin), done.stderr
    assert "analytics" in done.stderr.splitlines()[2] and "wrong" in done.stderr.splitlines()[2]


def test_a_plugin_s_path_starts_at_the_folder_of_its_file(check, tmp_path):
    (tmp_path / "conf.d").mkdir()
    shutil.copy(build.plugin("loyalty_points"), tmp_path / "mine.so")
    (tmp_path / "mine.so").chmod(0o755)
    (tmp_path / "conf.d" / "loyalty.ini").write_text("[consumer:loyalty]\nplugin = ../mine.so\nqueue = loyalty\n")
    sections = {name: section for name, section in OFFLINE.items() if not name.startswith("consumer:")}
    sections["effectd"] = {**sections["effectd"], "include": "conf.d/*.ini"}
    assert check(sections).rc == 0
    (tmp_path / "mine.so").unlink()
    assert "mine.so: No such file" in check(sections).stderr


def test_a_plugin_that_is_not_in_ones_own_folder_may_be_one_that_comes_with_effectd(check, tmp_path):
    shipped = re.search(r"^#?plugin_dir = (\S+)", effectd("config", "default").stdout, re.MULTILINE).group(1)
    sections = {**OFFLINE, "effectd": {"plugin_dir": tmp_path}, "consumer:loyalty": {"plugin": "x.so", "queue": "q"}}
    assert f"x.so is not in plugin_dir, {tmp_path}; the plugins that come with effectd are in {shipped}" in \
        check(sections).stderr
    sections["consumer:loyalty"]["plugin"] = "./x.so"
    assert "come with effectd" not in check(sections).stderr, "a path is not looked up"


def test_problems_of_the_file_come_as_json_too(check):
    done = check("[effectd]\nlog_levl = info\n", "--json")
    found = json.loads(done.stdout)
    assert done.rc == 78 and done.stderr == ""
    assert found["problem_count"] == 1
    assert found["problems"][0]["line"] == 2 and found["problems"][0]["key"] == "log_levl"


def test_a_file_that_is_not_there_is_a_configuration_problem():
    done = effectd("check", "-c", "/nowhere/effectd.ini")
    assert done.rc == 78 and "/nowhere/effectd.ini: cannot be read: No such file" in done.stderr
    assert "-c FILE" in done.stderr and "effectd config default" in done.stderr, "and what to do"


def test_a_configuration_without_consumers_would_run_nothing(check):
    done = check("[database:main]\nconninfo = x\n")
    assert done.rc == 78 and "nothing would run" in done.stderr


def test_live_says_what_holds(check, shop):
    done = check(shop, "--live")
    assert (done.rc, done.stderr) == (0, ""), done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("database main: PostgreSQL ") and "durable" in line for line in lines)
    assert "broker main: logged in" in lines
    for name in ("loyalty", "analytics", "receipts"):
        assert any(line.startswith(f"consumer {name}: queue {name} has 0 messages ready") for line in lines)
        assert f"consumer {name}: each key's effect commits at most once within its window of 30 days" in lines
    assert any(line.startswith("consumer loyalty: plugin ") and "statements prepared and described" in line
               for line in lines)
    assert lines[-1].startswith("configuration and servers are fine: 3 consumers")


def test_live_counts_the_sessions_that_a_process_needs(check, shop, db):
    """Three consumers with one worker and one for retries each, and two for retention."""
    shop["relay:main"] = {"kind.a": "one", "kind.b": "one", "kind.c": "two"}
    with Provider() as provider:
        for name in ("one", "two"):
            shop[f"target:{name}"] = {"type": "http", "url": provider.url}
        done = check(shop, "--live")
        assert done.rc == 0 and "database main: needs up to 10 of the " in done.stdout, done
        assert "consumer loyalty: prefetch 300: a message may take 6 s on average" in done.stdout
        db.execute(f'ALTER DATABASE "{db.name}" CONNECTION LIMIT 9')
        done = check(shop, "--live")
    assert done.rc == 78 and "[database:main] effectd needs up to 10 sessions, the server allows 9" in done.stderr, done


def test_live_finds_every_statement_without_its_table_and_a_missing_queue_in_one_run(check, shop, db):
    db.execute("DROP TABLE point_ledger CASCADE")
    shop["consumer:analytics"]["queue"] = "absent"
    done = check(shop, "--live")
    assert done.rc == 78
    for name in ("entry", "batch_entries"):
        assert f"[consumer:loyalty] plugin: statement {name}: " in done.stderr and "42P01" in done.stderr
    assert "[consumer:analytics] queue: there is no queue absent on the broker: " in done.stderr
    assert "declare = yes" in done.stderr, "and what to do"
    assert done.stderr.endswith("3 problems\n")


def test_live_tells_a_queue_that_will_be_made_from_one_that_is_missing(check, shop):
    shop["consumer:loyalty"] |= {"queue": "absent", "declare": "yes"}
    done = check(shop, "--live")
    assert done.rc == 0 and "queue absent does not exist yet: it will be made" in done.stdout, done.stderr


def test_live_without_servers_is_unavailable(check):
    done = check(OFFLINE, "--live")
    assert done.rc == 69
    assert "[database:main] " in done.stderr and "[broker:main] " in done.stderr and "2 problems" in done.stderr


def test_live_refuses_a_database_without_the_schema(check, shop, empty_db):
    shop["database:main"]["conninfo"] = empty_db.conninfo
    done = check(shop, "--live")
    assert done.rc == 78 and "[database:main] " in done.stderr and "migrate up" in done.stderr


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_live_refuses_a_database_that_cannot_hold_every_key(check, shop, pg, encoding):
    with pg.connect() as connection:
        connection.execute(f"CREATE DATABASE check_encoding TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    try:
        shop["database:main"]["conninfo"] = pg.conninfo("check_encoding")
        done = check(shop, "--live")
        assert done.rc == 78 and "[database:main] " in done.stderr and "encoding must be UTF8" in done.stderr, done.stderr
    finally:
        pg.dropdb("check_encoding")


def test_live_names_what_the_role_may_not_do(check, shop, db):
    db.execute("DROP ROLE IF EXISTS check_reader; CREATE ROLE check_reader LOGIN;"
               "GRANT USAGE ON SCHEMA effectd TO check_reader;"
               "GRANT SELECT ON ALL TABLES IN SCHEMA effectd, public TO check_reader")
    try:
        shop["database:main"]["conninfo"] = f"{db.conninfo} user=check_reader"
        del shop["consumer:loyalty"], shop["consumer:analytics"]  # receipts has no tables of its own
        done = check(shop, "--live")
        assert done.rc == 77, done.stderr
        assert "the role is not allowed: effectd.processed_messages INSERT" in done.stderr
    finally:
        db.execute("DROP OWNED BY check_reader; DROP ROLE check_reader")


def relay(db, targets, **more):
    """A configuration of a relay alone: the kind N goes to the target N."""
    return {"database:main": {"conninfo": db.conninfo},
            "relay:main": {f"kind.{name}": name for name in targets},
            **{f"target:{name}": target for name, target in targets.items()}, **more}


@pytest.fixture
def login(tmp_path):
    """A password, for a target that is known as shop."""
    file = tmp_path / "password"
    file.write_text("0pen-sesame")
    file.chmod(0o600)
    return {"password_file": file}


def test_live_reaches_every_target_and_calls_none(check, db, vhost, certificates, login):
    vhost.declare("effects")
    vhost.bind("out", "there", "effects")
    outbox = Outbox(db, None, None)
    outbox.add(1, 3, kind="http")
    outbox.add(4, 5, kind="\x1bnobody")
    outbox.db.execute("UPDATE effectd.outbox SET status = 'dead' WHERE payload = '{\"n\": 3}'")
    before = db.rows("SELECT * FROM effectd.outbox ORDER BY id")
    ca = {"tls_ca_file": certificates / "ca.pem"}
    with Provider() as plain, Provider(tls=tls_context(certificates, client_ca="ca")) as sealed, \
            Mailbox(tls=tls_context(certificates), login=True) as mailbox:
        done = check(relay(db, {
            "http": {"type": "http", "url": plain.url},
            "https": {"type": "http", "url": sealed.url, "tls_cert_file": certificates / "client.pem",
                      "tls_key_file": certificates / "client.key", **ca},
            "mail": {"type": "smtp", "url": mailbox.url_as("shop"), "mail_from": "a@example.org", **ca, **login},
            "queue": {"type": "amqp", "url": vhost.url, "routing_key": "effects"},
            "exchange": {"type": "amqp", "url": vhost.url, "exchange": "out", "routing_key": "there"},
        }), "--live")
    assert done.rc == 0, done.stderr
    assert done.stderr.endswith("[database:main] warning: 2 outbox rows of kind \\x1bnobody are pending, and no relay of "
                                "this configuration takes them\n") and done.stderr.count("\n") == 1, done.stderr
    lines = done.stdout.splitlines()
    for line in ("relay main: 2 rows of kind http are pending, 1 are dead", "target http: it takes connections",
                 "target https: it takes connections, its certificate is trusted",
                 "target mail: it is there and answers, logged in", "target queue: logged in, queue effects is there",
                 "target exchange: logged in, exchange out is there; whether a queue is bound for there is not known",
                 "configuration and servers are fine: 0 consumers, 0 workers, 0 brokers, 1 database, 1 relay"):
        assert line in lines, done.stdout
    assert not plain.calls and not sealed.calls and not mailbox.mails
    assert vhost.depth("effects").ready == 0 and db.rows("SELECT * FROM effectd.outbox ORDER BY id") == before


def test_live_names_every_target_that_cannot_be_called(check, db, vhost, certificates, login):
    ca = {"tls_ca_file": certificates / "ca.pem"}
    with Provider(tls=tls_context(certificates, client_ca="ca")) as sealed, \
            Provider(tls=tls_context(certificates)) as open_to_all, \
            Mailbox(lambda command, _: "535 5.7.8 not with this password" if command == "AUTH" else None,
                    login=True, tls=tls_context(certificates)) as mailbox:
        targets = {
            "down": {"type": "http", "url": "http://127.0.0.1:9/"},
            "strange": {"type": "http", "url": open_to_all.url, "tls_ca_file": certificates / "stranger.pem"},
            "unknown": {"type": "http", "url": sealed.url, **ca},
            "mail": {"type": "smtp", "url": mailbox.url_as("shop"), "mail_from": "a@example.org", **ca, **login},
            "queue": {"type": "amqp", "url": vhost.url, "routing_key": "absent"},
            "exchange": {"type": "amqp", "url": vhost.url, "exchange": "absent"},
            "login": {"type": "amqp", "url": vhost.url.replace(":effectd@", ":wrong@"), "routing_key": "effects"},
        }
        done = check(relay(db, targets), "--live")
        rcs = {name: check(relay(db, {name: targets[name]}), "--live").rc for name in ("down", "mail", "queue")}
    assert done.rc == 78 and done.stderr.endswith("7 problems\n"), done.stderr
    for name, words in {"down": "connect to", "strange": "issuer certificate", "unknown": "does it ask for a certificate of ours",
                        "mail": "535 5.7.8 not with this password", "queue": "NOT_FOUND", "exchange": "NOT_FOUND",
                        "login": "ACCESS_REFUSED"}.items():
        line, = [line for line in done.stderr.splitlines() if f" [target:{name}] " in line]
        assert words in line, line
    assert rcs == {"down": 69, "mail": 77, "queue": 78}
    assert "0pen-sesame" not in done.stderr


def test_live_knows_what_a_relay_alone_needs(check, db):
    db.execute("DROP ROLE IF EXISTS check_relay; CREATE ROLE check_relay LOGIN;"
               "GRANT USAGE ON SCHEMA effectd TO check_relay;"
               "GRANT SELECT ON effectd.outbox, effectd.schema_version TO check_relay")
    try:
        with Provider() as provider:
            sections = relay(db, {"http": {"type": "http", "url": provider.url}})
            sections["database:main"]["conninfo"] = f"{db.conninfo} user=check_relay"
            done = check(sections, "--live")
            assert done.rc == 77 and [line.partition("not allowed: ")[2].partition(" (")[0]
                                      for line in done.stderr.splitlines()[:-1]] == [
                "effectd.outbox DELETE", "effectd.outbox UPDATE"], done.stderr
            db.execute("GRANT UPDATE, DELETE ON effectd.outbox TO check_relay")
            done = check(sections, "--live")
            assert done.rc == 0, done.stderr
    finally:
        db.execute("DROP OWNED BY check_relay; DROP ROLE check_relay")


def test_a_target_that_nobody_calls_and_a_kind_with_two_targets_are_warned_of(check):
    target = {"type": "http", "url": "http://127.0.0.1:9/"}
    done = check({"database:main": {"conninfo": "dbname=x"}, "target:one": target, "target:two": target,
                  "target:idle": target, "relay:a": {"kind.mail": "one", "kind.sms": "one"},
                  "relay:b": {"kind.sms": "one", "kind.mail": "two"}})
    assert done.rc == 0
    first, second = done.stderr.splitlines()
    assert "[relay:b] kind.mail: warning: [relay:a] takes this kind as well, to target one: " in first
    assert "[target:idle] warning: no relay has a kind.NAME for it" in second


def test_live_changes_nothing(check, shop, db, vhost):
    counts = "SELECT (SELECT count(*) FROM effectd.processed_messages), (SELECT count(*) FROM point_ledger)," \
             " (SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'balances')"
    before = db.rows(counts)
    shop["consumer:loyalty"] |= {"queue": "absent", "declare": "yes"}
    assert check(shop, "--live").rc == 0
    assert db.rows(counts) == before
    assert effectd("check", "-c", "/nowhere").rc == 78
    shop["consumer:loyalty"]["declare"] = "no"
    assert check(shop, "--live").rc == 78  # the queue was not made


def test_config_default_is_a_configuration(tmp_path):
    printed = effectd("config", "default")
    (tmp_path / "effectd.ini").write_text(printed.stdout)
    shown = effectd("config", "show", "-c", tmp_path / "effectd.ini")
    assert shown.rc == 0 and "[consumer:loyalty]" in shown.stdout, shown.stderr


def test_config_show_knows_the_environment_and_masks(tmp_path):
    (tmp_path / "effectd.ini").write_text("[database:main]\nconninfo = host=${DB_HOST} password=${DB_PASSWORD}\n")
    shown = effectd("config", "show", "-c", tmp_path / "effectd.ini", "--json",
                    env={"DB_HOST": "db.example", "DB_PASSWORD": "s3cret"})
    value = json.loads(shown.stdout)["database:main"]["conninfo"]
    assert value["value"] == "host=db.example password=********" and value["line"] == 2
    missing = effectd("config", "show", "-c", tmp_path / "effectd.ini", env={"DB_HOST": "x"})
    assert missing.rc == 78 and "DB_PASSWORD is not set" in missing.stderr and missing.stdout == ""


@pytest.mark.parametrize("args, text", [
    ([], "usage: effectd COMMAND"),
    (["chek"], "did you mean check?"),
    (["check", "--liv3"], "did you mean --live?"),
    (["check", "-x"], "there is no option -x"),
    (["check", "-c"], "-c needs an argument"),
    (["check", "file.ini"], "unexpected argument file.ini"),
    (["config"], "show or default?"),
    (["config", "show", "--markdown"], "does not go with show"),
    (["config", "shw"], "did you mean show?"),
])
def test_wrong_usage_exits_2_and_says_what_is_right(args, text):
    done = effectd(*args)
    assert done.rc == 2 and text in done.stderr and done.stdout == ""


def test_a_closed_standard_stream_never_becomes_a_connection(db, vhost, runtime_dir, tmp_path):
    """A plugin that prints something would write to the broker."""
    vhost.declare("loyalty")
    file = tmp_path / "effectd.ini"
    file.write_text(config.text({**config.base(db, vhost, runtime_dir),
                                 "consumer:loyalty": config.consumer("loyalty_points", "loyalty")}))
    daemon = subprocess.Popen(["sh", "-c", 'exec "$0" run -c "$1" <&- >&- 2>&-', build.EFFECTD, file])
    try:
        wait_until(lambda: db.value("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'effectd/%'"),
                   15, "it to connect")
        assert [os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3
    finally:
        daemon.terminate()
        assert daemon.wait(30) == 0
    shown = subprocess.run(["sh", "-c", '"$0" config default >&-', build.EFFECTD], capture_output=True, check=False)
    assert shown.returncode == 1, "what nobody can read is not printed"
