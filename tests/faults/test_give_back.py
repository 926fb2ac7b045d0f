"""A consumer that stops gives its deliveries back once, and does not ask for them again just to see whether it can go
on: each return counts, and a queue with a delivery limit of three drops what comes back a fourth time."""
from statistics import median

import pytest

from lib.wait import wait_until
from stage import counted, outcomes, run, script

pytestmark = pytest.mark.slow

LIMIT = {"x-delivery-limit": 3}
CLOSED = r"event=consumer_closed consumer={} "


def returns(stage, queue):
    """How often each message of the queue went back to it so far; one more after this.

    One that is on its way to a consumer that is cancelled counts as returned too, so a few may be ahead of the rest.
    """
    with stage.vhost.connect() as connection:
        channel = connection.channel()
        answers = iter(lambda: channel.basic_get(queue), (None, None, None))
        return [(properties.headers or {}).get("x-delivery-count", 0) for _, properties, _ in answers]


@pytest.mark.slow
def test_a_closed_consumer_tries_again_without_the_broker(stage):
    """A table is missing, and a plugin rejects everything. Four workers each; they must not pass it round either."""
    stage.declare("bad_sql", "rejects", arguments=LIMIT)
    consumers = {"bad_sql": "bad_sql", "rejects": "rejects"}
    missing = [script(f"k{number}", run("INSERT INTO later VALUES (1)"), ["effect"]) for number in range(40)]
    with stage.daemon(consumers=consumers, workers=4, batch_max=30, prefetch=30) as daemon:
        stage.ready(daemon, 8)
        stage.send(*missing, queue="bad_sql")
        stage.send(*[script(f"r{number}", verdict="reject") for number in range(400)], queue="rejects")
        for consumer in consumers:  # the second time after 30 s
            wait_until(lambda: len(daemon.matches(CLOSED.format(consumer))) == 2, 60, f"{consumer} to be closed twice",
                       explain=daemon.log_tail)
            wait_until(lambda: stage.vhost.depth(consumer).unacked == 0, 10, "the deliveries to go back")
            counts = [count for count in returns(stage, consumer) if count > 0]  # the others were never delivered
            assert median(counts) == 1 and max(counts) <= 3, "they came and went more than once"
        assert not stage.effects("bad_sql")
    stage.db.execute("CREATE TABLE later (n int)")
    with stage.daemon(consumers={"bad_sql": "bad_sql"}) as daemon:
        stage.vhost.wait_empty("bad_sql")
    assert outcomes(counted(daemon, "bad_sql")) == {"applied": 40}
    stage.assert_once({message["key"] for message in missing}, "bad_sql")
