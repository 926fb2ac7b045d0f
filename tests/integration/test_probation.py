"""A message that kills the process: restarts find it, it is parked, and no innocent one is parked or lost with it."""
import json
import os

import pytest

from lib.daemon import keep_up
from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, script

ENDS = {"segv": -11, "recurse": -11, "abort": -6, "exit": 70, "exit0": 70, "loop": 70, "thread_exit": 70}
ATTEMPTS = "SELECT consumer, crashes FROM effectd.attempts"
# Deaths that a culprit may bring about: one in normal running, which writes nothing down, and three that are counted.
MOST = 4


@pytest.fixture(autouse=True)
def a_crash_stays_a_crash(monkeypatch):
    """The address sanitizer would make an exit of its own of it."""
    monkeypatch.setenv("ASAN_OPTIONS", f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0")


@pytest.fixture
def troupe(stage):
    """Sends messages, keeps a daemon up until the queues are empty, and returns the exit codes."""
    def play(messages, queues=(QUEUE,), timeout=60, daemons=None, running=False, **settings):
        """messages: by queue, or a list for the first one. running: they come when probation is over."""
        messages = messages if isinstance(messages, dict) else {queues[0]: messages}
        daemons = daemons or [stage.daemon(workers=2, prefetch=300, **settings)]
        for one in daemons if running else []:
            mark = one.mark()
            one.start()
            stage.ready(one, 2 * len(queues), since=mark)
        for queue, some in messages.items():
            stage.send(*some, queue=queue)
        for one in [] if running else daemons:
            one.start()
        codes = keep_up(daemons, lambda: all(stage.vhost.depth(queue) == (0, 0) for queue in queues), timeout)
        for one in daemons:
            one.stop()
        return codes
    return play


def crashed(stage):
    """The keys that are parked, all of them dead for a crash."""
    rows = stage.parked()
    assert {(row.status, row.reason) for row in rows} <= {("dead", "crash")}, rows
    return {row.key for row in rows}


def bodies(stage):
    """What the parked messages are, for those that were never asked for a key."""
    return [json.loads(body)["key"] for body, in stage.db.rows("SELECT body FROM effectd.parked_messages")]


@pytest.mark.parametrize("how", ENDS)
def test_a_message_that_ends_the_process_is_parked_and_its_siblings_are_applied(stage, troupe, how):
    names = [f"k{n:03}" for n in range(120)]
    culprit = {"key": "culprit", "die": how}
    stage.declare()
    codes = troupe([*map(script, names[:60]), culprit, *map(script, names[60:])], running=True,
                   process={"watchdog": "1s"})
    assert set(codes) == {ENDS[how]} and 3 <= len(codes) <= MOST
    assert bodies(stage) == ["culprit"] and len(crashed(stage)) == 1
    stage.assert_once(names)
    assert stage.db.rows(ATTEMPTS) == []


@pytest.mark.parametrize("queue", [{"queue_type": "classic"}, {"arguments": {"x-delivery-limit": 12}}],
                         ids=["classic", "delivery limit"])
def test_nobody_is_lost_in_two_consumers_of_two_workers(stage, troupe, queue):
    """Culprits in both, each among innocents; the queue would drop what comes back too often. A culprit goes back with
    each of its own deaths, and with those that it waits for: of the culprit of the other consumer."""
    consumers = {"work": QUEUE, "other": "other"}
    names = [f"k{n:03}" for n in range(150)]
    stage.declare(QUEUE, "other", **queue)
    messages = {QUEUE: [*map(script, names[:100]), {"key": "bad", "die": "segv"}, *map(script, names[100:])],
                "other": [{"key": "worse", "die": "exit"}, *map(script, names)]}
    codes = troupe(messages, (QUEUE, "other"), consumers=consumers, running=True)
    assert len(codes) <= 2 * MOST
    assert sorted(bodies(stage)) == ["bad", "worse"] and len(crashed(stage)) <= 2
    stage.assert_once(names)
    stage.assert_once(names, "other")
    assert stage.db.rows(ATTEMPTS) == []


def test_innocents_go_back_hardly_ever(stage, troupe):
    """Once with the crash in normal running, and one of them with each that follows: the queue drops none."""
    names = [f"k{n:03}" for n in range(200)]
    stage.declare(arguments={"x-delivery-limit": 6})
    codes = troupe([*map(script, names[:100]), {"key": "culprit", "die": "segv"}, *map(script, names[100:])],
                   running=True)
    assert len(codes) <= MOST
    assert bodies(stage) == ["culprit"]
    stage.assert_once(names)


def test_two_processes_on_one_queue_find_it_together(stage, troupe):
    names = [f"k{n:03}" for n in range(200)]
    stage.declare(arguments={"x-delivery-limit": 20})
    daemons = [stage.daemon(name, workers=2, prefetch=300) for name in ("first", "second")]
    codes = troupe([*map(script, names[:50]), {"key": "culprit", "die": "segv"}, *map(script, names[50:])],
                   daemons=daemons, running=True)
    assert 3 <= len(codes) <= 2 * MOST
    assert bodies(stage) == ["culprit"] and len(crashed(stage)) == 1
    stage.assert_once(names)


def test_slow_innocents_beside_the_culprit_are_not_taken_for_it(stage, troupe):
    """They are inside plugin code for most of the time in which the process dies."""
    names = [f"k{n}" for n in range(8)]
    slow = [script(name, sleep_ms=150) for name in names]
    stage.declare()
    troupe([*slow[:4], {"key": "culprit", "die": "segv"}, *slow[4:]], running=True, batch_max=1)
    assert bodies(stage) == ["culprit"] and len(crashed(stage)) == 1
    stage.assert_once(names)
    assert stage.db.rows(ATTEMPTS) == []


def test_a_crash_in_key_is_found_as_well(stage, troupe):
    names = [f"k{n:02}" for n in range(40)]
    stage.declare()
    codes = troupe([*map(script, names[:20]), {"key": "culprit", "key_die": "abort"}, *map(script, names[20:])])
    assert 3 <= len(codes) <= MOST
    assert bodies(stage) == ["culprit"] and len(crashed(stage)) == 1
    stage.assert_once(names)
    assert stage.db.rows(ATTEMPTS) == []


def test_several_culprits_of_one_queue_are_all_found(stage, troupe):
    names = [f"k{n:02}" for n in range(60)]
    culprits = [{"key": f"culprit{n}", "die": how} for n, how in enumerate(("segv", "exit0", "kill"))]
    stage.declare()
    codes = troupe([*culprits[:2], *map(script, names[:30]), culprits[2], *map(script, names[30:])])
    assert 9 <= len(codes) <= 3 * MOST
    assert sorted(bodies(stage)) == ["culprit0", "culprit1", "culprit2"]
    crashed(stage)
    stage.assert_once(names)
    assert stage.db.rows(ATTEMPTS) == []


def test_what_was_parked_for_crashes_is_parked_again_after_one_more(stage, troupe):
    """A copy of it comes in normal running, where nobody looks; after the restart it is known, and not called again."""
    culprit = {"key": "culprit", "die": "segv"}
    stage.declare()
    assert len(troupe([culprit])) >= 3
    assert troupe([culprit, script("k")], running=True) == [-11]
    (row,) = stage.parked()
    assert (row.reason, row.deliveries) == ("crash", 2)
    stage.assert_once({"k"})
    assert stage.db.rows(ATTEMPTS) == []


def test_a_parked_row_whose_replay_crashes_dies_and_takes_nobody_with_it(stage, troupe):
    names = [f"k{n:03}" for n in range(200)]
    stage.declare()
    daemon = stage.daemon(workers=2, prefetch=300).start()
    stage.ready(daemon, 2)
    stage.db.execute("INSERT INTO effectd.parked_messages (consumer, message_key, fingerprint, body, status, reason,"
                     " next_attempt_at) VALUES ('work', 'culprit', sha256('culprit'), %s, 'retry', 'rejected', now()),"
                     " ('work', 'good', sha256('good'), '{\"key\": \"good\"}', 'retry', 'rejected', now())",
                     (json.dumps({"key": "culprit", "die": "segv"}).encode(),))
    stage.send(*map(script, names))

    # The lease of a process that died would run for two minutes.
    codes = keep_up([daemon], lambda: stage.vhost.depth(QUEUE) == (0, 0) and
                    [row.status for row in stage.parked()] == ["dead"],
                    meanwhile=lambda: stage.db.execute("UPDATE effectd.parked_messages SET leased_until = NULL"))
    daemon.stop()
    assert codes == [-11] * 3
    assert crashed(stage) == {"culprit"}
    stage.assert_once([*names, "good"])


def test_a_person_may_retry_what_crashed_once_the_plugin_is_mended(stage, tmp_path):
    defect = tmp_path / "defect"
    defect.touch()
    stage.declare()
    message = {"key": "k", "die_while": str(defect)}
    daemon = stage.daemon().start()
    stage.ready(daemon)
    stage.send(message, script("z"))
    assert 3 <= len(keep_up([daemon], stage.parked)) <= MOST
    defect.unlink()
    assert daemon.command("parked", "retry", "--reason", "crash").rc == 0
    wait_until(lambda: not stage.parked(), 15, "the row to be applied", explain=stage.parked)
    daemon.stop()
    stage.assert_once({"k", "z"})


def test_the_count_goes_whatever_becomes_of_the_message(stage, troupe, tmp_path):
    """Each of them kills the process once, and is then applied, ignored, parked or a duplicate."""
    fuses = {}
    for name in ("applied", "ignored", "rejected", "retried", "duplicate"):
        fuses[name] = tmp_path / name
        fuses[name].touch()
    stage.declare()
    verdicts = {"ignored": "ignore", "rejected": "reject", "retried": "retry"}
    messages = [{"key": name, "die_once": str(fuse), **({"verdict": verdicts[name]} if name in verdicts else {})}
                for name, fuse in fuses.items() if name != "duplicate"]
    messages += [{"key": "duplicate", "die_once": str(fuses["duplicate"]), "n": n} for n in range(2)]
    codes = troupe([*messages, script("k")], retry_min="1h", retry_max="1h")
    assert len(codes) == 5 and not any(os.path.exists(fuse) for fuse in fuses.values())
    stage.assert_once({"applied", "duplicate", "k"})
    assert {row.key: (row.status, row.reason) for row in stage.parked()} == {
        "rejected": ("dead", "rejected"), "retried": ("retry", "rejected")}
    assert stage.db.rows(ATTEMPTS) == []


def test_normal_running_asks_nothing_of_the_journal(stage):
    """The server's own log of statements: the journal is written in probation, and never after it."""
    stage.db.execute(f"ALTER DATABASE {stage.db.name} SET log_statement = 'all'")
    server_log = stage.db.server.log

    def statements(since=0):
        with open(server_log, encoding="utf-8", errors="replace") as file:
            file.seek(since)
            return file.read()
    stage.declare()
    stage.send(*[script(f"a{n}") for n in range(50)])
    with stage.daemon(workers=2) as daemon:
        stage.vhost.wait_empty(QUEUE)
        stage.ready(daemon, 2)
        assert "execute journal_enter" in statements() and "execute journal_forget" in statements()
        start = os.path.getsize(server_log)
        stage.send(*[script(f"b{n}") for n in range(500)])
        stage.send(*[script(f"c{n}", verdict="reject") for n in range(3)])
        stage.vhost.wait_empty(QUEUE)
        running = statements(start)
    assert "execute claim" in running and "execute park" in running
    assert "journal" not in running and "effectd.attempts" not in running
    assert outcomes(counted(daemon)) == {"applied": 550, "parked": 3}


def test_order_is_kept_around_a_culprit(stage, troupe):
    names = [f"k{n:02}" for n in range(40)]
    stage.declare(arguments={"x-single-active-consumer": True})
    daemons = [stage.daemon(order="queue")]
    codes = troupe([*map(script, names[:20]), {"key": "culprit", "die": "segv"}, *map(script, names[20:])],
                   daemons=daemons)
    assert 3 <= len(codes) <= MOST
    assert bodies(stage) == ["culprit"]
    assert stage.order() == names
