"""effectd outbox: what an operator sees of outbox rows, and what retry and drop do with them."""
import json

import pytest

from lib.outbox import Outbox
from lib.provider import OK, Answer, Provider
from lib.wait import wait_until


@pytest.fixture
def outbox(db, daemon, runtime_dir):
    return Outbox(db, daemon, runtime_dir)


@pytest.fixture
def command(outbox):
    """The command: command("list", ...) gives the result, or its data with --json."""
    daemon = outbox.relay({"type": "http", "url": "http://127.0.0.1:1/"}, name="command")

    def run(*args, rc=0):
        done = daemon.command("outbox", *args)
        assert done.rc == rc, done
        return json.loads(done.stdout) if "--json" in args else done
    return run


def test_list_and_show_tell_all_of_a_row(outbox, command):
    first, second = outbox.add(1, 2, headers='{"X-Shop": "north"}')
    outbox.add(3, kind="other")
    outbox.db.execute("UPDATE effectd.outbox SET status = 'dead', attempts = 20, last_error = 'HTTP 400: no\x1b[2J' "
                      "WHERE id = %s", (second,))
    rows = command("list", "--json")
    assert [(row["idempotency_key"], row["kind"], row["status"]) for row in rows] == [
        ("key/1", "call", "pending"), ("key/2", "call", "dead"), ("key/3", "other", "pending")]
    assert [row["id"] for row in command("list", "--json", "--status", "dead")] == [second]
    assert [row["id"] for row in command("list", "--json", "--kind", "call", "--status", "pending")] == [first]
    text = command("list", "--status", "dead").stdout
    assert "IDEMPOTENCY KEY" in text and "key/2" in text and "\x1b" not in text and "20" in text
    shown = command("show", str(second), "--json")
    assert shown["payload"] == {"n": 2} and shown["headers"] == {"X-Shop": "north"} and shown["attempts"] == 20
    assert '"n": 2' in command("show", str(second)).stdout
    assert "no outbox row" in command("show", "999999", rc=1).stderr
    assert "no outbox row is like that" in command("list", "--kind", "nothing").stderr


def test_a_retry_goes_out_with_the_same_key(outbox, command):
    ids = outbox.add(1, 3)
    refuse = [True]
    with Provider(lambda call: Answer(400) if refuse[0] else OK) as provider, \
            outbox.http(provider, relay={"poll_interval": "1h"}):
        outbox.wait(dead=3)
        refuse[0] = False
        assert {row["action"] for row in command("retry", "--all", "--dry-run", "--json")} == {"retry"}
        assert outbox.counts() == {"dead": 3}
        told = command("retry", str(ids[0]), str(ids[1]))
        assert "2 due" in told.stderr
        outbox.wait(sent=2, dead=1)
        told = command("retry", "--all")
        assert "1 due" in told.stderr and "2 left: they are sent" in told.stderr
        outbox.wait(sent=3)
    assert sorted(provider.keys()) == ["key/1", "key/1", "key/2", "key/2", "key/3", "key/3"]
    assert set(provider.effects) == {"key/1", "key/2", "key/3"}


def test_a_dropped_row_lets_its_ordering_key_go_on(outbox, command):
    ids = outbox.add(1, 4, ordering_key="one")
    with Provider(lambda call: Answer(500) if call.body["n"] == 1 else OK) as provider, \
            outbox.http(provider, relay={"poll_interval": "1h", "retry_min": "1h", "retry_max": "1h"}):
        outbox.db.execute("NOTIFY effectd_outbox")
        outbox.wait(pending=4)
        wait_until(lambda: outbox.row(ids[0])[2], 15, "the first call's failure")
        assert "drop what?" in command("drop", rc=2).stderr
        assert "--yes" in command("drop", str(ids[0]), rc=2).stderr
        told = command("drop", str(ids[0]), "--yes")
        assert "1 dropped" in told.stderr
        outbox.db.execute("NOTIFY effectd_outbox")
        outbox.wait(sent=3)
    assert provider.keys() == ["key/1", "key/2", "key/3", "key/4"]


def test_what_is_being_called_is_left_alone(outbox, command):
    row_id, = outbox.add(1)
    outbox.db.execute("UPDATE effectd.outbox SET leased_until = now() + interval '1 min', attempts = 1")
    assert "1 left: they are being called" in command("retry", str(row_id)).stderr
    assert "1 left: they are being called" in command("drop", str(row_id), "--yes").stderr
    assert outbox.counts() == {"pending": 1}
