"""effectd status, and how it reaches the daemon: pid file and socket in runtime_dir."""
import os
import stat

from lib.daemon import effectd
from lib.wait import wait_until
from stage import script


def runtime_dir(daemon):
    with open(daemon.file, encoding="utf-8") as file:
        return next(line.split(" = ")[1].strip() for line in file if line.startswith("runtime_dir"))


def test_it_tells_what_each_consumer_does(stage):
    stage.declare()
    with stage.daemon(workers=2) as one:
        stage.ready(one, 2)
        stage.send(*[script(f"k{n}") for n in range(9)], script("k0"), script("no", verdict="reject"))
        stage.vhost.wait_empty("work")
        wait_until(lambda: one.status()["consumers"][0]["database_connections"] == 2, 15, "both workers to be there")
        status = one.status()
        consumer, = status["consumers"]
        assert status["ready"] and status["reasons"] == [] and status["pid"] == one.pid
        assert status["config_file"] == one.file and status["reloads"]["applied"] == 0
        assert consumer["state"] == "running" and consumer["workers"] == consumer["broker_connections"] == 2
        assert consumer["outcomes"] == {"applied": 9, "duplicate": 1, "stale": 0, "ignored": 0, "retried": 0,
                                        "parked": 1}
        assert consumer["deliveries"] == 11 and round(consumer["duplicate_percent"], 1) == 9.1
        done = one.command("status")
        assert done.rc == 0 and ", ready\n" in done.stdout
        line = next(line.split() for line in done.stdout.splitlines() if line.startswith("work "))
        assert line[:4] == ["work", "running", "2/2", "2/2"] and line[5:8] == ["11", "9", "9.09%"]
        with stage.no_database():
            wait_until(lambda: not one.status()["ready"], 15, "it to be not ready")
            done = one.command("status")
            assert done.rc == 1 and "not ready" in done.stdout and "database: consumer work" in done.stdout
        wait_until(lambda: one.status()["ready"], 30, "it to be ready again")


def test_who_may_ask_is_told_by_the_modes_of_the_files(stage):
    stage.declare()
    with stage.daemon() as one:
        stage.ready(one)
        folder = runtime_dir(one)
        socket = os.path.join(folder, "effectd.sock")
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700 and stat.S_IMODE(os.stat(socket).st_mode) == 0o660
        with open(os.path.join(folder, "effectd.pid"), encoding="ascii") as file:
            assert int(file.read()) == one.pid
    assert os.listdir(folder) == []


def test_nobody_there_is_said_as_such(stage):
    one = stage.daemon()
    done = one.command("status")
    assert done.rc == 69 and "no effectd runs there" in done.stderr
    done = effectd("reload", "-c", one.file)
    assert done.rc == 69 and "no effectd runs there" in done.stderr


def test_what_a_killed_daemon_left_is_replaced_and_a_second_one_is_refused(stage):
    stage.declare()
    one = stage.daemon().start()
    stage.ready(one)
    one.kill()
    assert sorted(os.listdir(runtime_dir(one))) == ["effectd.pid", "effectd.sock"]
    assert one.command("status").rc == 69
    with one:
        wait_until(lambda: one.command("status").rc == 0, 15, "it to answer", explain=one.log_tail)
        second = effectd("run", "-c", one.file)
        assert second.rc == 69 and f"another effectd (pid {one.pid}) runs in {runtime_dir(one)}" in second.stderr
        assert "another runtime_dir" in second.stderr
        assert one.status()["pid"] == one.pid, "the second one took nothing away"


def test_a_folder_that_cannot_be_used_costs_only_the_commands(stage, tmp_path):
    stage.declare()
    (tmp_path / "file").write_text("")
    one = stage.daemon(process={"runtime_dir": tmp_path / "file" / "run"})
    with one:
        one.wait_log("event=no_control.*runtime_dir")
        stage.send(script("k"))
        stage.vhost.wait_empty("work")
    stage.assert_once({"k"})
