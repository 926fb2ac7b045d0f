"""Claims by day: messages whose event has a day, the tables of the days, and consumers that are registered."""
from datetime import datetime, timedelta, timezone

from stage import CONSUMER, script

HOURS_24 = timedelta(days=1)


def event(key, days=0, **more):
    """A message whose event happened that many days ago (negative: will), at any hour of that day."""
    at = datetime.now(timezone.utc) - days * HOURS_24
    return script(key, **more) | {"event_time": at.isoformat()}


def today():
    return datetime.now(timezone.utc).date()


def partitions(db):
    """The days that are attached."""
    return [datetime.strptime(name[-8:], "%Y%m%d").date() for name, in db.rows(
        "SELECT c.relname FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid "
        "WHERE inhparent = 'effectd.processed_messages_daily'::regclass AND NOT inhdetachpending ORDER BY 1")]


def tables(db):
    """All tables of days, attached or not."""
    return db.value("SELECT count(*) FROM pg_class WHERE relname LIKE 'processed\\_messages\\_daily\\_%' AND relkind = 'r'")


def register(db, days=30, claims="daily", consumer=CONSUMER):
    db.execute('INSERT INTO effectd.consumers (consumer, claims, "window", switched_at) '
               "VALUES (%s, %s, %s * interval '24 hours', CASE WHEN %s = 'both' THEN now() END)",
               (consumer, claims, days, claims))
