"""TLS to the broker: only the right certificate connects, nothing below TLS 1.2, verification on by default."""
import contextlib
import os
import socket
import ssl
import threading

import pytest

from integration.test_amqp_session import Driver, ok
from lib.certificates import PERMISSIVE
from lib.listener import Listener, tls_context
from lib.outbox import Outbox
from lib.ports import free_ports
from lib.rabbit import Rabbit
from lib.wait import wait_until

TLS = """\
listeners.ssl.local = 127.0.0.1:{port}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/localhost.pem
ssl_options.keyfile = {folder}/localhost.key
"""


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def tls(servers_folder, certificates):
    port = free_ports(1)[0]
    server = Rabbit(os.path.join(servers_folder, "mq-tls"), config=TLS.format(port=port, folder=certificates))
    try:
        server.create().start()
        wait_until(lambda: listens(port), 20, "the TLS listener, which comes after the plain one")
        yield server, port
    finally:
        server.destroy()


@pytest.fixture
def tls_port(tls):
    return tls[1]


@pytest.fixture
def driver():
    one = Driver()
    yield one
    assert one.end() == 0


@contextlib.contextmanager
def tls_server(certificates, name, newest=ssl.TLSVersion.TLSv1_3):
    """A peer that does the handshake and no more; yields its port and a list of the versions that were agreed."""
    context = tls_context(certificates, name)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
    agreed = []

    def serve():
        with contextlib.suppress(OSError):
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as peer:
                agreed.append(peer.version())

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], agreed
        thread.join(20)


def test_the_right_certificate_carries_deliveries(driver, tls, certificates):
    server, port = tls
    assert ok(driver.open(f"amqps://effectd:effectd@localhost:{port}", ca=certificates / "ca.pem"))
    assert ok(driver.consume("tls", 100, 64 << 20, 64 << 20, "yes", "quorum"))
    bodies = [os.urandom(size) for size in [0, 1, 16384, 300_000, 5 << 20, *range(16000, 16800, 10)]]
    with server.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()  # what is not confirmed may be lost with its connection
        for body in bodies:
            channel.basic_publish("", "tls", body)
    got = driver.deliveries(len(bodies))
    assert [one["body"] for one in got] == bodies
    assert ok(driver.ack(got[0]["epoch"], len(bodies), multiple=True))
    assert ok(driver.command("close_channel"))
    assert driver.command("ready", "tls")["ready"] == 0


@pytest.mark.parametrize("host, ca", [("127.0.0.1", "ca.pem"), ("localhost", "stranger.pem"), ("localhost", None)],
                         ids=["another_name", "another_authority", "the_systems_authorities"])
def test_a_wrong_certificate_does_not_connect(driver, tls_port, certificates, host, ca):
    url = f"amqps://effectd:effectd@{host}:{tls_port}"
    answer = driver.open(url, ca=certificates / ca if ca else "-")
    assert answer["status"] == "unavailable" and "verif" in answer["text"].lower(), answer
    assert driver.sockets() == 0
    assert ok(driver.open(url, verify="no"))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_an_expired_certificate_does_not_connect(driver, certificates):
    with tls_server(certificates, "expired") as (port, _):
        answer = driver.open(f"amqps://localhost:{port}", ca=certificates / "ca.pem")
    assert answer["status"] == "unavailable"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("newest, agreed", [(ssl.TLSVersion.TLSv1_1, []), (ssl.TLSVersion.TLSv1_2, ["TLSv1.2"])])
def test_nothing_below_tls_1_2_is_spoken(certificates, newest, agreed):
    """Even where the system allows it."""
    permissive = certificates / "openssl.cnf"
    permissive.write_text(PERMISSIVE)
    driver = Driver(OPENSSL_CONF=str(permissive))
    with tls_server(certificates, "localhost", newest) as (port, seen):
        assert driver.open(f"amqps://localhost:{port}", ca=certificates / "ca.pem")["status"] == "unavailable"
    assert seen == agreed
    assert driver.end() == 0


def test_a_file_of_authorities_that_is_none_is_named(driver, tls_port, certificates):
    answer = driver.open(f"amqps://effectd:effectd@localhost:{tls_port}", ca=certificates / "extensions")
    assert answer["status"] == "invalid" and "tls_ca_file" in answer["text"]


def test_a_relay_publishes_only_to_a_broker_that_it_can_trust(tls, certificates, db, daemon, runtime_dir):
    server, port = tls
    outbox = Outbox(db, daemon, runtime_dir)
    with server.connect() as connection:
        connection.channel().queue_declare("effects", durable=True)
    target = {"type": "amqp", "url": f"amqps://effectd:effectd@localhost:{port}", "routing_key": "effects"}
    targets = {"good": {**target, "tls_ca_file": certificates / "ca.pem"},
               "strange": {**target, "tls_ca_file": certificates / "stranger.pem"},
               "unchecked": {**target, "tls_verify": False}}
    for kind in targets:
        outbox.add(1, 3, kind=kind, prefix=kind)
    with outbox.relay_of(targets) as relay:
        outbox.wait(sent=6, pending=3)
        relay.wait_log(r"event=broker_lost relay=main target=strange .*verif")
    assert outbox.db.rows("SELECT DISTINCT kind FROM effectd.outbox WHERE status = 'pending'") == [("strange",)]


def test_a_relay_shows_its_certificate_to_the_broker_that_asks(certificates, db, daemon, runtime_dir):
    outbox = Outbox(db, daemon, runtime_dir)
    context, seen = tls_context(certificates, client_ca="ca"), []

    def serve(plain):
        with context.wrap_socket(plain, server_side=True) as connection:
            seen.append(connection.getpeercert()["subject"])

    outbox.add(1)
    with Listener(serve) as broker:
        target = {"type": "amqp", "url": f"amqps://localhost:{broker.port}", "routing_key": "effects",
                  "tls_ca_file": certificates / "ca.pem", "tls_cert_file": certificates / "client.pem",
                  "tls_key_file": certificates / "client.key"}
        with outbox.relay(target):
            wait_until(lambda: seen, 15, "a handshake")
    assert seen[0] == ((("commonName", "client"),),)
