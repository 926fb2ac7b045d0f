"""TLS to HTTP and mail targets: nothing is said to a server that cannot be trusted, and the row waits for a better day."""
import ssl

import pytest

from lib.certificates import PERMISSIVE
from lib.listener import tls_context
from lib.mailbox import Mailbox
from lib.outbox import Outbox
from lib.provider import Provider
from lib.wait import wait_until

ERRORS = "SELECT kind, last_error FROM effectd.outbox WHERE status = 'pending' AND last_error IS NOT NULL"


@pytest.fixture
def outbox(db, daemon, runtime_dir):
    return Outbox(db, daemon, runtime_dir)


def wait_errors(outbox, words):
    """Wait until the row of each kind failed with its word, and none of another kind; a busy machine may time out."""
    def told():
        errors = dict(outbox.db.rows(ERRORS))
        return errors.keys() == words.keys() and all(
            error.startswith("no answer: ") and words[kind] in error for kind, error in errors.items())
    wait_until(told, 30, f"errors like {words}", explain=lambda: outbox.db.rows(ERRORS))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_row_goes_only_to_an_https_target_that_can_be_trusted(outbox, certificates, tmp_path):
    ca = {"tls_ca_file": certificates / "ca.pem"}
    own = {"tls_cert_file": certificates / "client.pem", "tls_key_file": certificates / "client.key"}
    old = tls_context(certificates)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    permissive = tmp_path / "openssl.cnf"  # the system's would not speak it anyway
    permissive.write_text(PERMISSIVE)
    with Provider(tls=tls_context(certificates)) as open_to_all, \
            Provider(tls=tls_context(certificates, "expired")) as expired, \
            Provider(tls=tls_context(certificates, client_ca="ca")) as asking, Provider(tls=old) as outdated:
        targets = {
            "trusted": {"url": open_to_all.url, **ca},
            "unchecked": {"url": open_to_all.url_at("127.0.0.1"), "tls_verify": False},
            "known": {"url": asking.url, **ca, **own},
            "system": {"url": open_to_all.url},
            "stranger": {"url": open_to_all.url, "tls_ca_file": certificates / "stranger.pem"},
            "name": {"url": open_to_all.url_at("127.0.0.1"), **ca},
            "expired": {"url": expired.url, **ca},
            "unknown": {"url": asking.url, **ca},
            "outdated": {"url": outdated.url, **ca},
        }
        for kind in targets:
            outbox.add(1, kind=kind, prefix=kind)
        with outbox.relay_of({kind: {"type": "http", **target} for kind, target in targets.items()},
                             relay={"max_attempts": 1000}, env={"OPENSSL_CONF": str(permissive)}):
            outbox.wait(sent=3, pending=6)
            # "unknown" may find the connection gone before it reads why: with TLS 1.3 the handshake is over by then.
            wait_errors(outbox, {"system": "certificate", "stranger": "certificate", "name": "127.0.0.1",
                                 "expired": "expired", "unknown": "", "outdated": "version"})
        assert sorted(open_to_all.keys()) == ["trusted/1", "unchecked/1"] and asking.keys() == ["known/1"]
        assert not expired.keys() and not outdated.keys()


def test_a_password_goes_only_to_a_mail_server_that_can_be_trusted(outbox, certificates, tmp_path):
    password = tmp_path / "password"
    password.write_text("0pen-sesame\n")
    password.chmod(0o600)
    context = tls_context(certificates)
    ca, login = {"tls_ca_file": certificates / "ca.pem"}, {"password_file": password}
    with Mailbox(tls=context, implicit=True, login=True) as implicit, Mailbox(tls=context, login=True) as asked, \
            Mailbox(tls=context, login=True) as strange, Mailbox(login=True) as plain, Mailbox(tls=context) as offered:
        targets = {
            "implicit": {"url": implicit.url_as("shop"), **ca, **login},
            "asked": {"url": asked.url_as("shop"), **ca, **login},
            "strange": {"url": strange.url_as("shop"), "tls_ca_file": certificates / "stranger.pem", **login},
            "plain": {"url": plain.url_as("shop"), **login},
            "offered": {"url": offered.url, **ca},
        }
        for kind in targets:
            outbox.db.execute("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) VALUES ('test', %s, "
                              "%s, jsonb_build_object('to', 'a@example.com', 'subject', 's', 'text', 't'))", (kind, kind))
        with outbox.relay_of({kind: {"type": "smtp", "mail_from": "shop@example.org", **target}
                              for kind, target in targets.items()}, relay={"max_attempts": 1000}):
            outbox.wait(sent=3, pending=2)
            wait_errors(outbox, {"strange": "certificate", "plain": "STARTTLS"})
    for box in (implicit, asked, offered):
        assert len(box.mails) == 1
        open_words = {line.partition(" ")[0] for sealed, line in box.lines if not sealed}
        assert open_words <= {"EHLO", "STARTTLS"}, box.lines
    assert not strange.mails and not plain.mails
    assert not any(line.startswith("AUTH") for box in (strange, plain) for _, line in box.lines)
