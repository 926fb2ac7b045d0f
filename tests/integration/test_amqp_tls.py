"""TLS to the broker: only the right certificate connects, nothing below TLS 1.2, verification on by default."""
import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import threading

import pytest

from integration.test_amqp_session import Driver, ok
from lib.ports import free_ports
from lib.rabbit import Rabbit
from lib.wait import wait_until

TLS = """\
listeners.ssl.local = 127.0.0.1:{port}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/localhost.pem
ssl_options.keyfile = {folder}/localhost.key
"""

PERMISSIVE = """\
openssl_conf = main
[main]
ssl_conf = ssl
[ssl]
system_default = system
[system]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
"""


def openssl(*args, **more):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **more)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", f"/CN={name}", "-keyout",
            folder / f"{name}.key", "-out", folder / f"{name}.pem")


def make_certificate(folder, name, days=2, ca="ca"):
    """A certificate for the DNS name localhost."""
    request, extensions = folder / f"{name}.csr", folder / "extensions"
    extensions.write_text("subjectAltName = DNS:localhost\n")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", folder / f"{name}.key", "-out",
            request)
    openssl("x509", "-req", "-in", request, "-CA", folder / f"{ca}.pem", "-CAkey", folder / f"{ca}.key", "-CAcreateserial",
            "-days", days, "-extfile", extensions, "-out", folder / f"{name}.pem")


@pytest.fixture(scope="module")
def certificates(servers_folder):
    folder = pathlib.Path(servers_folder, "tls")
    folder.mkdir()
    make_ca(folder, "ca")
    make_ca(folder, "stranger")
    make_certificate(folder, "localhost")
    make_certificate(folder, "expired", days=-1)
    for file in folder.iterdir():
        file.chmod(0o644)  # the broker runs as another user
    return folder


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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
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
