"""Reload: a new configuration is read as a whole, planned, and applied consumer by consumer; a bad one changes nothing."""
import json
import os
import re
import shutil
import signal

import pytest

from lib import build, config
from lib.monitor import Monitor
from lib.wait import wait_until
from stage import FULL_PREFETCH, counted, outcomes, script

CONNECTIONS = "SELECT application_name, pid FROM pg_stat_activity WHERE application_name LIKE 'effectd/%' " \
              "AND datname = current_database()"


def sessions(stage, consumer):
    """The server's view of a consumer's sessions: each process id is one connection."""
    return {pid for name, pid in stage.db.rows(CONNECTIONS) if name.split("/")[1] == consumer}


def plan(answer):
    """{(what, name): (action, changes)} of a reload's answer."""
    return {(step["what"], step["name"]): (step["action"], step["changes"]) for step in answer["plan"]}


def reload(daemon, *args):
    done = daemon.command("reload", "--json", *args)
    return done.rc, json.loads(done.stdout)


@pytest.fixture
def shop(stage):
    """Three consumers of the scripted plugin, and what a reload is to make of them."""
    stage.declare("changed", "kept", "old", "new")
    before = stage.sections(consumers={"changed": "changed", "kept": "kept", "old": "old"})
    after = {name: dict(keys) for name, keys in before.items() if name != "consumer:old"}
    after["consumer:changed"]["workers"] = 2
    after["consumer:new"] = config.consumer("scripted", "new")
    return before, after


def test_a_good_one_changes_what_it_says_and_touches_nothing_else(stage, daemon, shop):
    before, after = shop
    with daemon(before) as one:
        stage.ready(one, 3)
        kept, changed = sessions(stage, "kept"), sessions(stage, "changed")
        consuming = len(one.matches("event=consuming.*consumer=kept"))
        one.configure({**after, "effectd": {**after["effectd"], **runtime_of(one)}})
        rc, dry = reload(one, "--dry-run")
        assert (rc, dry["result"]) == (0, "planned")
        assert plan(dry) == {
            ("retention", "main"): ("keep", ""),
            ("consumer", "changed"): ("restart", "workers 1 -> 2"),
            ("consumer", "kept"): ("keep", ""),
            ("consumer", "new"): ("add", ""),
            ("consumer", "old"): ("stop", ""),
        }
        text = one.command("reload", "--dry-run").stdout
        assert "restart consumer changed: workers 1 -> 2\nkeep consumer kept\nadd consumer new\n" \
               "stop consumer old\n" in text, text
        assert sessions(stage, "changed") == changed and not sessions(stage, "new"), "a dry run changed something"
        rc, done = reload(one)
        assert (rc, done["result"]) == (0, "applied") and done["plan"] == dry["plan"]
        names = {"changed": "c", "kept": "k", "new": "n"}
        for queue, key in names.items():
            stage.send(script(key), queue=queue)
        stage.vhost.wait_empty(*names)
        for consumer, key in names.items():
            stage.assert_once({key}, consumer)
        stage.send(script("o"), queue="old")
        assert stage.vhost.depth("old") == (1, 0)
        assert sessions(stage, "kept") == kept and not sessions(stage, "old")
        assert len(one.matches("event=consuming.*consumer=kept")) == consuming
        assert len(sessions(stage, "changed")) == 3 and not sessions(stage, "changed") & changed
        assert reload(one)[1]["result"] == "unchanged"


def runtime_of(one):
    """The runtime_dir that the daemon fixture gave it."""
    with open(one.file, encoding="utf-8") as file:
        return {"runtime_dir": re.search(r"^runtime_dir = (.*)$", file.read(), re.MULTILINE)[1]}


@pytest.mark.parametrize("mistake, says", [
    ({"consumer:changed": {"workers": 0}}, r"\[consumer:changed\] workers: must be"),
    ({"consumer:changed": {"wrokers": 2}}, "did you mean workers"),
    ({"consumer:new": {"plugin": "gone.so", "queue": "new"}}, r"\[consumer:new\] plugin: .*gone.so"),
    ({"consumer:changed": {"plugin.nonsense": 1}}, "no such option"),
    ({"database:main": {"conninfo": None}}, "conninfo"),
], ids=["value", "key", "plugin", "option", "database"])
def test_a_bad_one_changes_nothing_and_says_why(stage, daemon, shop, mistake, says):
    before, after = shop
    monitor = Monitor()
    before["effectd"]["http_listen"] = monitor.listen
    with daemon(before) as one:
        stage.ready(one, 3)
        wrong = {**after, "effectd": {**before["effectd"], **runtime_of(one)}}
        for section, keys in mistake.items():
            wrong[section] = {**wrong.get(section, {}), **keys}
        running = {name: sessions(stage, name) for name in ("changed", "kept", "old")}
        one.configure(wrong)
        done = one.command("reload")
        assert done.rc == 78 and re.search(rf"effectd.ini:\d+: .*{says}", done.stderr), done.stderr
        assert "goes on unchanged" in done.stderr and done.stdout == ""
        assert one.command("reload", "--dry-run").rc == 78
        mark = one.mark()
        one.signal(signal.SIGHUP)
        one.wait_log("event=reload_refused", since=mark)
        assert re.search(f"event=configuration_problem.*{says.split(':')[0][-8:]}", one.log()[mark:])
        assert {name: sessions(stage, name) for name in ("changed", "kept", "old")} == running
        metrics = monitor.metrics()
        assert metrics.value("effectd_config_reloads_total", result="refused") == 2
        assert metrics.value("effectd_config_last_reload_successful") == 0
        stage.send(script("k"), queue="old")
        stage.vhost.wait_empty("old")
        one.configure({**before, "effectd": {**before["effectd"], **runtime_of(one)}})
        assert reload(one)[1]["result"] == "unchanged"
        assert monitor.metrics().value("effectd_config_last_reload_successful") == 1


def test_a_plugin_that_was_replaced_is_loaded_new(stage, daemon, tmp_path):
    """By rename: the consumer of the old file goes on with the old code until it is drained."""
    stage.declare("work", "other")
    mine = tmp_path / "plugins" / "mine.so"
    mine.parent.mkdir(mode=0o755)
    shutil.copy(build.plugin("scripted"), mine)
    sections = stage.sections(consumers={"work": "work", "other": "other"})
    sections["consumer:work"]["plugin"] = mine
    with daemon(sections) as one:
        stage.ready(one, 2)
        stage.send(script("before"))
        stage.vhost.wait_empty("work")
        assert reload(one)[1]["result"] == "unchanged"
        for turn in range(3):
            fresh = tmp_path / "plugins" / "fresh.so"
            shutil.copy(build.plugin("scripted_batch"), fresh)
            os.rename(fresh, mine)
            answer = plan(reload(one)[1])
            assert answer["consumer", "work"][0] == "restart" and "plugin file" in answer["consumer", "work"][1]
            assert answer["consumer", "other"] == ("keep", "")
            stage.send(*[script(f"{turn}-{n}") for n in range(3)])
            stage.vhost.wait_empty("work")
            assert reload(one)[1]["result"] == "unchanged"
        with open(f"/proc/{one.pid}/maps", encoding="utf-8") as maps:
            files = {line.split()[4] for line in maps if "/mine.so" in line or "/fresh.so" in line}
        assert len(files) == 4, "one mapping a replaced file is what stays"
    stage.assert_once({"before", *(f"{turn}-{n}" for turn in range(3) for n in range(3))})


def test_what_is_in_hand_is_finished_before_a_consumer_starts_anew(stage, daemon):
    """One message is inside the plugin, others wait behind it, and none goes back to the queue."""
    stage.declare()
    sections = stage.sections(batch_max=1, prefetch=10)
    with daemon(sections) as one:
        stage.ready(one)
        stage.send(script("slow", sleep_ms=1500), *[script(f"k{n}") for n in range(5)])
        stage.wait_delivered(6)
        sections["effectd"].update(runtime_of(one))
        one.configure({**sections, "consumer:work": {**sections["consumer:work"], "max_attempts": 3}})
        assert reload(one)[1]["result"] == "applied"
        stage.vhost.wait_empty("work")
    counts = counted(one)
    assert outcomes(counts) == {"applied": 6} and counts["redelivered"] == 0
    stage.assert_once({"slow", *(f"k{n}" for n in range(5))})


def test_a_reload_lets_a_broken_consumer_try_again(stage, daemon):
    stage.declare()
    with daemon(stage.sections()) as one:
        stage.ready(one)
        stage.send(script("k", verdict="broken"))
        one.wait_log("event=consumer_broken")
        wait_until(lambda: stage.vhost.depth("work") == (1, 0), 15, "the delivery to go back")
        stage.vhost.get("work")
        assert plan(reload(one)[1])["consumer", "work"] == ("restart", "it was broken")
        stage.send(script("j"))
        stage.vhost.wait_empty("work")
    stage.assert_once({"j"})


def test_what_needs_a_restart_is_said_and_what_does_not_holds_at_once(stage, daemon):
    stage.declare()
    sections = stage.sections(process={"log_level": "info"})
    with daemon(sections) as one:
        stage.ready(one)
        sections["effectd"].update(runtime_of(one))
        running = sessions(stage, "work")
        one.configure({**sections, "effectd": {**sections["effectd"], "log_level": "debug",
                                               "http_listen": "127.0.0.1:1", "drain_timeout": "20s"}})
        done = one.command("reload")
        assert done.rc == 0, done
        assert "at once: log_level info -> debug, drain_timeout 25s -> 20s\n" in done.stdout
        assert "needs a restart of effectd: http_listen  -> 127.0.0.1:1\n" in done.stdout
        assert sessions(stage, "work") == running
        stage.send(script("k"))
        one.wait_log("level=debug")
        one.configure({**sections, "consumer:work": {**sections["consumer:work"], "workers": 2}})
        mark = one.mark()
        one.signal(signal.SIGHUP)
        one.wait_log("event=reloaded.*log_level debug -> info", since=mark)
        wait_until(lambda: len(sessions(stage, "work")) == 3, 15, "two workers and the retry runner")


def test_a_relay_is_started_anew_when_its_target_changes(stage, daemon):
    stage.declare()
    sections = {**stage.sections(),
                "target:mailer": {"type": "http", "url": "http://127.0.0.1:9/send"},
                "target:other": {"type": "http", "url": "http://127.0.0.1:9/other"},
                "relay:main": {"kind.receipt": "mailer"}, "relay:second": {"kind.other": "other"}}
    with daemon(sections) as one:
        stage.ready(one)
        second = {pid for name, pid in stage.db.rows(CONNECTIONS) if name == "effectd/relay:second/other"}
        sections["effectd"].update(runtime_of(one))
        sections["target:mailer"]["timeout"] = "3s"
        one.configure(sections)
        answer = plan(reload(one)[1])
        assert answer["relay", "main"] == ("restart", "timeout 10s -> 3s")
        assert answer["relay", "second"] == answer["consumer", "work"] == ("keep", "")
        assert second == {pid for name, pid in stage.db.rows(CONNECTIONS) if name == "effectd/relay:second/other"}
        del sections["relay:main"], sections["target:mailer"]
        one.configure(sections)
        assert plan(reload(one)[1])["relay", "main"][0] == "stop"
        wait_until(lambda: not stage.db.value(f"SELECT count(*) FROM ({CONNECTIONS}) a "
                                              "WHERE application_name LIKE '%%relay:main%%'"), 15, "its session to end")


def of_process(pid):
    """What may leak: (resident KiB, descriptors, threads)."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])


@pytest.mark.slow
def test_a_hundred_reloads_under_load_lose_nothing_and_leak_nothing(stage, daemon):
    """Every reload starts one consumer anew, by turns through each kind of change, while messages and duplicates come."""
    stage.declare("a", "b")
    sections = stage.sections(consumers={"a": "a", "b": "b"}, batch_max=10)
    keys = {"a": [], "b": []}
    with daemon(sections) as one:
        stage.ready(one, 2)
        sections["effectd"].update(runtime_of(one))
        figures = []
        for turn in range(100):
            for queue, done in keys.items():
                fresh = [f"{queue}{turn}-{n}" for n in range(20)]
                stage.send(*[script(key) for key in fresh + fresh[::5]], queue=queue)
                done += fresh
            sections["consumer:a"]["workers"] = 1 + turn % 2
            sections["consumer:b"]["max_attempts"] = 3 + turn % 4 // 2
            one.configure(sections)
            rc, answer = reload(one)
            assert rc == 0 and plan(answer)["consumer", "a"][0] == ("keep" if turn == 0 else "restart"), answer
            if turn % 2 == 0 and turn >= 10:
                figures.append(of_process(one.pid))
        stage.vhost.wait_empty("a", "b", timeout=60)
        assert len(FULL_PREFETCH.findall(one.log())) >= 100
        status = {c["name"]: c["outcomes"] for c in one.status()["consumers"]}
    for consumer, expected in keys.items():
        stage.assert_once(expected, consumer)
        assert status[consumer]["applied"] == 2000 and status[consumer]["duplicate"] >= 400
        assert counted(one, consumer)["applied"] == 2000, "counters go on over a reload"
    resident, descriptors, threads = zip(*figures)
    assert max(descriptors) - min(descriptors) <= 8, descriptors
    assert max(threads) - min(threads) <= 4, threads
    half = len(resident) // 2
    assert min(resident[half:]) <= max(resident[:half]) * 1.1, resident
