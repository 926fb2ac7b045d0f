-- effectd: oldest runnable 1
--
-- A relay looks for due rows of one kind at a time: rows of a kind whose target is down, or that nobody relays, are not
-- in the way of the others. Sent rows are pruned kind by kind as well, each by the relay that sends them.

DROP INDEX effectd.outbox_due;
CREATE INDEX outbox_due ON effectd.outbox (kind, next_attempt_at, id) WHERE status = 'pending';

DROP INDEX effectd.outbox_sent;
CREATE INDEX outbox_sent ON effectd.outbox (kind, sent_at) WHERE status = 'sent';

DROP INDEX effectd.outbox_dead;
CREATE INDEX outbox_dead ON effectd.outbox (kind, id) WHERE status = 'dead';
