"""effectd explain: what the database knows of one key."""
import json

import pytest

from stage import CONSUMER, script


@pytest.fixture
def explain(stage):
    daemon = stage.daemon()

    def ask(key, *more, rc=0):
        done = daemon.command("explain", "--consumer", CONSUMER, key, *more)
        assert done.rc == rc, done.stderr
        return json.loads(done.stdout) if "--json" in more else done.stdout
    return ask


def whats(answer):
    return [line["what"] for line in answer["story"]]


def test_the_story_of_a_key_is_told(stage, explain):
    stage.deliver(script("good"), script("bad", verdict="reject", say="no such \x1b[1m customer"))
    stage.db.execute("INSERT INTO effectd.outbox (consumer, message_key, kind, idempotency_key, payload, status, sent_at)"
                     " VALUES ('work', 'good', 'mail', 'k', '{}', 'sent', now())")
    good, bad, nobody = (explain(key, "--json") for key in ("good", "bad", "nobody"))
    assert (good["claimed"], good["parked"], whats(good)) == (True, False, ["claimed", "outbox"])
    assert "sent at" in good["story"][1]["text"]
    assert (bad["claimed"], bad["parked"], whats(bad)) == (False, True, ["parked"])
    assert "rejected: no such" in bad["story"][0]["text"]
    assert (nobody["claimed"], nobody["parked"], whats(nobody)) == (False, False, [])
    stage.db.execute("INSERT INTO effectd.attempts (consumer, fingerprint, crashes) "
                     "SELECT consumer, fingerprint, 2 FROM effectd.parked_messages")
    inside = explain("bad", "--json")["story"][-1]
    assert inside["what"] == "inside" and "2 times when a process died" in inside["text"]
    assert "applied: another delivery of it would be a duplicate" in explain("good")
    assert explain("good").endswith("claims are kept: 30d\n")
    assert "\x1b" not in explain("bad") and "not known" in explain("nobody")


def test_a_key_that_is_claimed_on_two_days_is_pointed_out(stage, explain):
    stage.db.execute("CREATE TABLE effectd.days PARTITION OF effectd.processed_messages_daily "
                     "FOR VALUES FROM ('2026-11-01') TO ('2026-12-01'); INSERT INTO effectd.processed_messages_daily "
                     "VALUES ('work', 'torn', '2026-11-29'), ('work', 'torn', '2026-11-30'), ('work', 'k', '2026-11-30')")
    assert "more than one day" in explain("torn") and whats(explain("torn", "--json")) == ["claimed"] * 2
    assert "more than one day" not in explain("k")


def test_another_consumer_s_key_of_that_name_is_left_out(stage, explain):
    stage.db.execute("INSERT INTO effectd.processed_messages VALUES ('other', 'k')")
    assert not explain("k", "--json")["claimed"]


@pytest.mark.parametrize("args, rc, words", [
    (["--consumer", "work"], 2, "one key"), (["--consumer", "no", "k"], 78, "[consumer:no]"),
])
def test_wrong_calls_say_what_is_right(stage, args, rc, words):
    done = stage.daemon().command("explain", *args)
    assert done.rc == rc and words in done.stderr
