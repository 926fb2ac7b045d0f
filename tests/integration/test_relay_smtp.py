"""Mail targets: one mail a row, its Message-ID made of the row's key."""
import json

import pytest

from lib.mailbox import Mailbox
from lib.outbox import Outbox


@pytest.fixture
def outbox(db, daemon, runtime_dir):
    return Outbox(db, daemon, runtime_dir)


def mail(outbox, key, **payload):
    return outbox.db.value("INSERT INTO effectd.outbox (consumer, kind, idempotency_key, payload) "
                           "VALUES ('test', 'call', %s, %s::jsonb) RETURNING id", (key, json.dumps(payload)))


def relay(outbox, mailbox, **settings):
    return outbox.relay({"type": "smtp", "url": mailbox.url, "mail_from": "shop@example.org"}, **settings)


def test_a_row_is_one_mail_with_every_character(outbox):
    subject = "Ihre Quittung für Bestellung №7 – " + "schön " * 20
    text = "Guten Tag,\n.\n..Punkt am Anfang\näöü €\n" + "lange Zeile " * 200
    mail(outbox, "receipts/7/1", to=["a@example.com", "b@example.com"], subject=subject, text=text)
    mail(outbox, "receipts/8/1", to="c@example.com", subject="plain", text="short")
    with Mailbox() as mailbox, relay(outbox, mailbox):
        outbox.wait(sent=2)
    mails = {message["Subject"]: (sender, recipients, message) for sender, recipients, message in mailbox.mails}
    sender, recipients, message = mails[subject.strip()] if subject.strip() in mails else mails[subject]
    assert sender == "shop@example.org" and recipients == ["a@example.com", "b@example.com"]
    assert message["From"].addresses[0].addr_spec == "shop@example.org"
    assert [to.addr_spec for to in message["To"].addresses] == ["a@example.com", "b@example.com"]
    assert message.get_content_type() == "text/plain" and message.get_content() == text
    digest = outbox.db.value("SELECT encode(sha256('receipts/7/1'), 'hex')")
    assert message["Message-ID"] == f"<{digest}@example.org>"
    assert message["Date"].datetime and message["Auto-Submitted"] == "auto-generated"
    assert mails["plain"][1] == ["c@example.com"] and mails["plain"][2].get_content() == "short"


def test_a_repetition_has_the_same_message_id(outbox):
    mail(outbox, "k", to="a@example.com", subject="s", text="t")
    told = []

    def refuse(command, argument):
        if command == "BODY":
            told.append([line for line in argument.split(b"\r\n") if line.startswith(b"Message-ID")])
            return "451 4.3.0 later" if len(told) == 1 else None
        return None
    with Mailbox(refuse) as mailbox, relay(outbox, mailbox):
        outbox.wait(sent=1)
    assert len(told) == 2 and told[0] == told[1] and told[0]


@pytest.mark.parametrize("command, reply, status, attempts", [
    ("RCPT", "550 5.1.1 no such mailbox", "dead", 1),
    ("MAIL", "553 5.1.8 not this sender", "dead", 1),
    ("BODY", "554 5.6.0 this looks wrong", "dead", 1),
    ("RCPT", "452 4.2.2 mailbox full", "dead", 2),
    ("EHLO", "554 5.7.1 not you", "dead", 2),
])
def test_what_is_refused_for_good_is_dead_at_once(outbox, command, reply, status, attempts):
    row_id = mail(outbox, "k", to="a@example.com", subject="s", text="t")

    def refuse(given, _):
        # curl tries HELO when EHLO is refused
        return reply if given == command or (command == "EHLO" and given == "HELO") else None
    with Mailbox(refuse) as mailbox, relay(outbox, mailbox, relay={"max_attempts": 2}):
        outbox.wait(**{status: 1})
    assert outbox.row(row_id) == (status, attempts, f"SMTP {reply}")
    assert not mailbox.mails


def test_a_payload_that_is_no_mail_is_dead_and_nothing_is_injected(outbox):
    good = {"to": "a@example.com", "subject": "s", "text": "t"}
    rows = {mail(outbox, "1", to="a@example.com\r\nRCPT TO:<evil@example.com>", subject="s", text="t"): "to",
            mail(outbox, "2", to="nobody", subject="s", text="t"): "to",
            mail(outbox, "3", to=[], subject="s", text="t"): "to",
            mail(outbox, "4", **{**good, "text": 7}): "payload"}
    evil = "hello\r\nBcc: evil@example.com"
    mail(outbox, "5", **{**good, "subject": evil})
    with Mailbox() as mailbox, relay(outbox, mailbox):
        outbox.wait(dead=4, sent=1)
    for row_id, word in rows.items():
        assert word in outbox.row(row_id)[2]
    (_, recipients, message), = mailbox.mails
    assert recipients == ["a@example.com"] and message["Bcc"] is None
