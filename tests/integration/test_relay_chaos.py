"""Everything at once: a provider that misbehaves, relays that are killed, rows with and without an order."""
import random
import threading
from collections import Counter, defaultdict

import pytest

from lib.outbox import Outbox
from lib.provider import OK, Answer, Provider
from lib.wait import wait_until
from stage import script

ROWS, LANES = 1000, 20
MOODS = [Answer(500), Answer(429, headers={"Retry-After": "1"}), Answer(status=0), Answer(delay=0.8),
         Answer(body=b"x" * 1000, drop=True), Answer(body=b"x" * 10_000_000), Answer(503, b"x" * 10_000_000)]


@pytest.mark.slow
def test_a_thousand_rows_reach_a_bad_provider_once_each_and_in_order(db, daemon, runtime_dir):
    outbox = Outbox(db, daemon, runtime_dir)
    chance, lock = random.Random(20240501), threading.Lock()
    connection = db.connect()
    connection.autocommit = True

    def committed(call):
        with lock:
            found, = connection.execute("SELECT count(*) FROM effectd.outbox WHERE idempotency_key = %s",
                                        (call.key,)).fetchone()
        assert found == 1, f"{call.key} was called before its commit"

    def rule(call):
        with lock:
            bad = call.nth < 4 and chance.random() < 0.08
            return chance.choice(MOODS) if bad else OK

    def write():
        """Half of the rows have an order; some transactions roll back, their numbers come again."""
        with db.connect() as writer:
            writer.autocommit = False
            for n in range(1, ROWS // 2 + 1):
                outbox.add(n, prefix="free", connection=writer)
                outbox.add(n, prefix=f"lane{n % LANES}", ordering_key=f"lane{n % LANES}", connection=writer)
                if n % 50 == 7:
                    writer.rollback()
                    outbox.add(n, prefix="free", connection=writer)
                    outbox.add(n, prefix=f"lane{n % LANES}", ordering_key=f"lane{n % LANES}", connection=writer)
                writer.commit()

    with Provider(rule, committed) as provider:
        relays = [outbox.http(provider, name=f"relay-{i}", target={"timeout": "500ms"},
                              relay={"lease": "2s", "max_attempts": 100, "in_flight": 16}).start() for i in range(2)]
        writer = threading.Thread(target=write)
        writer.start()
        for kill in range(4):
            wait_until(lambda: len(provider.effects) > (kill + 1) * 150, 60, "effects")
            relays[kill % 2].kill()
            relays[kill % 2].start()
        writer.join()
        outbox.wait(sent=ROWS, timeout=120)
        for relay in relays:
            relay.stop()
    connection.close()
    assert not provider.errors, provider.errors[:3]
    assert Counter(provider.effects.keys()).total() == len(set(provider.keys())) == ROWS
    order = defaultdict(list)
    for key in provider.effects:
        name, number = key.split("/")
        order[name].append(int(number))
    assert all(order[f"lane{i}"] == sorted(order[f"lane{i}"]) for i in range(LANES))


@pytest.mark.slow
def test_the_rows_of_one_effect_are_called_with_their_keys_whoever_is_killed(stage, daemon, runtime_dir, fault_points):
    """The consumer dies between commit and ack, the message comes again; the relay dies twice on the way."""
    rows = 1000
    outbox = Outbox(stage.db, daemon, runtime_dir)
    stage.declare()
    with Provider(lambda call: Answer(delay=0.005)) as provider:
        relay = outbox.http(provider, kinds=("test",), target={"timeout": "2s"}, relay={"lease": "3s", "in_flight": 16})
        dying = stage.daemon(name="dying", fault="before_ack=exit@1")
        relay.start()
        dying.start()
        stage.send(script("many", *[["outbox"]] * rows))
        assert dying.wait_exit() == 86
        with stage.daemon():
            for kill in range(2):
                wait_until(lambda: len(provider.effects) > kill * 300 + 100, 60, "effects")
                relay.kill()
                relay.start()
            stage.vhost.wait_empty("work")
            outbox.wait(sent=rows, timeout=60)
        relay.stop()
    assert set(provider.keys()) == provider.effects.keys() == {f"work/many/{n}" for n in range(1, rows + 1)}
