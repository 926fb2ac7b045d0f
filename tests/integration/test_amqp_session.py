"""The AMQP session against a real broker, driven by amqp_driver.c; pika is the other side."""
import json
import os
import re
import signal
import socket
import subprocess
import time

import pika
import pytest

from lib import build
from lib.proxy import Proxy
from lib.wait import wait_until

DRIVER = os.path.join(build.FOLDER, "tests", "integration", "amqp_driver")
PLENTY = 64 << 20  # bytes to buffer
FRAME_BODY = 131072 - 8


class Driver:
    """One process with one session; each method is a command and returns its answer."""

    def __init__(self, **environment):
        self.process = subprocess.Popen([DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def command(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the driver ended at {words[0]}"
        return json.loads(line)

    def open(self, url, heartbeat=10, password="-", ca="-", verify="yes"):
        return self.command("open", url, heartbeat, password, ca, "-", "-", verify)

    def consume(self, queue, prefetch=100, buffer_bytes=PLENTY, max_body=PLENTY, declare="no", *more):
        return self.command("consume", queue, prefetch, buffer_bytes, max_body, declare, *more)

    def take(self, count, seconds=20):
        answer = self.command("take", count, int(seconds * 1000))
        for one in answer["deliveries"]:
            for name in ("exchange", "routing_key", "properties", "body"):
                one[name] = bytes.fromhex(one[name])
        return answer

    def deliveries(self, count):
        answer = self.take(count)
        got = answer["deliveries"]
        assert ok(answer) and len(got) == count, f"{len(got)} of {count}: {answer['text']}"
        return got

    def idle(self, seconds):
        return self.command("idle", int(seconds * 1000))

    def ack(self, epoch, tag, multiple=False):
        return self.command("ack", epoch, tag, "multiple" if multiple else "single")

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def sockets(self):
        folder = f"/proc/{self.process.pid}/fd"
        return sum(os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder))

    def end(self):
        self.process.stdin.close()
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.stdout.close()


def ok(answer):
    return answer["status"] == "ok"


@pytest.fixture
def driver():
    one = Driver()
    yield one
    assert one.end() == 0


@pytest.fixture
def session(driver, vhost):
    """A driver that is connected."""
    assert ok(driver.open(vhost.url))
    return driver


@pytest.fixture
def queue(vhost):
    vhost.declare("q")
    return "q"


def publish(vhost, *bodies, queue="q", properties=None, confirm=True):
    with vhost.connect() as connection:
        channel = connection.channel()
        if confirm:
            channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body, properties or pika.BasicProperties(delivery_mode=2), mandatory=True)


def connections(rabbit, *columns):
    return [line.split("\t") for line in rabbit.ctl("list_connections", *columns, "--no-table-headers").splitlines()]


def test_bodies_of_every_size_arrive_whole_and_in_order(session, vhost, queue):
    sizes = [0, 1, 100, FRAME_BODY - 1, FRAME_BODY, FRAME_BODY + 1, 2 * FRAME_BODY, 2 * FRAME_BODY + 1, 5 << 20, 3]
    bodies = [os.urandom(size) for size in sizes]
    publish(vhost, *bodies)
    assert ok(session.consume(queue))
    assert [one["body"] for one in session.deliveries(len(bodies))] == bodies


def test_properties_are_kept_byte_for_byte(session, vhost, queue):
    properties = pika.BasicProperties(
        content_type="application/json", content_encoding="utf-8", delivery_mode=2, priority=1, correlation_id="c",
        reply_to="r", expiration="60000", message_id="m", timestamp=1700000000, type="t", user_id="effectd",
        app_id="a", headers={"text": "h\u00e9", "int": 1 << 40, "yes": True, "none": None, "nested": {"list": [1, "x", {"y": 2}]},
                             "bytes": b"\x00\xff"})
    publish(vhost, b"x", properties=properties)
    assert ok(session.consume(queue))
    assert session.deliveries(1)[0]["properties"] == b"".join(properties.encode())


def test_exchange_and_routing_key_arrive(session, vhost, queue):
    exchange, key, bodies = "e" * 200, "k." * 120, [b"small", os.urandom(100_000), b"again"]
    vhost.bind(exchange, key, queue)
    with vhost.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish(exchange, key, body)
    assert ok(session.consume(queue))
    for one, body in zip(session.deliveries(3), bodies):
        assert (one["exchange"], one["routing_key"], one["body"]) == (exchange.encode(), key.encode(), body)


def test_a_body_above_max_body_is_whole_and_flagged(session, vhost, queue):
    bodies = [b"a" * 1000, b"b" * 1001, os.urandom(3 << 20), b"c"]
    publish(vhost, *bodies)
    assert ok(session.consume(queue, 10, 1 << 20, 1000))
    got = []
    for i in range(len(bodies)):
        got += session.deliveries(1)
        session.command("return", i, i)
    assert [one["oversized"] for one in got] == [False, True, True, False]
    assert [one["body"] for one in got] == bodies


def test_headers_that_fill_a_frame_survive_a_redelivery(session, vhost, queue):
    """The broker then adds x-delivery-count without looking at the frame's limit."""
    headers = {"fill": "x" * (131072 - 8 - 14 - 4 - len("fill") - 6)}
    publish(vhost, b"x", properties=pika.BasicProperties(headers=headers))
    for deliveries in range(3):
        assert ok(session.consume(queue))
        one = session.deliveries(1)[0]
        assert (b"x-delivery-count" in one["properties"]) == (deliveries > 0)
        assert len(one["properties"]) >= 131072 - 8 - 12
    assert ok(session.ack(one["epoch"], one["tag"]))
    vhost.wait_empty(queue)


def test_reading_pauses_at_the_buffer_limit_and_goes_on(driver, vhost, queue):
    """While it pauses the session still sends heartbeats: it lives longer than the broker's patience."""
    bodies = [os.urandom(100_000) for _ in range(200)]
    publish(vhost, *bodies)
    assert ok(driver.open(vhost.url, heartbeat=1))
    assert ok(driver.consume(queue, 200, 1_000_000))
    assert ok(driver.idle(5))
    state = driver.command("state")
    assert not state["reading"] and state["connected"]
    assert driver.rss_kib() < 60_000 or "asan" in build.FOLDER
    got = []
    while len(got) < len(bodies):
        batch = driver.take(5)["deliveries"]
        driver.command("return", len(got), len(got) + len(batch) - 1)
        got += batch
    assert [one["body"] for one in got] == bodies


def test_a_connection_that_breaks_while_reading_pauses_is_noticed(driver, rabbit, vhost, queue):
    """And found by poll(), not by spinning on it."""
    publish(vhost, *[os.urandom(100_000) for _ in range(20)])
    with Proxy("amqp", rabbit.port) as proxy:
        assert ok(driver.open(proxy.url(vhost), heartbeat=60))
        assert ok(driver.consume(queue, 20, 200_000))
        assert ok(driver.idle(0.5))
        assert not driver.command("state")["reading"]
        proxy.cut()
        assert driver.idle(5)["status"] == "unavailable"


def test_a_line_that_drips_and_stops_within_a_frame_loses_nothing(driver, rabbit, vhost, queue):
    bodies = [os.urandom(size) for size in (0, 5, 700, 1, 300)]
    publish(vhost, *bodies)
    with Proxy("amqp", rabbit.port) as proxy:
        assert ok(driver.open(proxy.url(vhost)))
        proxy.piece = 1
        assert ok(driver.consume(queue))
        got = []
        while len(got) < len(bodies):
            answer = driver.take(1, 0.01)  # most of them end within a frame
            assert ok(answer)
            got += answer["deliveries"]
        assert [one["body"] for one in got] == bodies
        assert ok(driver.ack(got[0]["epoch"], len(got), multiple=True))
        vhost.wait_empty(queue)
        assert ok(driver.command("close_channel"))
        publish(vhost, os.urandom(1000))
        proxy.left = 500
        assert ok(driver.consume(queue))
        assert not driver.take(1, 0.5)["deliveries"]
        proxy.cut()
        assert driver.idle(5)["status"] == "unavailable"
        driver.command("destroy")
    assert ok(driver.open(vhost.url))
    assert ok(driver.consume(queue))
    assert driver.deliveries(1)[0]["redelivered"]


def test_prefetch_bounds_what_is_delivered(session, vhost, queue):
    publish(vhost, *[b"x"] * 20)
    assert ok(session.consume(queue, 7))
    assert len(session.take(20, 1)["deliveries"]) == 7
    assert vhost.depth(queue) == (13, 7)


def test_acks_single_and_multiple_empty_the_queue(session, vhost, queue):
    publish(vhost, *[b"x"] * 10)
    assert ok(session.consume(queue))
    got = session.deliveries(10)
    epoch = got[0]["epoch"]
    assert ok(session.ack(epoch, got[5]["tag"]))
    wait_until(lambda: vhost.depth(queue) == (0, 9), 10, "one ack")
    assert ok(session.ack(epoch, got[8]["tag"], multiple=True))
    wait_until(lambda: vhost.depth(queue) == (0, 1), 10, "a multiple ack")
    assert ok(session.idle(0.2))


def test_an_ack_of_an_old_epoch_is_dropped(session, vhost, queue):
    publish(vhost, *[b"x"] * 3)
    assert ok(session.consume(queue))
    old = session.deliveries(3)
    assert ok(session.command("close_channel"))
    assert ok(session.ack(old[0]["epoch"], 3, multiple=True))
    assert ok(session.consume(queue))
    new = session.deliveries(3)
    assert all(one["redelivered"] for one in new) and new[0]["epoch"] != old[0]["epoch"]
    assert ok(session.ack(old[0]["epoch"], 3, multiple=True))
    assert ok(session.idle(0.3))
    assert vhost.depth(queue) == (0, 3)


def test_tag_0_is_never_sent(session, vhost, queue):
    publish(vhost, b"x")
    assert ok(session.consume(queue))
    one = session.deliveries(1)[0]
    for multiple in (True, False):
        assert session.ack(one["epoch"], 0, multiple)["status"] == "internal"
    assert ok(session.idle(0.3))
    assert vhost.depth(queue) == (0, 1)


def test_closing_the_channel_gives_everything_back(session, vhost, queue):
    publish(vhost, *[b"%d" % i for i in range(50)])
    assert ok(session.consume(queue, 50))
    taken = session.deliveries(5)
    assert ok(session.command("close_channel"))
    assert session.command("state")["epoch"] == 0
    wait_until(lambda: vhost.depth(queue) == (50, 0), 10, "the broker to take them back")
    again = session.command("show", 2)  # what was taken stays readable
    assert bytes.fromhex(again["body"]) == taken[2]["body"]
    assert not session.take(1, 0.3)["deliveries"]
    assert ok(session.command("close_channel"))


def test_closing_the_channel_under_a_stream_leaves_nothing_of_the_old_epoch(session, vhost, queue):
    publish(vhost, *[b"%d" % i for i in range(2000)])
    for _ in range(10):
        assert ok(session.consume(queue, 2000))
        got = session.take(100)["deliveries"]
        assert [one["tag"] for one in got] == list(range(1, 101))
        assert len({one["epoch"] for one in got}) == 1
        assert ok(session.command("close_channel"))


def test_cancel_stops_deliveries_and_keeps_the_channel_for_acks(session, vhost, queue):
    publish(vhost, b"1", b"2")
    assert ok(session.consume(queue))
    got = session.deliveries(2)
    assert ok(session.command("cancel"))
    assert not session.command("state")["cancelled"]
    assert ok(session.idle(0.3))
    assert session.command("state")["cancelled"]
    publish(vhost, b"3")
    assert not session.take(1, 0.5)["deliveries"]
    assert ok(session.ack(got[0]["epoch"], 2, multiple=True))
    assert ok(session.command("close_channel"))
    assert vhost.depth(queue) == (1, 0)
    assert ok(session.consume(queue))
    assert not session.command("state")["cancelled"]
    session.deliveries(1)


def test_a_deleted_queue_is_reported_and_the_session_goes_on(session, vhost, queue):
    assert ok(session.consume(queue))
    with vhost.connect() as connection:
        connection.channel().queue_delete(queue)
    answer = session.idle(10)
    assert (answer["status"], answer["code"]) == ("refused", 0) and "cancelled" in answer["text"]
    assert session.idle(0)["status"] == "refused"  # until its owner acts
    answer = session.consume(queue)
    assert (answer["status"], answer["code"]) == ("refused", 404)
    vhost.declare(queue)
    publish(vhost, b"x")
    assert ok(session.consume(queue))
    session.deliveries(1)


def test_a_channel_closed_by_the_broker_is_reported_and_the_session_goes_on(session, vhost, queue):
    publish(vhost, *[b"x"] * 3)
    assert ok(session.consume(queue))
    one = session.deliveries(1)[0]
    assert ok(session.ack(one["epoch"], 77))  # 406: no such delivery
    answer = session.idle(10)
    assert (answer["status"], answer["code"]) == ("refused", 406)
    assert session.command("state")["epoch"] == 0
    assert not session.take(1, 0.2)["deliveries"]
    assert ok(session.ack(one["epoch"], 1))
    assert ok(session.consume(queue))
    session.deliveries(3)


def test_a_connection_closed_by_the_broker_is_unavailable(session, rabbit, vhost, queue):
    publish(vhost, b"x")
    assert ok(session.consume(queue))
    one = session.deliveries(1)[0]
    rabbit.ctl("close_all_connections", "--vhost", vhost.name, "maintenance")
    answer = session.idle(10)
    assert (answer["status"], answer["code"]) == ("unavailable", 320) and "maintenance" in answer["text"]
    for late in (session.ack(one["epoch"], 1), session.consume(queue), session.command("close_channel"),
                 session.command("ready", queue), session.command("cancel"), session.idle(0)):
        assert late["status"] == "unavailable"
    assert not session.command("state")["connected"]


def test_a_silent_broker_is_noticed_within_three_heartbeats(driver, rabbit, vhost, queue):
    assert ok(driver.open(vhost.url, heartbeat=1))
    assert ok(driver.consume(queue))
    assert ok(driver.idle(4))  # a living one is heard
    rabbit._process.signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        answer = driver.idle(10)
        assert answer["status"] == "unavailable", answer
        assert time.monotonic() - start < 4
        start = time.monotonic()
        driver.command("destroy")
        assert time.monotonic() - start < 1
    finally:
        rabbit._process.signal(signal.SIGCONT)
    wait_until(rabbit._ready, 30, "RabbitMQ to take connections again")


def test_calls_to_a_silent_broker_end(driver, rabbit, vhost, queue):
    assert ok(driver.open(vhost.url, heartbeat=2))
    assert ok(driver.consume(queue))
    rabbit._process.signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        assert driver.command("close_channel")["status"] == "unavailable"
        assert time.monotonic() - start < 12
    finally:
        rabbit._process.signal(signal.SIGCONT)
    wait_until(rabbit._ready, 30, "RabbitMQ to take connections again")


def test_a_wrong_password_is_refused_and_leaks_no_socket(driver, vhost):
    for _ in range(3):
        answer = driver.open(vhost.url, password="wrong")
        assert (answer["status"], answer["code"]) == ("refused", 403)
        assert "wrong" not in answer["text"]
    assert driver.sockets() == 0
    assert ok(driver.open(vhost.url.replace(":effectd@", ":wrong@"), password="effectd"))


def test_an_unknown_vhost_is_refused(driver, rabbit):
    answer = driver.open(rabbit.url("nowhere"))
    assert (answer["status"], answer["code"]) == ("refused", 530)


def test_a_url_is_checked_and_decoded(driver, rabbit, vhost):
    assert driver.open("http://127.0.0.1")["status"] == "invalid"
    assert driver.open("amqp://user@host:port")["status"] == "invalid"
    assert ok(driver.open(vhost.url.replace("effectd:", "effect%64:")))


def test_a_port_where_nobody_listens_is_unavailable(driver):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert driver.open(f"amqp://127.0.0.1:{sock.getsockname()[1]}/")["status"] == "unavailable"
    assert driver.open("amqp://nowhere.invalid/")["status"] == "unavailable"


@pytest.mark.slow
def test_a_peer_that_accepts_and_says_nothing_is_given_up(driver):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        for scheme in ("amqp", "amqps"):
            start = time.monotonic()
            assert driver.open(f"{scheme}://127.0.0.1:{sock.getsockname()[1]}/")["status"] == "unavailable"
            assert time.monotonic() - start < 16


def test_a_queue_is_declared_with_its_arguments_and_bound(session, vhost):
    more = ("quorum", "amq.topic", "order.*", "x-delivery-limit", "7", "x-overflow", "reject-publish")
    assert ok(session.consume("made", 10, PLENTY, PLENTY, "yes", *more))
    with vhost.connect() as connection:
        channel = connection.channel()
        channel.queue_declare("made", durable=True, arguments={
            "x-queue-type": "quorum", "x-delivery-limit": 7, "x-overflow": "reject-publish"})
        channel.basic_publish("amq.topic", "order.completed", b"x")
    session.deliveries(1)


def test_a_queue_with_other_arguments_is_refused(session, vhost, queue):
    answer = session.consume(queue, 10, PLENTY, PLENTY, "yes", "classic")
    assert (answer["status"], answer["code"]) == ("refused", 406)
    assert ok(session.consume(queue, 10, PLENTY, PLENTY, "yes", "quorum"))


def test_passive_declares_nothing(session, vhost, queue):
    answer = session.consume("absent", 10, PLENTY, PLENTY, "passive")
    assert (answer["status"], answer["code"]) == ("refused", 404) and "absent" in answer["text"]
    assert ok(session.consume(queue, 10, PLENTY, PLENTY, "passive"))


def test_ready_counts_without_touching_the_consumer(session, vhost, queue):
    vhost.declare("other", queue_type="classic")
    publish(vhost, *[b"x"] * 300)
    publish(vhost, *[b"x"] * 4, queue="other")
    assert ok(session.consume(queue, 300))
    got = []
    for _ in range(3):  # deliveries arrive while it asks
        assert session.command("ready", "other")["ready"] == 4
        missing = session.command("ready", "absent")
        assert (missing["status"], missing["code"]) == ("refused", 404)
        got += session.deliveries(100)
    assert [one["tag"] for one in got] == list(range(1, 301))


def test_the_broker_knows_who_is_connected(session, rabbit, vhost):
    mine = [line for line in connections(rabbit, "vhost", "client_properties", "timeout") if line[0] == vhost.name]
    assert len(mine) == 1
    for part in ("effectd/loyalty/1", "consumer_cancel_notify\",true", "connection.blocked\",true",
                 "authentication_failure_close\",true"):
        assert part in mine[0][1]
    assert mine[0][2] == "10"


def test_consuming_goes_on_while_the_broker_blocks_publishers(session, rabbit, vhost, queue):
    publish(vhost, b"x")
    alarm = "{resource_limit, memory, node()}"
    rabbit.eval(f"rabbit_alarm:set_alarm({{{alarm}, []}}).")
    try:
        assert ok(session.consume(queue, 10, PLENTY, PLENTY, "yes", "quorum"))
        one = session.deliveries(1)[0]
        assert ok(session.ack(one["epoch"], one["tag"]))
        vhost.wait_empty(queue)
    finally:
        rabbit.eval(f"rabbit_alarm:clear_alarm({alarm}).")


@pytest.mark.slow
def test_a_stream_and_reopened_channels_take_no_more_memory(session, vhost):
    vhost.declare("q", queue_type="classic")

    def stream(messages):
        publish(vhost, *[b"x" * 300] * messages, confirm=False)
        assert ok(session.consume("q", 200))
        answer = session.command("stream", messages, 60000)
        assert ok(answer) and answer["left"] == 0

    def reopen(channels):
        for _ in range(channels):
            assert ok(session.consume("q", 200))
            assert session.consume("absent")["code"] == 404

    stream(2000)
    reopen(50)
    before = session.rss_kib()
    stream(20000)
    streamed = session.rss_kib()
    reopen(700)
    reopened = session.rss_kib()
    assert streamed - before < 1024 or "asan" in build.FOLDER, (before, streamed, reopened)
    assert reopened - streamed < 100 or "asan" in build.FOLDER, (before, streamed, reopened)
    assert session.sockets() == 1


def test_a_session_that_closes_its_channel_first_loses_no_ack_and_says_goodbye(session, rabbit, vhost, queue):
    publish(vhost, *[b"x"] * 10)
    assert ok(session.consume(queue))
    got = session.deliveries(4)
    assert ok(session.ack(got[0]["epoch"], 3, multiple=True))
    assert ok(session.command("close_channel"))
    start = os.path.getsize(rabbit.log)

    def farewell():
        with open(rabbit.log, encoding="utf-8") as file:
            file.seek(start)
            return re.search(r"closing AMQP connection [^\n]*effectd/loyalty/1.*\n.*", file.read())

    session.command("destroy")
    assert "unexpectedly" not in wait_until(farewell, 10, "the broker's log")[0]
    assert vhost.depth(queue) == (7, 0)
    assert session.sockets() == 0


def test_a_session_destroyed_in_a_stream_leaves_the_broker_at_once(session, vhost, queue):
    publish(vhost, *[b"x"] * 500)
    assert ok(session.consume(queue, 500))
    session.deliveries(4)
    session.command("destroy")
    wait_until(lambda: vhost.depth(queue) == (500, 0), 10, "the broker to take them back")
    assert session.sockets() == 0
