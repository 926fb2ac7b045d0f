"""sql_effect on real servers: what its README says, exact values, and every mistake found before the first message."""
import datetime
import json
import uuid
from decimal import Decimal

import pytest

from lib import build, config
from lib.daemon import effectd
from lib.documented import options

LARGEST = 9223372036854775807

def documented(consumer):
    return options("plugins/sql_effect/README.md", consumer)


def test_loyalty_without_c_credits_each_order_once(shop, order):
    shop.deliver("sql_effect", "loyalty", [order(n % 60 + 1) for n in range(200)]
                 + [order(61, customer_id=0), order(62, total_cents=12.5), order(63, event="OrderCancelled")],
                 workers=2, **documented("loyalty"))
    expected = [order(n) for n in range(1, 61)]
    assert shop.db.rows("SELECT order_id, customer_id, points FROM point_ledger ORDER BY order_id") == \
        [(one["order_id"], one["customer_id"], one["total_cents"] // 100) for one in expected]
    assert shop.db.value("SELECT sum(points) FROM balances") == sum(one["total_cents"] // 100 for one in expected)
    assert shop.claims() == sorted(f"order-completed:{n}" for n in range(1, 61))
    (_, _, unknown), (_, _, broken) = shop.parked()
    assert "sql.2" not in unknown and "sql_2 touched 0 rows" in unknown and "total_cents must be a whole number" in broken
    assert shop.outcomes == {"applied": 60, "duplicate": 140, "ignored": 1, "parked": 2}


def test_the_last_status_wins_without_a_claim(shop):
    updates = [{"order_id": 7, "version": version, "status": f"s{version}", "changed_at": "2026-11-30T12:00:00Z"}
               for version in (2, 1, 3, 2, 3)]
    shop.deliver("sql_effect", "orders", updates, **documented("orders"))
    assert shop.db.rows("SELECT order_id, version, status FROM order_status") == [(7, 3, "s3")]
    assert shop.outcomes == {"applied": 2, "stale": 3} and not shop.claims()


def test_a_receipt_is_an_outbox_row(shop, order):
    body = json.dumps(order(LARGEST, customer_id=42, customer={"name": 'A "quoted" name', "n": 1.5}))
    shop.deliver("sql_effect", "receipts", [body.replace("1.5", "1.50").encode()] * 2, **documented("receipts"))
    (kind, payload, key, ordering), = shop.db.rows("SELECT kind, payload::text, idempotency_key, ordering_key "
                                                   "FROM effectd.outbox")
    assert (kind, key, ordering) == ("send_receipt", f"receipts/order-completed:{LARGEST}/1", "customer:42")
    assert f'"order_id": {LARGEST}' in payload and json.loads(payload)["name"] == 'A "quoted" name'
    assert json.loads(payload)["customer"] == {"name": 'A "quoted" name', "n": 1.5} and '"n": 1.50' in payload


SQL = """INSERT INTO taken (i2, i4, i8, b, t, n, n_text, f, u, d, at, doc, part, note, header, number, type, later, item)
-- :not_this, and 'nor :this' /* nor :that */
VALUES (:i2, :i4, :i8, :b, :t, :n, :n_text, :f, :u, :d, :at, :body, :deep.part, :note?, :@header.tenant,
        :@header.size::bigint, :@type, :later?, :items.1.sku),
       (:i2, 0, :i8, :b, 'x::y', 1, 1, 1, :u, :d, :at, '{}', '[]', E'\\':note', (ARRAY['a', 'b'])[1:2]::text, 1, $$:t$$,
        NULL, 1)"""


def test_each_type_gets_exactly_what_the_body_says(shop, tmp_path):
    shop.db.execute("CREATE TABLE taken (i2 smallint, i4 integer, i8 bigint, b boolean, t text, n numeric, n_text numeric, "
                    "f float8, u uuid, d date, at timestamptz, doc jsonb, part json, note text, header text, "
                    "number bigint, type text, later timestamptz, item bigint)")
    (tmp_path / "taken.sql").write_text(SQL + "\n")
    one = uuid.uuid4()
    body = ('{"id":"a:b","i2":-32768,"i4":2147483647,"i8":9223372036854775807,"b":true,"t":"\\u00e4\\"","n":12345678901234567890.10,'
            f'"n_text":"0.1000","f":1e-3,"u":"{one}","d":"1969-12-31","at":"2026-11-30T13:00:00.25+01:00",'
            '"deep":{"part": [1.10, {"x" : null}]},"note":null,"items":[{},{"sku":7}]}').encode()
    shop.deliver("sql_effect", "types", [body], properties={"headers": {"tenant": "acme", "size": 41}, "type": "order"}, **{
        "plugin.key": "{@header.tenant}/{id}", "plugin.sql.1_file": tmp_path / "taken.sql", "plugin.rows.1": "some",
        "plugin.where.@type": "order"})
    assert shop.parked() == []
    assert shop.claims() == ["acme/a:b"]
    row = shop.db.rows("SELECT i2, i4, i8, b, t, n, n_text::text, f, u, d, at, doc::text, part::text, note, header, number, "
                       "type, later, item FROM taken WHERE i4 <> 0")[0]
    assert row[:9] == (-32768, 2147483647, LARGEST, True, 'ä"', Decimal("12345678901234567890.10"), "0.1000", 0.001, one)
    assert row[9] == datetime.date(1969, 12, 31)
    assert row[10] == datetime.datetime(2026, 11, 30, 12, 0, 0, 250000, tzinfo=datetime.timezone.utc)
    assert '"n": 12345678901234567890.10' in row[11] and row[12] == '[1.10, {"x" : null}]'
    assert row[13:] == (None, "acme", 41, "order", None, 7)
    assert shop.db.rows("SELECT t, note, header, type FROM taken WHERE i4 = 0") == \
        [("x::y", "':note", "{a,b}", ":t")]


def test_what_does_not_fit_is_parked_with_the_field_s_name(shop):
    shop.db.execute("CREATE TABLE strict (i4 integer, b boolean, t text, d date, at timestamptz, n numeric)")
    good = {"id": 1, "i4": 1, "b": False, "t": "", "d": "2026-11-30", "at": "2026-11-30T12:00:00Z", "n": 1}
    wrong = [("i4", 2147483648), ("i4", 1.0), ("i4", "1"), ("b", "true"), ("t", 1), ("d", "30.11.2026"),
             ("at", "2026-11-30"), ("n", True)]
    bodies = [{**good, "id": n, name: value} for n, (name, value) in enumerate(wrong)]
    missing = {name: value for name, value in good.items() if name != "t"}
    shop.deliver("sql_effect", "strict", [*bodies, {**missing, "id": 98}, {**good, "id": 99}, {**good, "id": 1.5},
                                          {**good, "id": None}, b"{", [1]],
                 **{"plugin.key": "{id}", "plugin.sql.1": "INSERT INTO strict VALUES (:i4, :b, :t, :d, :at, :n)"})
    assert shop.db.value("SELECT count(*) FROM strict") == 1 and shop.claims() == ["99"]
    parked = {key: (reason, detail) for key, reason, detail in shop.parked() if key}
    for n, (name, _) in enumerate(wrong):
        reason, detail = parked[str(n)]
        assert reason == "rejected" and detail.startswith(f"sql.1: {name} must be "), detail
    assert parked["98"] == ("rejected", "sql.1: t is missing")
    unnamed = sorted((reason, detail.split(":")[0]) for key, reason, detail in shop.parked() if not key)
    assert [reason for reason, _ in unnamed] == ["bad_body", "rejected", "rejected", "rejected"]
    assert {detail for reason, detail in unnamed if reason == "rejected"} == {"id must be a text or a whole number"}


def test_two_events_never_get_one_key(shop):
    shop.db.execute("CREATE TABLE pairs (a text, b text)")
    pairs = [("x", "y:z"), ("x:y", "z"), ("", "a"), ("a", "")]
    shop.deliver("sql_effect", "pairs", [{"a": a, "b": b} for a, b in pairs],
                 **{"plugin.key": "{a}:{b}", "plugin.sql.1": "INSERT INTO pairs VALUES (:a, :b)"})
    assert sorted(shop.db.rows("SELECT a, b FROM pairs")) == [("", "a"), ("a", ""), ("x", "y:z")]
    (_, reason, detail), = shop.parked()
    assert reason == "rejected" and 'a has ":" in it' in detail


def test_names_that_end_like_a_file_s_key_stand_in_braces(shop):
    shop.deliver("sql_effect", "mails", [{"id": 1, "log_file": "a"}, {"id": 2, "log_file": "b"}, {"id": 3}],
                 **{"plugin.key": "{id}", "plugin.where.{log_file}": "a", "plugin.outbox.{send_file}": "id",
                    "plugin.outbox_key.{send_file}": "mail:{id}"})
    assert shop.db.rows("SELECT kind, idempotency_key FROM effectd.outbox") == [("send_file", "mail:1")]
    assert shop.outcomes == {"applied": 1, "ignored": 2}


# ---- mistakes ----

GOOD = {"plugin.key": "order-completed:{order_id}", "plugin.sql.1": "UPDATE balances SET points = 1 WHERE customer_id = :id"}
MISTAKES = [  # an option, its value, the option whose line is named, what is said
    ("key", "order-completed", "key", "all messages would be one"),
    ("key", "{a}{b}", "key", "two fields need something between them"),
    ("key", "{a", "key", "there is a { without a }"),
    ("key", "a}", "key", "there is a } without a {"),
    ("key", "{}", "key", "is no field's name"),
    ("key", "{a..b}", "key", "a name is missing"),
    ("key", "{@delivery_tag}", "key", "there is no @delivery_tag"),
    ("key", "{@timestamp}", "key", "cannot be part of it"),
    ("event_time", "completed_at?", "event_time", "every message has"),
    ("sql.1", "/* x */ COMMIT", "sql.1", 'begins with "COMMIT"'),
    ("sql.1", "SELECT 1; DELETE FROM balances", "sql.1", "more than one SQL statement"),
    ("sql.1", "SELECT $1::int", "sql.1", "parameters have names here"),
    ("sql.1", "SELECT :{a", "sql.1", "there is a :{ without a }"),
    ("sql.1", "SELECT :@nothing", "sql.1", "there is no @nothing"),
    ("sql.one", "SELECT 1", "sql.one", "statements are numbered"),
    ("rows.1", "two", "rows.1", "must be one of: one some any new newer"),
    ("rows.2", "one", "rows.2", "there is no plugin.sql.2"),
    ("otherwise.1", "drop", "otherwise.1", "must be one of: reject retry"),
    ("claim", "none", "claim", "the first statement must decide"),
    ("claim", "maybe", "claim", "must be one of: key none"),
    ("outbox.mail", "a b.a", "outbox.mail", "two members would be called a"),
    ("outbox.mail", "@timestamp", "outbox.mail", "has no form in JSON"),
    ("outbox_key.mail", "{a}", "outbox_key.mail", "there is no plugin.outbox.mail"),
    ("statement.1", "SELECT 1", "statement.1", "no such option"),
    ("where.log_file", "a", "where.log_file", "what ends in _file takes its value from a file"),
    ("sample", "{", "sample", "the body is not JSON"),
    ("sample", '{"order_id": 1}', "sql.1", "plugin.sample has no id"),
    ("sample", '{"id": 1}', "key", "plugin.sample has no order_id"),
    ("sample", '{"id": 1, "order_id": 1.5}', "key", "order_id must be a text or a whole number"),
]
LIVE_MISTAKES = [
    ("sql.1", "UPDATE balances SET pts = 1 WHERE customer_id = :id", "sql.1", "42703"),
    ("sql.1", "SELECT :id", "sql.1", None),
    ("sql.1", "UPDATE nowhere SET a = :id", "sql.1", "42P01"),
    ("sql.1", "UPDATE balances SET points = :body WHERE customer_id = :id", "sql.1", "write :body::jsonb"),
    ("sql.1", "SELECT :id::bytea", "sql.1", "decode(:name, 'base64')"),
    ("sql.1", "SELECT :id::bigint[]", "sql.1", "jsonb_array_elements"),
    ("sql.1", "SELECT :id::bigint WHERE :@type::bigint = 1", "sql.1", "write :@type::text"),
    ("sample", '{"id": "seven", "order_id": 1}', "sql.1", "id must be a whole number"),
]


def checked(folder, sections, options, *args):
    """effectd check of a consumer with these options: its result, and the line that each option stands in."""
    text = config.text({**sections, "consumer:c": {"plugin": build.plugin("sql_effect"), "queue": "q", **options}})
    file = folder / "effectd.ini"
    file.write_text(text)
    lines = {line.split(" = ")[0]: number for number, line in enumerate(text.splitlines(), 1)}
    return effectd("check", "-c", file, *args), lambda option: f"{file}:{lines[option]}: [consumer:c] {option}: "


def test_check_finds_each_mistake_with_its_line(tmp_path):
    sections = {"broker:main": {"url": "amqp://x@127.0.0.1:1/%2f"}, "database:main": {"conninfo": "host=127.0.0.1 port=1"}}
    good, _ = checked(tmp_path, sections, GOOD)
    assert good.rc == 0, good.stderr
    for option, value, named, said in MISTAKES:
        done, at = checked(tmp_path, sections, {**GOOD, f"plugin.{option}": value})
        assert done.rc == 78 and done.stderr.endswith("\n1 problem\n"), (option, value, done.stderr)
        assert at(f"plugin.{named}") in done.stderr and said in done.stderr, (option, value, done.stderr)


def test_check_finds_all_mistakes_at_once(tmp_path):
    sections = {"broker:main": {"url": "amqp://x@127.0.0.1:1/%2f"}, "database:main": {"conninfo": "host=127.0.0.1 port=1"}}
    done, at = checked(tmp_path, sections, {"plugin.key": "{a}{b}", "plugin.sql.1": "COMMIT", "plugin.rows.2": "one",
                                            "plugin.lock_order": "a b"})
    assert all(at(f"plugin.{option}") in done.stderr for option in ("key", "sql.1", "rows.2", "lock_order")), done.stderr
    assert done.stderr.endswith("\n4 problems\n")


def test_check_live_finds_what_the_database_says(tmp_path, db, vhost, runtime_dir):
    vhost.declare("q")
    sections = config.base(db, vhost, runtime_dir)
    good, _ = checked(tmp_path, sections, {**GOOD, "plugin.sample": '{"order_id": 1, "id": 2}'}, "--live")
    assert good.rc == 0, good.stderr
    for option, value, named, said in LIVE_MISTAKES:
        done, at = checked(tmp_path, sections, {**GOOD, f"plugin.{option}": value}, "--live")
        if said is None:
            assert done.rc == 0, done.stderr
            continue
        assert done.rc == 78 and done.stderr.endswith("\n1 problem\n"), (option, value, done.stderr)
        assert at(f"plugin.{named}") in done.stderr and said in done.stderr, (option, value, done.stderr)
