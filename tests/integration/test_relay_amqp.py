"""AMQP targets: persistent, mandatory, confirmed, the message id made of the key."""
import json

import pytest

from lib.monitor import Monitor
from lib.outbox import Outbox
from lib.wait import wait_until

QUEUE = "effects"


@pytest.fixture
def outbox(db, daemon, runtime_dir):
    return Outbox(db, daemon, runtime_dir)


def target(vhost, **more):
    return {"type": "amqp", "url": vhost.url, "routing_key": QUEUE, **more}


def drained(vhost, queue=QUEUE):
    """Takes everything out of the queue: (properties, body) in order."""
    messages = []
    with vhost.connect() as connection:
        channel = connection.channel()
        while (got := channel.basic_get(queue, auto_ack=True))[0]:
            messages.append(got[1:])
    return messages


def test_rows_are_published_persistent_with_their_key_as_message_id(outbox, vhost):
    vhost.declare(QUEUE)
    outbox.add(1, 300, headers='{"shop": "north", "vip": true}')
    with outbox.relay(target(vhost)):
        outbox.wait(sent=300)
    messages = drained(vhost)
    assert sorted(p.message_id for p, _ in messages) == sorted(f"key/{n}" for n in range(1, 301))
    assert sorted(json.loads(body)["n"] for _, body in messages) == list(range(1, 301))
    for properties, _ in messages:
        assert (properties.delivery_mode, properties.content_type, properties.type, properties.app_id) == (
            2, "application/json", "call", "effectd")
        properties.headers.pop("x-delivery-count", None)  # a quorum queue's
        assert properties.timestamp and properties.headers == {
            "x-idempotency-key": properties.message_id, "shop": "north", "vip": "true"}


def test_large_bodies_and_long_keys(outbox, vhost):
    vhost.declare(QUEUE)
    long_key, text = "ü" * 200, "x" * 1_000_000
    for key, payload in ((long_key, {"n": 1}), ("large", {"text": text})):
        outbox.db.execute("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) "
                          "VALUES ('test', 'call', %s, %s::jsonb)", (key, json.dumps(payload)))
    with outbox.relay(target(vhost)):
        outbox.wait(sent=2)
    by_key = {properties.headers["x-idempotency-key"]: (properties.message_id, json.loads(body))
              for properties, body in drained(vhost)}
    digest = outbox.db.value("SELECT encode(sha256(convert_to(%s, 'UTF8')), 'hex')", (long_key,))
    assert by_key == {long_key: (digest, {"n": 1}), "large": ("large", {"text": text})}


def test_what_is_routed_nowhere_is_not_sent(outbox, vhost):
    """Every third row: exactly those come back. The target is an exchange with one binding for each kind."""
    vhost.declare(QUEUE)
    vhost.bind("out", "there", QUEUE)
    outbox.add(1, 60)
    outbox.add(61, 90, kind="lost")
    sections = {"target:nowhere": target(vhost, exchange="out", routing_key="nowhere")}
    with outbox.relay(target(vhost, exchange="out", routing_key="there"),
                      relay={"kind.lost": "nowhere", "max_attempts": 2}, **sections) as relay:
        outbox.wait(sent=60, dead=30)
        assert outbox.db.rows("SELECT DISTINCT kind, attempts, last_error FROM effectd.outbox "
                              "WHERE status = 'dead'") == [
            ("lost", 2, "no queue is bound for it: the broker returned it, 312 NO_ROUTE")]
        vhost.bind("out", "nowhere", QUEUE)
        outbox.db.execute("UPDATE effectd.outbox SET status = 'pending', next_attempt_at = now() "
                          "WHERE status = 'dead'; NOTIFY effectd_outbox")
        outbox.wait(sent=90)
        assert "event=outbox_row_dead" in relay.log()
    assert sorted(json.loads(body)["n"] for _, body in drained(vhost)) == list(range(1, 91))


def test_what_the_broker_refuses_is_tried_again(outbox, vhost):
    """A full queue answers basic.nack for some of what is under way."""
    vhost.declare(QUEUE, queue_type="classic", arguments={"x-max-length": 20, "x-overflow": "reject-publish"})
    outbox.add(1, 50)
    got = []
    with outbox.relay(target(vhost), relay={"max_attempts": 1000}):
        wait_until(lambda: outbox.db.value("SELECT count(*) FROM effectd.outbox WHERE last_error = "
                                           "'the broker refused it (basic.nack)'"), 15, "a refusal")
        while len(got) < 50:
            got += drained(vhost)
        outbox.wait(sent=50)
    assert sorted(json.loads(body)["n"] for _, body in got) == list(range(1, 51))


def test_rows_that_wait_for_a_broker_are_told_of(outbox):
    monitor = Monitor()
    row_id, = outbox.add(1)
    with outbox.relay({"type": "amqp", "url": "amqp://127.0.0.1:9", "routing_key": QUEUE},
                      effectd={"http_listen": monitor.listen}):
        wait_until(lambda: "rows wait for target there" in (monitor.get("/readyz").body if monitor.reasons() == set()
                                                            else ""), 15, "a note of it")
        assert outbox.row(row_id)[0] == "pending"


def test_an_exchange_that_is_missing_is_named_and_waited_for(outbox, vhost):
    vhost.declare(QUEUE)
    outbox.add(1, 5)
    with outbox.relay(target(vhost, exchange="later", routing_key="there"), relay={"max_attempts": 1000}) as relay:
        relay.wait_log("event=broker_lost.*NOT_FOUND")
        vhost.bind("later", "there", QUEUE)
        outbox.wait(sent=5)
    assert {json.loads(body)["n"] for _, body in drained(vhost)} == set(range(1, 6))


def test_a_relay_killed_before_the_confirm_publishes_again_with_the_same_message_id(outbox, vhost, fault_points):
    vhost.declare(QUEUE)
    outbox.add(1, 20)
    short = {"timeout": "400ms"}
    dying = outbox.relay(target(vhost, **short), name="dying", relay={"lease": "1s"}, fault="outbox_called=exit@5")
    dying.start()
    assert dying.wait_exit() == 86
    with outbox.relay(target(vhost, **short), relay={"lease": "1s"}):
        outbox.wait(sent=20)
    messages = drained(vhost)
    assert {properties.message_id for properties, _ in messages} == {f"key/{n}" for n in range(1, 21)}
    assert all(properties.message_id == f"key/{json.loads(body)['n']}" for properties, body in messages)


@pytest.mark.slow
def test_a_broker_that_dies_between_publish_and_confirm_loses_nothing(outbox, vhost, rabbit):
    """Rows flow while the broker is killed; what has no confirm goes again with the same message id."""
    vhost.declare(QUEUE)
    outbox.add(1, 2000)
    with outbox.relay(target(vhost, timeout="3s"), relay={"max_attempts": 1000, "lease": "5s"}) as relay:
        wait_until(lambda: outbox.counts()["sent"] > 200, 30, "some confirms")
        rabbit.kill()
        relay.wait_log("event=broker_lost")
        rabbit.start()
        outbox.wait(sent=2000, timeout=60)
    messages = drained(vhost)
    assert {properties.message_id for properties, _ in messages} == {f"key/{n}" for n in range(1, 2001)}
    assert {json.loads(body)["n"] for _, body in messages} == set(range(1, 2001))
