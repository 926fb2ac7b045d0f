"""What a message may hold: keys, bodies, numbers, properties of any bytes; and that what is parked is all of it."""
import dataclasses
import gzip
import json
import os
import struct

import pika
import pytest

from lib.wait import wait_until
from stage import QUEUE, outcomes, script

BOTH_PLUGINS = pytest.mark.parametrize("plugin", ["scripted", "scripted_batch"])
FRAME_BODY = 131072 - 8
LARGEST = 9223372036854775807


class Encoded(pika.BasicProperties):
    """Properties that are sent as these bytes."""

    def __init__(self, encoded):
        super().__init__()
        self.encoded = encoded

    def encode(self):
        return [self.encoded]


def short(data):
    data = data.encode() if isinstance(data, str) else data
    return bytes([len(data)]) + data


def sized(data):
    return struct.pack(">I", len(data)) + data


def packed(message):
    """parked_messages.properties of a message that was published like this."""
    return short(message.exchange) + short(message.routing_key) + b"".join(message.properties.encode())


def assert_parked_whole(stage, messages):
    """Exactly these messages are parked, each byte for byte."""
    rows = sorted(stage.db.rows("SELECT body, properties FROM effectd.parked_messages"))
    published = sorted((message.body, packed(message)) for message in messages)
    assert [tuple(map(len, row)) for row in rows] == [tuple(map(len, row)) for row in published]
    assert rows == published


def replay(stage, left=0, **settings):
    """Cure what the messages were parked for, mark their rows due, and wait until all but some are applied and gone."""
    stage.db.execute("INSERT INTO things VALUES ('thing'); "
                     "UPDATE effectd.parked_messages SET status = 'retry', next_attempt_at = now()")
    with stage.daemon("replay", **settings):
        wait_until(lambda: [one.status for one in stage.parked()] == ["dead"] * left, 20,
                   f"all parked rows but {left} to be applied and go", explain=stage.parked)


# ---- keys ----

GOOD_KEYS = ["k" * 512, "\u20ac" * 170 + "kk", " ", "k", "k ", "K", "\u00e9", "e\u0301", "\U0010ffff", "\ufeffk",
             "a\nb"]
BAD_KEYS = {
    "empty_text": ("", "the key is empty"),
    "empty_bytes": (b"", "the key is empty"),
    "number": (7, "the key is empty"),
    "nul": (b"a\0b", "NUL"),
    "nul_only": ("\0", "NUL"),
    "bad_utf8": (b"\xc3\x28", "not valid UTF-8"),
    "overlong": (b"\xc0\x80", "not valid UTF-8"),
    "surrogate": (b"\xed\xa0\x80", "not valid UTF-8"),
    "beyond_unicode": (b"\xf4\x90\x80\x80", "not valid UTF-8"),
    "cut_character": ("k\u20ac".encode()[:-1], "not valid UTF-8"),
    "513": ("k" * 513, "513 bytes"),
    "513_in_characters": ("\u20ac" * 171, "513 bytes"),
    "most_of_a_frame": ("k" * 100_000, "100000 bytes"),
    "missing": (None, "the key is empty"),
    "missing_too": (None, "the key is empty"),
}


@BOTH_PLUGINS
def test_a_bad_key_parks_its_message_and_is_never_shared(stage, plugin):
    """Its siblings are applied, also those whose keys nearly are the same or nearly are too long."""
    bad = [stage.message(json.dumps({"name": name}).encode(), headers={} if key is None else {"key": key})
           for name, (key, _) in BAD_KEYS.items()]
    bad.append(stage.message({"key": "", "name": "in JSON"}))
    bad.append(stage.message({"key": "a\0b", "name": "in JSON"}))
    good = [stage.message(b"{}", headers={"key": key}) for key in GOOD_KEYS]
    messages = [message for pair in zip(good, bad) for message in pair] + bad[len(good):]
    assert outcomes(stage.one_batch(messages, plugin=plugin)) == {"applied": len(good), "parked": len(bad)}
    stage.assert_once(GOOD_KEYS)
    parked = stage.parked()
    assert {(one.key, one.status, one.reason, one.deliveries) for one in parked} == {(None, "dead", "bad_key", 1)}
    details = [detail for _, detail in BAD_KEYS.values()] + ["the key is empty", "NUL"]
    assert [(one.detail, detail) for one, detail in zip(parked, details) if detail not in one.detail] == []
    assert_parked_whole(stage, bad)


# ---- bodies ----

BAD_BODIES = {
    b"": "the body is empty",
    b"  ": "the body is not JSON",
    b"hello": "wrong syntax",
    b'{"key": "k"': "it ends too early",
    b'{"key": "k"} x': "something follows its end",
    b'{"key": "k"}\0': "something follows its end",
    b'{"key": "k"}{"key": "j"}': "something follows its end",
    b'{"key": "k", "key": "j"}': "occurs twice",
    b'{"key": "k", "more": {"a": 1, "a": 1}}': "occurs twice",
    b'{"key": "k", "a\\u0000b": 1}': "a NUL in a key",
    b'{"key": "a\0b"}': "wrong syntax",
    b'\xef\xbb\xbf{"key": "k"}': "byte order mark",
    b'{"key": NaN}': "wrong syntax",
    b'{"key": "\xc3\x28"}': "invalid UTF-8",
    b'{"key": "\xc0\xaf"}': "invalid UTF-8",
    b'{"key": "\\ud800"}': "wrong syntax",
    b'{"key": "k", "id": 9223372036854775808}': "a number too large",
    b'{"key": "k", "id": -9223372036854775809}': "a number too large",
    b'{"key": "k", "id": 1e999}': "a number too large",
    b"[" * 100_000: "nested deeper than 128",
    b"[" * 100_000 + b"]" * 100_000: "nested deeper than 128",
    b'{"key":' * 100_000 + b"1" + b"}" * 100_000: "nested deeper than 128",
    gzip.compress(b'{"key": "k"}', mtime=0): "the body is not JSON",
    bytes(range(256)): "the body is not JSON",
}
NO_OBJECTS = [b"null", b"true", b"[]", b"7", b'"k"', b"{}"]


@BOTH_PLUGINS
def test_a_body_that_is_no_json_is_parked_as_it_came_and_its_siblings_are_applied(stage, plugin):
    bad = [stage.message(body, content_encoding="gzip") for body in [*BAD_BODIES, *NO_OBJECTS]]
    good = [script(f"k{n:02}") for n in range(len(bad))]
    messages = [message for pair in zip(good, bad) for message in pair]
    counts = stage.one_batch(messages, plugin=plugin)
    assert outcomes(counts) == {"applied": len(good), "parked": len(bad)}
    stage.assert_once({one["key"] for one in good})
    parked = stage.parked()
    assert [one.reason for one in parked] == ["bad_body"] * len(BAD_BODIES) + ["bad_key"] * len(NO_OBJECTS)
    assert [(one.detail, words) for one, words in zip(parked, BAD_BODIES.values()) if words not in one.detail] == []
    assert_parked_whole(stage, bad)


def test_a_body_that_the_plugin_does_not_read_may_hold_anything(stage):
    bodies = [b"", b"\0", bytes(range(256)), b"[" * 100_000]
    counts = stage.deliver(*[stage.message(body, headers={"key": f"k{n}"}) for n, body in enumerate(bodies)])
    assert outcomes(counts) == {"applied": 4}
    stage.assert_once({"k0", "k1", "k2", "k3"})


def test_a_body_above_max_body_is_parked_whole_until_a_person_retries_it(stage):
    """Sizes around those of frames, so that each body is put together of other pieces."""
    most = 2 * FRAME_BODY + 7
    sizes = [FRAME_BODY - 1, FRAME_BODY, FRAME_BODY + 1, 2 * FRAME_BODY, most, most + 1, 9 << 20]
    bodies = [os.urandom(size) for size in sizes]
    start = b'{"key": "most", "do": [["effect"], ["body"]], "pad": "'
    whole = start + b"x" * (most - len(start) - 2) + b'"}'
    messages = [stage.message(body) for body in bodies]
    keyed = stage.message(b"x" * (most + 1), headers={"key": "too big"})
    counts = stage.deliver(script("a"), *messages, keyed, whole, script("z"), max_body=most)
    assert outcomes(counts) == {"applied": 3, "parked": 8}
    stage.assert_once({"a", "most", "z"})
    assert stage.db.value("SELECT body ->> 'pad' FROM bodies") == "x" * (most - len(start) - 2)
    assert [(one.key, one.reason) for one in stage.parked()] == [(None, "bad_body")] * 5 + [(None, "too_big")] * 3
    assert "the body has 9437184 bytes, more than max_body" in stage.parked()[6].detail
    assert_parked_whole(stage, [*messages, keyed])
    replay(stage, left=7, max_body=most)
    stage.assert_once({"a", "most", "z", "too big"})
    assert {one.reason for one in stage.parked()} == {"bad_body"}


def test_numbers_keep_every_digit(stage):
    """Through JSON into bigint, jsonb and an outbox row."""
    amounts = {"id": str(LARGEST), "low": str(-LARGEST - 1), "odd": "9007199254740993", "money": "12345678901234567.89",
               "tiny": "0.10000000000000000001", "scale": "1.00", "tens": "1e2"}
    members = ", ".join(f'"{name}": {number}' for name, number in amounts.items())
    body = f'{{"key": "k", "do": [["effect"], ["add", "sum", {LARGEST}], ["body"], ["outbox"]], {members}}}'
    stage.db.execute("INSERT INTO things VALUES ('sum', 0)")
    assert outcomes(stage.deliver(body.encode())) == {"applied": 1}
    assert stage.touched("sum") == LARGEST
    for sql in ("SELECT body ->> %s FROM bodies", "SELECT payload ->> %s FROM effectd.outbox"):
        stored = {name: stage.db.value(sql, (name,)) for name in amounts}
        assert stored == {**amounts, "tens": "100"}


def test_text_that_postgresql_cannot_store_parks_its_message_alone(stage):
    """A NUL is fine JSON: PostgreSQL says of jsonb and of text that it cannot be."""
    deep = {"a": [{"b": {"c": ["\0"]}}]}
    messages = [script("a"), script("value", ["effect"], ["body"], more="a\0b"), script("b"),
                script("deep", ["body"], ["effect"], more=deep), script("text", ["effect"], ["cast", "1\0"]),
                script("row", ["outbox"], ["effect"], more=deep), script("z")]
    assert outcomes(stage.one_batch(messages)) == {"applied": 3, "parked": 4}
    stage.assert_once({"a", "b", "z"})
    assert {(one.key, one.reason, one.sqlstate) for one in stage.parked()} == {
        ("value", "sql", "22P05"), ("deep", "sql", "22P05"), ("text", "sql", "22021"), ("row", "sql", "22P05")}


# ---- what is parked ----

HEADERS = {  # name: (kind, encoded value, what the plugin sees, what people see)
    "yes": (b"t", b"\1", "1", True),
    "int8": (b"b", b"\x80", "-128", -128),
    "uint8": (b"B", b"\xff", "255", 255),
    "int16": (b"s", b"\x80\0", "-32768", -32768),
    "uint16": (b"u", b"\xff\xff", "65535", 65535),
    "int32": (b"I", b"\x80\0\0\0", "-2147483648", -2147483648),
    "uint32": (b"i", b"\xff\xff\xff\xff", "4294967295", 4294967295),
    "int64": (b"l", struct.pack(">q", LARGEST), str(LARGEST), LARGEST),
    "real32": (b"f", struct.pack(">f", 0.5), None, 0.5),
    "real64": (b"d", struct.pack(">d", 0.1), None, 0.1),
    "decimal": (b"D", b"\2\0\0\4\xd2", "1234e-2", 12.34),
    "text": (b"S", sized("h\u00e9".encode()), "h\u00e9", "h\u00e9"),
    "bytes": (b"x", sized(b"\0\xff"), b"\0\xff", "\\x00\\xff"),
    "bad text": (b"S", sized(b"\xc3\x28"), b"\xc3\x28", "\\xc3("),
    "long text": (b"S", sized(b"x" * 90_000), "x" * 90_000, "x" * 4096 + "..."),
    "time": (b"T", struct.pack(">Q", 1700000000), "1700000000", "2023-11-14T22:13:20Z"),
    "void": (b"V", b"", None, None),
    "array": (b"A", sized(b"I\0\0\0\1" + b"S" + sized(b"x") + b"F" + sized(short("y") + b"t\0")), None,
              [1, "x", {"y": False}]),
    "table": (b"F", sized(short("deep") + b"A" + sized(b"F" + sized(b""))), None, {"deep": [{}]}),
    "x-received-from": (b"A", sized(b"F" + sized(short("uri") + b"S" + sized(b"amqp://up")
                                                + short("redelivered") + b"t\0")),
                        None, [{"uri": "amqp://up", "redelivered": False}]),
}
TABLE = sized(b"".join(short(name) + kind + value for name, (kind, value, _, _) in HEADERS.items()))
EXCHANGE, ROUTING_KEY, CONTENT_TYPE = "shop \u00e9", "\u043a\u043b\u044e\u0447.x", "text/json; charset=\"\u00fc\""
PROPERTIES = (struct.pack(">H", 0xfffc) + short(CONTENT_TYPE) + short("utf-8") + TABLE + b"\2\5" + short("correlation")
              + short("reply.to") + short("3600000") + short("message-1") + struct.pack(">Q", 1700000001)
              + short("order.completed") + short("effectd") + short("shop") + short("cluster"))


def test_a_parked_row_is_what_was_published_and_its_replay_shows_the_plugin_the_same(stage):
    body = json.dumps(script("k", ["one", "thing"], ["see", *HEADERS], ["effect"])).encode()
    stage.declare().vhost.bind(EXCHANGE, "#", QUEUE)
    message = dataclasses.replace(stage.message(body, exchange=EXCHANGE, routing_key=ROUTING_KEY),
                                  properties=Encoded(PROPERTIES))
    assert outcomes(stage.deliver(message)) == {"parked": 1}
    assert_parked_whole(stage, [message])
    assert stage.db.rows("SELECT exchange, routing_key, content_type, headers, octet_length(fingerprint) "
                         "FROM effectd.parked_messages") == [
        (EXCHANGE, ROUTING_KEY, CONTENT_TYPE, {name: shown for name, (_, _, _, shown) in HEADERS.items()}, 32)]
    replay(stage)
    stage.assert_once({"k"})
    expected = {"exchange": EXCHANGE, "routing_key": ROUTING_KEY, "content_type": CONTENT_TYPE,
                "content_encoding": "utf-8", "correlation_id": "correlation", "message_id": "message-1",
                "timestamp_us": "1700000001000000", "type": "order.completed", "app_id": "shop",
                **{name: seen for name, (_, _, seen, _) in HEADERS.items()}}
    seen = dict(stage.db.rows("SELECT name, value FROM seen"))
    assert seen == {name: text.encode() if isinstance(text, str) else text for name, text in expected.items()}


def test_a_message_that_is_delivered_again_has_one_parked_row(stage):
    """Also when it was published again, by a publisher with another order of headers, or came back dead-lettered."""
    body, headers = script("k", verdict="reject"), {"a": 1, "b": {"c": "x", "d": [2]}}
    twins = [{"headers": headers}, {"headers": {"b": {"d": [2], "c": "x"}, "a": 1}},
             {"headers": headers, "delivery_mode": 1},
             {"headers": {**headers, "x-death": [{"count": 3, "queue": QUEUE}], "x-first-death-queue": "q",
                          "x-last-death-reason": "expired", "x-delivery-count": 5, "x-acquired-count": 6}}]
    others = [{"headers": {**headers, "a": 2}}, {"headers": headers, "message_id": "m"},
              {"headers": headers, "type": "t"}, {"headers": headers, "timestamp": 1700000000}]
    messages = [stage.message(body, **properties) for properties in [*twins, *others, *others]]
    assert outcomes(stage.deliver(*messages, batch_max=1)) == {"parked": 12}
    assert [one.deliveries for one in stage.parked()] == [4, 2, 2, 2, 2]


def nested(depth):
    """Headers with an array in an array in an array ..."""
    value = b""
    for _ in range(depth):
        value = b"A" + sized(value)
    return sized(short("deep") + value)


HOSTILE = {  # content type, headers, and what people see of both
    "nul": (b"a\0b", sized(short("n\0") + b"S" + sized(b"\0") + short("t") + b"F" + sized(short("\0") + b"V")),
            "a\\x00b", {"n\\x00": "\\x00", "t": {"\\x00": None}}),
    "any_bytes": (bytes(range(255)), sized(short(b"\xff\xfe") + b"S" + sized(bytes(range(128, 256)))), None, None),
    "names_twice": (b"", sized((short("twice") + b"t\1") * 3), "", {"twice": True}),
    "many": (b"text", sized(b"".join(short(f"{n:x}") + b"V" for n in range(16_000))), "text", None),
    "deep": (b"text", nested(20_000), "text", None),
}


def test_hostile_properties_are_parked_with_everything(stage):
    """Whatever they hold, the rows are whole, and what people see of them is text."""
    stage.declare().vhost.bind("any", "#", QUEUE)
    messages = [dataclasses.replace(
                    stage.message(script(name, verdict="reject"), exchange="any", routing_key="a\0\x1bb"),
                    properties=Encoded(struct.pack(">H", 0xa000) + short(content_type) + headers))
                for name, (content_type, headers, _, _) in HOSTILE.items()]
    assert outcomes(stage.deliver(script("a"), *messages, script("z"))) == {"applied": 2, "parked": len(HOSTILE)}
    stage.assert_once({"a", "z"})
    assert_parked_whole(stage, messages)
    for key, content_type, headers, routing_key in stage.db.rows(
            "SELECT message_key, content_type, headers, routing_key FROM effectd.parked_messages"):
        _, _, seen_type, seen_headers = HOSTILE[key]
        assert routing_key == "a\\x00\\x1bb" and seen_type in (None, content_type) and seen_headers in (None, headers)


@pytest.mark.parametrize("batch_max", [1, 100])
def test_a_row_that_cannot_be_written_for_people_is_written_for_a_replay(stage, batch_max):
    """Whatever refuses it, here a constraint of somebody's own: nothing that a replay reads is lost."""
    stage.db.execute("ALTER TABLE effectd.parked_messages ADD CHECK (headers ->> 'tenant' <> 'red')")
    names = ["a", "b", "c", "d"]
    messages = [stage.message(script(name, ["one", "thing"], ["effect"]), headers={"tenant": tenant})
                for name, tenant in zip(names, ["blue", "red", "red", "blue"])]
    assert outcomes(stage.deliver(*messages, script("z"), batch_max=batch_max)) == {"applied": 1, "parked": 4}
    assert_parked_whole(stage, messages)
    assert stage.db.rows("SELECT headers ->> 'tenant', content_type, routing_key, octet_length(fingerprint), reason "
                         "FROM effectd.parked_messages ORDER BY id") == [
        ("blue", "application/json", QUEUE, 32, "row_count"), (None, None, None, 32, "row_count"),
        (None, None, None, 32, "row_count"), ("blue", "application/json", QUEUE, 32, "row_count")]
    replay(stage)
    stage.assert_once([*names, "z"])


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
def test_words_of_a_message_end_in_no_log_and_no_row_as_control_bytes(stage, log_format):
    """Neither PostgreSQL's error, which quotes the value, nor the plugin's sentence, nor the key."""
    words = "\x1b[31m\r\nevent=parked \x07\x7f\u009b \u202e\u00e9\"\\" + "\u20ac" * 2000
    messages = [script("k\n\x1b\"1", ["effect"], ["cast", words]), script("k2", verdict="reject", say=words),
                script("k3")]
    stage.declare().send(*messages)
    with stage.daemon(process={"log_format": log_format}) as daemon:
        stage.vhost.wait_empty(QUEUE)
    stage.assert_once({"k3"})
    parked = {one.key: one for one in stage.parked()}
    assert {key: one.sqlstate for key, one in parked.items()} == {"k\n\x1b\"1": "22P02", "k2": None}
    for one in parked.values():
        assert "\\x1b[31m" in one.detail and "event=parked \\x07\\x7f\\xc2\\x9b" in one.detail
        assert "\u20ac" in one.detail and len(one.detail.encode()) <= 1000
        assert all(char.isprintable() or char == "\u202e" for char in one.detail)
    lines = daemon.log().split("\n")[:-1]
    assert sum("parked" in line and "reason" in line for line in lines) >= 2
    for line in lines:
        assert not set(line) & set("\x1b\r\x07\x7f"), line
        if log_format == "json":
            json.loads(line)
        else:
            assert line.startswith("time="), line
