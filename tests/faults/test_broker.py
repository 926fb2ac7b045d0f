"""Whatever the broker, or the way to it, does to a consumer: it recovers by itself, nothing is lost or applied twice.

An acknowledgement belongs to the channel that delivered the message. One that comes too late is not sent: on the next
channel its number would mean another message, or be an error that closes the channel again.
"""
import itertools
import os

import pika
import pytest

from lib.monitor import Monitor
from lib.proxy import HOLD, SWALLOW, TO_CLIENT, TO_SERVER, Proxy
from lib.wait import wait_until
from stage import QUEUE, counted, outcomes, script

NAMES = [f"k{n:02}" for n in range(20)]
CHANNEL = 1  # on which effectd consumes
CLOSE_ALL = 'lists:foreach(fun(Pid) -> rabbit_networking:close_connection(Pid, "test") end, ' \
            'rabbit_networking:connections()), ok.'
MEMORY = "{resource_limit, memory, node()}"


class Way:
    """An effectd whose way to RabbitMQ leads through a proxy, with what it shows of itself."""

    def __init__(self, stage, rabbit, proxy):
        self.stage, self.rabbit, self.proxy, self.monitor = stage, rabbit, proxy, Monitor()

    def daemon(self, heartbeat="30s", **settings):
        return self.stage.daemon(process={"http_listen": self.monitor.listen},
                                 broker={"url": self.proxy.url(self.stage.vhost), "heartbeat": heartbeat}, **settings)

    def acks(self):
        return self.proxy.passed["> basic.ack"]

    def consumers(self):
        """How many consumers the broker sees on the queue."""
        with self.stage.vhost.connect() as connection:
            return connection.channel().queue_declare(QUEUE, passive=True).method.consumer_count


@pytest.fixture
def way(stage, rabbit):
    with Proxy("amqp", rabbit.port) as proxy:
        yield Way(stage, rabbit, proxy)


@pytest.fixture
def impatient(rabbit):
    """A broker that closes the channel of a consumer that keeps a delivery for a second."""
    def patience(timeout_ms, tick_ms):
        rabbit.eval(f"application:set_env(rabbit, consumer_timeout, {timeout_ms}), "
                    f"application:set_env(rabbit, channel_tick_interval, {tick_ms}).")

    patience(1000, 200)
    yield
    patience(1800000, 60000)


def cut(way):
    way.proxy.cut()


def close(way):
    way.rabbit.eval(CLOSE_ALL)


def channel_error(way):
    """An acknowledgement that the broker cannot understand."""
    way.proxy.inject(TO_SERVER, pika.frame.Method(CHANNEL, pika.spec.Basic.Ack(987654321)).marshal())


@pytest.mark.parametrize("lose", [cut, close, channel_error])
def test_what_commits_after_its_channel_is_gone_is_never_acknowledged(way, stage, lose):
    """The whole batch waits for a claim while its channel goes away; all of it comes again and is recognised."""
    names = [*NAMES, "last"]
    stage.declare()
    with stage.gate() as open_first, stage.gate("last") as open_last, way.daemon() as daemon:
        stage.ready(daemon)
        stage.send(script("gate"))
        stage.wait_blocked()
        stage.send(*[script(key) for key in names])
        stage.wait_delivered(len(names) + 1)
        open_first()
        wait_until(lambda: stage.vhost.depth(QUEUE) == (0, len(names)), 15, "the first delivery to be settled")
        stage.wait_blocked()
        acks = way.acks()
        lose(way)
        wait_until(lambda: stage.vhost.depth(QUEUE) == (len(names), 0), 15, "all deliveries to go back")
        again = way.proxy.arm("> basic.consume", HOLD)
        open_last()
        again.wait()
        assert stage.effects() == {name: 1 for name in [*names, "gate"]} and way.acks() == acks
        again.release()
        stage.vhost.wait_empty(QUEUE)
        assert daemon.log().count("event=broker_lost") == 1
    counts = counted(daemon)
    assert outcomes(counts) == {"applied": 1 + len(names), "duplicate": len(names)}
    assert counts["redelivered"] == len(names)
    stage.assert_once([*names, "gate"])


def test_a_channel_that_the_broker_closes_for_want_of_an_ack_is_opened_again(way, stage, impatient):
    """consumer_timeout: the delivery waits for a claim for longer than the broker is willing to."""
    stage.declare()
    with stage.gate() as open_gate, way.daemon() as daemon:
        stage.send(script("gate"))
        stage.wait_blocked()
        stage.wait_delivered(1)
        wait_until(lambda: stage.vhost.depth(QUEUE) == (1, 0), 15, "the broker to lose its patience")
        open_gate()
        stage.vhost.wait_empty(QUEUE)
        daemon.wait_log("event=broker_lost.*406.*timeout")
    assert outcomes(counted(daemon)) == {"applied": 1, "duplicate": 1}
    stage.assert_once({"gate"})


def test_a_link_that_breaks_again_and_again_leaves_one_consumer(way, stage):
    numbers = itertools.count()
    stage.declare()
    with way.daemon() as daemon:
        stage.ready(daemon)
        fds = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        for _ in range(15):
            stage.send(*[script(f"k{next(numbers)}") for _ in range(100)])
            way.proxy.cut()
        stage.vhost.wait_empty(QUEUE)
        assert way.consumers() == way.proxy.connections() == 1
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < fds + 5, "one for each break would be a leak"
        assert way.monitor.metrics().value("effectd_reconnects_total", peer="broker:main") >= 1
        assert way.monitor.reasons() == set()
    assert counted(daemon)["applied"] == 1500
    stage.assert_once(f"k{n}" for n in range(1500))


def test_what_comes_between_deliveries_disturbs_nobody(way, stage):
    """Methods that a consumer does not ask for: alarms, confirms, flow, something newer than this AMQP."""
    newer = bytes([1, 0, CHANNEL, 0, 0, 0, 4, 0, 60, 3, 231, 206])  # class basic, method 999
    spec = pika.spec
    stage.declare()
    with way.daemon() as daemon:
        stage.ready(daemon)
        for channel, method in [(0, spec.Connection.Blocked("low on memory")), (0, spec.Connection.Unblocked()),
                                (CHANNEL, spec.Basic.Ack(1)), (CHANNEL, spec.Basic.Nack(1)),
                                (CHANNEL, spec.Channel.Flow(True)), (7, spec.Basic.Ack(1))]:
            way.proxy.inject(TO_CLIENT, pika.frame.Method(channel, method).marshal())
            stage.send(script(method.NAME + str(channel)))
            stage.vhost.wait_empty(QUEUE)
        assert "broker_lost" not in daemon.log()
        way.proxy.inject(TO_CLIENT, newer)
        stage.send(script("newer"))
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon))["applied"] == 7 and not stage.parked()


@pytest.mark.parametrize("channel, method", [(0, pika.spec.Connection.Close(320, "CONNECTION_FORCED - test", 0, 0)),
                                             (CHANNEL, pika.spec.Channel.Close(541, "INTERNAL_ERROR - test", 0, 0)),
                                             (CHANNEL, pika.spec.Basic.Cancel("somebody"))],
                         ids=["connection.close", "channel.close", "basic.cancel"])
def test_what_the_broker_ends_is_begun_again(way, stage, channel, method):
    stage.declare()
    with way.daemon() as daemon:
        stage.ready(daemon)
        way.proxy.inject(TO_CLIENT, pika.frame.Method(channel, method).marshal())
        daemon.wait_log("event=broker_lost")
        stage.send(script("k"))
        stage.vhost.wait_empty(QUEUE)
    stage.assert_once({"k"})


def test_a_slow_link_is_slow_and_nothing_else(way, stage):
    stage.declare()
    way.proxy.delay_s = 0.1
    with way.daemon(heartbeat="1s") as daemon:
        stage.send(*[script(f"k{n}") for n in range(300)])
        stage.vhost.wait_empty(QUEUE)
        assert "broker_lost" not in daemon.log()
    assert outcomes(counted(daemon)) == {"applied": 300}


@pytest.mark.parametrize("ways", [(TO_SERVER, TO_CLIENT), (TO_SERVER,), (TO_CLIENT,)],
                         ids=["silence", "broker_reads_nothing", "broker_says_nothing"])
def test_a_half_open_connection_is_found_by_heartbeats(way, stage, ways):
    """Nothing is reset and nothing closed, the bytes just stay away."""
    stage.declare()
    with way.daemon(heartbeat="1s") as daemon:
        stage.ready(daemon)
        stage.send(script("before"))
        stage.vhost.wait_empty(QUEUE)
        way.proxy.stall(*ways)
        stage.send(script("behind"))
        daemon.wait_log("event=broker_lost")
        way.monitor.wait_reasons("broker")
        way.proxy.resume()
        stage.vhost.wait_empty(QUEUE)
        way.monitor.wait_reasons()
    stage.assert_once({"before", "behind"})


def test_a_queue_that_is_deleted_and_declared_again_is_consumed_again(way, stage):
    stage.declare()
    with way.daemon() as daemon:
        stage.ready(daemon)
        stage.send(script("a"))
        stage.vhost.wait_empty(QUEUE)
        with stage.vhost.connect() as connection:
            connection.channel().queue_delete(QUEUE)
        daemon.wait_log("event=broker_lost.*cancelled")
        daemon.wait_log("event=broker_unavailable.*code=404")
        way.monitor.wait_reasons("broker")
        stage.declare().send(script("b"))
        stage.vhost.wait_empty(QUEUE)
        way.monitor.wait_reasons()
    assert outcomes(counted(daemon)) == {"applied": 2}


def test_what_is_in_hand_when_its_queue_is_deleted_is_applied(way, stage):
    stage.declare()
    with stage.gate() as open_gate, way.daemon() as daemon:
        stage.ready(daemon)
        stage.send(script("gate"))
        stage.wait_blocked()
        with stage.vhost.connect() as connection:
            connection.channel().queue_delete(QUEUE)
        open_gate()
        wait_until(lambda: stage.effects().keys() == {"gate"}, 15, "the delivery in hand to be applied")
        stage.declare().send(script("b"), script("gate"))
        stage.vhost.wait_empty(QUEUE)
    assert outcomes(counted(daemon)) == {"applied": 2, "duplicate": 1}
    stage.assert_once({"gate", "b"})


def test_a_broker_that_blocks_publishers_is_consumed_from(way, stage, rabbit):
    """Started under the alarm as well: nothing that effectd does waits for the alarm to end."""
    stage.declare().send(*[script(key) for key in NAMES])
    rabbit.eval(f"rabbit_alarm:set_alarm({{{MEMORY}, []}}).")
    try:
        with way.daemon(declare="yes", bind__1="amq.topic:order.*") as daemon:
            stage.vhost.wait_empty(QUEUE)
            way.monitor.wait_reasons()
    finally:
        rabbit.eval(f"rabbit_alarm:clear_alarm({MEMORY}).")
    assert outcomes(counted(daemon)) == {"applied": len(NAMES)}
    stage.assert_once(NAMES)


def test_a_queue_with_other_arguments_stops_its_consumer_alone(way, stage, daemon):
    """That no reconnect will mend: 406."""
    stage.declare(QUEUE, "other")
    sections = stage.sections(consumers={"work": QUEUE, "other": "other"}, process={"http_listen": way.monitor.listen})
    sections["consumer:work"].update({"declare": "yes", "queue_type": "classic"})
    with daemon(sections) as one:
        one.wait_log(r"event=consumer_closed.*406")
        way.monitor.wait_reasons("closed")
        stage.send(script("b"), queue="other")
        stage.vhost.wait_empty("other")
        assert one.log().count("406") == 1
    stage.assert_once({"b"}, "other")


def test_a_password_that_changes_and_comes_back_is_waited_for(way, stage, rabbit):
    def password(word):
        rabbit.eval(f'rabbit_auth_backend_internal:change_password(<<"effectd">>, <<"{word}">>, <<"test">>), ok.')

    stage.declare()
    with way.daemon() as daemon:
        stage.ready(daemon)
        try:
            password("other")
            way.proxy.cut()
            daemon.wait_log("event=broker_unavailable.*code=403")
        finally:
            password("effectd")
        stage.send(script("k"))
        stage.vhost.wait_empty(QUEUE)
    stage.assert_once({"k"})


def test_a_consumer_that_gets_nothing_although_messages_are_ready_connects_again(way, stage):
    """The broker believes that it delivers; heartbeats go on and nobody sees an error."""
    stage.declare()
    with way.daemon(heartbeat="1s", prefetch=3, batch_max=3) as daemon:
        stage.ready(daemon)
        stage.send(script("before"))
        stage.vhost.wait_empty(QUEUE)
        way.proxy.arm("< basic.deliver", SWALLOW, times=None)
        stage.send(*[script(key) for key in NAMES])
        daemon.wait_log(r"event=stalled\b.*ready=17")
        way.monitor.wait_reasons("stalled")
        way.proxy.disarm()
        stage.vhost.wait_empty(QUEUE)
        way.monitor.wait_reasons()
        assert way.monitor.metrics().value("effectd_reconnects_total", peer="broker:main") >= 1
    assert outcomes(counted(daemon)) == {"applied": 1 + len(NAMES)}
    stage.assert_once([*NAMES, "before"])


def test_a_queue_that_is_empty_or_busy_is_no_stall(way, stage):
    stage.declare()
    with stage.gate() as open_gate, way.daemon(heartbeat="1s", prefetch=2, batch_max=1) as daemon:
        stage.ready(daemon)
        wait_until(lambda: way.proxy.passed["> queue.declare"] >= 3, 20, "it to look for a stall while it is idle")
        asked = way.proxy.passed["> queue.declare"]
        stage.send(script("gate"), *[script(key) for key in NAMES])
        stage.wait_blocked()
        heard = way.proxy.passed["> heartbeat"]
        wait_until(lambda: way.proxy.passed["> heartbeat"] >= heard + 12, 20, "three heartbeats of waiting for a claim")
        assert way.proxy.passed["> queue.declare"] <= asked + 1
        open_gate()
        stage.vhost.wait_empty(QUEUE)
        assert "stalled" not in daemon.log() and "broker_lost" not in daemon.log()
