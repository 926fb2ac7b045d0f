"""What a service manager hears, and the watchdog: a plugin that hangs ends the process, nothing else does."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from lib import build
from lib.monitor import Monitor, ServiceManager
from lib.outbox import Outbox
from lib.provider import Provider
from lib.wait import wait_until
from stage import script

SHORT = {"watchdog": "1s"}


@pytest.fixture
def manager():
    one = ServiceManager()
    yield one
    one.close()


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def managed(stage, daemon, monitor, manager):
    """A factory of daemons that tell manager what they do."""
    stage.declare()

    def make(effectd=None, fault=None, watchdog_s=None, name="effectd", **settings):
        sections = stage.sections(**settings)
        sections["effectd"].update({"http_listen": monitor.listen, **(effectd or {})})
        env = {**manager.env(watchdog_s), **({"EFFECTD_FAULT": fault} if fault else {})}
        return daemon(sections, name=name, env=env)

    return make


def test_systemd_accepts_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    with open(os.path.join(build.FOLDER, "conf.d", "effectd.service"), encoding="utf-8") as file:
        unit = file.read()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    path = command.partition("=")[2].split()[0]
    here = tmp_path / "effectd.service"
    here.write_text(unit.replace(path, build.EFFECTD))  # it is not installed where the unit says
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    for line in ("Type=notify", "Restart=always", "StartLimitIntervalSec=0", "RuntimeDirectory=effectd"):
        assert f"\n{line}\n" in unit


def test_it_hears_ready_a_status_and_stopping(stage, managed, manager):
    with managed(effectd={"summary_interval": "1s"}):
        manager.wait("READY=1")
        manager.wait("STATUS=ready; 1 consumer; 0 applied, 0 duplicate, 0 parked")
        stage.send(script("k"), script("k"), script("p", verdict="reject"))
        manager.wait("STATUS=ready; 1 consumer; 1 applied, 1 duplicate, 1 parked")
        assert manager.count("STOPPING=1") == 0
    manager.wait("STOPPING=1")
    assert manager.count("READY=1") == 1


def test_ready_does_not_wait_for_postgresql(managed, manager, pg):
    pg.stop("fast")
    try:
        with managed() as daemon:
            manager.wait("READY=1")
            manager.wait("STATUS=not ready: database: .*")
            assert daemon.alive()
    finally:
        pg.start()


def test_readiness_that_changes_is_told(managed, manager, pg):
    with managed():
        manager.wait("STATUS=ready; .*")
        heard = len(manager.listen())
        pg.stop("fast")
        try:
            manager.wait("STATUS=not ready: database: .*", since=heard)
        finally:
            pg.start()
        heard = len(manager.listen())
        manager.wait("STATUS=ready; .*", since=heard)


def test_a_start_that_fails_is_not_ready(managed, manager):
    with managed(name="first"):
        manager.wait("READY=1")
        assert managed(name="second").start().wait_exit() == 69
        assert manager.count("READY=1") == 1


def test_pings_come_at_half_the_interval_and_while_postgresql_is_away(managed, manager, pg):
    with managed(watchdog_s=1):
        wait_until(lambda: manager.count("WATCHDOG=1") >= 3, 10, "three pings")
        pg.stop("fast")
        try:
            before, start = manager.count("WATCHDOG=1"), time.monotonic()
            wait_until(lambda: manager.count("WATCHDOG=1") >= before + 4, 10, "four more pings")
            assert time.monotonic() - start < 4
        finally:
            pg.start()


def test_without_a_watchdog_it_does_not_ping(managed, manager):
    with managed(effectd={"summary_interval": "1s"}):
        for seen in range(3):
            wait_until(lambda: sum(line.startswith("STATUS=") for line in manager.listen()) > seen, 10, "a status")
        assert manager.count("WATCHDOG=1") == 0


def test_a_loop_that_does_not_turn_gets_no_ping_and_is_not_live(stage, managed, manager, monitor, fault_points):
    with managed(effectd=SHORT, watchdog_s=1, fault="after_claim=delay:6000@1") as daemon:
        manager.wait("WATCHDOG=1")
        monitor.wait_reasons()
        stage.send(script("k"))
        wait_until(lambda: not monitor.live(), 5, "the daemon not to be live", explain=daemon.log_tail)
        assert monitor.get("/healthz").body.startswith("stuck: consumer work, worker 1: ")
        assert "stuck" in monitor.reasons()
        before = manager.count("WATCHDOG=1")
        time.sleep(1.2)  # more than two pings would be due
        assert manager.count("WATCHDOG=1") == before
        wait_until(monitor.live, 10, "the daemon to be live again")
        manager.wait("WATCHDOG=1", since=len(manager.listen()))
        stage.assert_once({"k"})


def test_a_relay_s_lane_that_does_not_turn_gets_no_ping_and_is_not_live(db, daemon, runtime_dir, manager, monitor,
                                                                        fault_points):
    outbox = Outbox(db, daemon, runtime_dir)
    outbox.add(1)
    with Provider() as provider, \
            outbox.http(provider, effectd={**SHORT, "http_listen": monitor.listen}, env=manager.env(1),
                        fault="outbox_answered=delay:6000@1") as relay:
        wait_until(lambda: monitor.reasons() == {"stuck"}, 15, "the lane to be stuck", explain=relay.log_tail)
        assert monitor.get("/healthz").body.startswith("stuck: relay main, target there: ")
        before = manager.count("WATCHDOG=1")
        time.sleep(1.2)  # more than two pings would be due
        assert manager.count("WATCHDOG=1") == before
        wait_until(monitor.live, 10, "the daemon to be live again")
        manager.wait("WATCHDOG=1", since=len(manager.listen()))
        outbox.wait(sent=1)


def test_a_plugin_that_hangs_ends_the_process(stage, managed):
    daemon = managed(effectd=SHORT, name="hangs").start()
    stage.ready(daemon)
    stage.send(script("k", sleep_ms=600000))
    start = time.monotonic()
    assert daemon.wait_exit() == 70
    assert 0.5 < time.monotonic() - start < 6
    daemon_log = daemon.log()
    assert "event=plugin_hangs consumer=work worker=1 function=apply ms=1" in daemon_log, daemon.log_tail()
    assert stage.effects() == {} and stage.claims() == set()


def test_only_time_inside_the_plugin_counts(stage, managed):
    """A lock that PostgreSQL waits for, and a slow plugin below the limit, are no hang."""
    with managed(effectd={"watchdog": "1s"}, database={"lock_timeout": "30s"}) as daemon, stage.gate() as open_gate:
        stage.ready(daemon)
        stage.send(script("gate"), script("slow", sleep_ms=700), script("slower", sleep_ms=700))
        stage.wait_blocked()
        time.sleep(3)  # three times the watchdog
        assert daemon.alive()
        open_gate()
        wait_until(lambda: stage.claims() == {"gate", "slow", "slower"}, 15, "all to be applied",
                   explain=daemon.log_tail)


@pytest.mark.slow
def test_a_process_that_was_stopped_is_not_taken_for_one_that_hangs(stage, managed):
    with managed(effectd={"watchdog": "5s"}) as daemon:
        stage.ready(daemon)
        stage.send(script("k", sleep_ms=7500))
        stage.wait_delivered(1)
        time.sleep(1.2)  # the watchdog, which looks once a second, has seen the plugin run
        daemon.signal(signal.SIGSTOP)
        time.sleep(5.5)  # the plugin runs for two of its 7.5 s
        daemon.signal(signal.SIGCONT)
        wait_until(lambda: stage.claims() == {"k"}, 15, "the message to be applied", explain=daemon.log_tail)
        assert "plugin_hangs" not in daemon.log()
