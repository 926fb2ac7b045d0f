"""docs/coming-from.md: claims that come from old tables, and a queue beside a framework's exchange."""
import json

import pytest

from lib import build, config, documented
from lib.page import Page

EXCHANGE = "Shop.Contracts:OrderCompleted"


@pytest.mark.slow
def test_claims_from_old_tables_make_old_messages_duplicates(reader, empty_db, tmp_path):
    Page("docs/coming-from.md").run(tmp_path, {**reader, "PGDATABASE": empty_db.name})


def test_a_queue_of_ones_own_on_an_exchange_with_a_colon(db, vhost, publisher, daemon, runtime_dir):
    """As the page binds it for MassTransit, whose messages lie in an envelope."""
    section = documented.section("docs/coming-from.md", "consumer:loyalty")
    vhost.bind(EXCHANGE, "", exchange_type="fanout")
    db.execute("CREATE TABLE ledger (order_id bigint)")
    sections = {**config.base(db, vhost, runtime_dir),
                "consumer:loyalty": {**section, "plugin": build.plugin("sql_effect")}}
    envelope = {"messageId": "a", "message": {"orderId": 7}}
    with daemon(sections) as effectd:
        effectd.wait_log("event=consuming")
        publisher.body(json.dumps(envelope).encode(), exchange=EXCHANGE, routing_key="")
        vhost.wait_empty(section["queue"])
    assert db.rows("SELECT order_id FROM ledger") == [(7,)]
    assert db.value("SELECT message_key FROM effectd.processed_messages") == "order-completed:7"
