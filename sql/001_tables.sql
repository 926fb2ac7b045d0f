-- effectd: oldest runnable 1
--
-- Everything that effectd keeps. Keys and names are compared by their bytes (COLLATE "C"): the same on every
-- machine, whatever its locale and libc, and the order in which claims are taken.

-- roles.sql may have made the schema, for an owner that may not make one (IF NOT EXISTS would ask for that right).
DO $$
BEGIN
	IF to_regnamespace('effectd') IS NULL THEN
		CREATE SCHEMA effectd;
	END IF;
END
$$;
COMMENT ON SCHEMA effectd IS 'effectd: claims, parked messages, outbox; see the table comments';

-- Which of the files in sql/ were applied.
CREATE TABLE effectd.schema_version (
	version integer PRIMARY KEY,
	name text NOT NULL,
	checksum text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT now(),
	oldest_runnable integer NOT NULL
);
COMMENT ON TABLE effectd.schema_version IS 'applied migrations, written by "effectd migrate up"';
COMMENT ON COLUMN effectd.schema_version.oldest_runnable IS
	'the oldest effectd, by the last migration that it knows, that may still run on this schema';
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'effectd_app') THEN
		REVOKE INSERT, UPDATE, DELETE ON effectd.schema_version FROM effectd_app; -- it only looks
	END IF;
END
$$;

-- Claims. A row is the proof that an effect is applied: it commits with the effect.
--
-- Rows are inserted and deleted, never updated: pages are filled to the brim. Retention deletes in batches of 50,000;
-- vacuum follows every second batch whatever the table's size, so that the space of old claims is used again instead
-- of growing by a share of the table. Inserts alone bring vacuum as well: it marks pages all-visible and freezes them
-- while they are in memory, instead of all at once years later.
CREATE TABLE effectd.processed_messages (
	consumer text COLLATE "C" NOT NULL,
	message_key text COLLATE "C" NOT NULL,
	processed_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, message_key)
) WITH (
	fillfactor = 100,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 100000,
	autovacuum_vacuum_insert_scale_factor = 0,
	autovacuum_vacuum_insert_threshold = 500000,
	autovacuum_analyze_scale_factor = 0.05
);
-- Retention finds the oldest claims of a consumer by it. Claims of one batch have one time and lie behind all others, so
-- an entry costs little space and little work; docs/operations.md has the figures, and those of BRIN.
CREATE INDEX processed_messages_age ON effectd.processed_messages (consumer, processed_at);
COMMENT ON TABLE effectd.processed_messages IS 'claims: one row for each effect that was applied, kept for the window';

-- Claims of consumers with claims = daily. The day is a function of the message, not of the clock, so every copy of a
-- message meets the same partition. Partitions are made and dropped by effectd; there is no DEFAULT one, because a
-- claim in it could never go with its day.
CREATE TABLE effectd.processed_messages_daily (
	consumer text COLLATE "C" NOT NULL,
	message_key text COLLATE "C" NOT NULL,
	event_day date NOT NULL,
	processed_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, message_key, event_day)
) PARTITION BY RANGE (event_day);
COMMENT ON TABLE effectd.processed_messages_daily IS 'claims by the day of the event; whole days are dropped';

-- The first day whose claims are still kept. Older messages cannot be checked any more and are never applied.
CREATE TABLE effectd.claim_days (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	floor_day date NOT NULL
);
COMMENT ON TABLE effectd.claim_days IS 'the floor of processed_messages_daily: one row at most';

-- Messages taken out of their queue, complete: a replay needs nothing but body and properties. A message is here once,
-- however often it is delivered.
CREATE TABLE effectd.parked_messages (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	consumer text COLLATE "C" NOT NULL,
	message_key text COLLATE "C",
	event_day date,
	fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
	body bytea NOT NULL,
	properties bytea,
	content_type text,
	headers jsonb,
	exchange text,
	routing_key text,
	status text NOT NULL CHECK (status IN ('retry', 'dead')),
	reason text COLLATE "C" NOT NULL,
	sqlstate text,
	detail text,
	attempts integer NOT NULL DEFAULT 0,
	crashes integer NOT NULL DEFAULT 0,
	deliveries bigint NOT NULL DEFAULT 1,
	next_attempt_at timestamptz,
	leased_until timestamptz,
	beyond_window boolean NOT NULL DEFAULT false,
	first_seen_at timestamptz NOT NULL DEFAULT now(),
	parked_at timestamptz NOT NULL DEFAULT now(),
	-- Without a time a row would wait for ever and nobody would see why.
	CONSTRAINT retry_has_a_time CHECK (status <> 'retry' OR next_attempt_at IS NOT NULL)
);
COMMENT ON TABLE effectd.parked_messages IS 'messages that wait for their next attempt (retry) or for a person (dead)';
COMMENT ON COLUMN effectd.parked_messages.fingerprint IS 'SHA-256 of what identifies the message';
COMMENT ON COLUMN effectd.parked_messages.properties IS 'all AMQP properties and headers, as they came';
COMMENT ON COLUMN effectd.parked_messages.headers IS 'the same for people to read; never read by effectd';
COMMENT ON COLUMN effectd.parked_messages.beyond_window IS
	'a person said that it may be applied although it is older than the window';
COMMENT ON COLUMN effectd.parked_messages.deliveries IS 'how often the broker brought it since it is parked, and once';

-- Also answers whether a key has a parked row, which keeps its claim.
CREATE UNIQUE INDEX parked_messages_once
	ON effectd.parked_messages (consumer, coalesce(message_key, ''), fingerprint);
CREATE INDEX parked_messages_due ON effectd.parked_messages (next_attempt_at) WHERE status = 'retry';
CREATE INDEX parked_messages_list ON effectd.parked_messages (consumer, status, parked_at);

-- How often a process died with a message inside its plugin. Written only in probation and by the retry runner.
CREATE TABLE effectd.attempts (
	consumer text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
	crashes integer NOT NULL DEFAULT 0,
	first_seen_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (consumer, fingerprint)
);
COMMENT ON TABLE effectd.attempts IS 'messages that are, or were when a process died, inside plugin code';

-- What each consumer promised to keep: retention in any process reads windows from here and nowhere else.
CREATE TABLE effectd.consumers (
	consumer text COLLATE "C" PRIMARY KEY,
	claims text NOT NULL CHECK (claims IN ('table', 'daily', 'both')),
	"window" interval,
	last_seen timestamptz NOT NULL DEFAULT now(),
	switched_at timestamptz,
	CONSTRAINT both_since_when CHECK ((claims = 'both') = (switched_at IS NOT NULL)),
	CONSTRAINT days_have_a_window CHECK (claims = 'table' OR "window" IS NOT NULL)
);
COMMENT ON COLUMN effectd.consumers.switched_at IS
	'claims = both: when it began to claim by day as well; after one window the days alone are enough';
COMMENT ON TABLE effectd.consumers IS 'consumers that ran on this database, written when they start';
COMMENT ON COLUMN effectd.consumers."window" IS 'how long claims are kept; null: for good';

-- Effects outside the database: a row commits with its claim, a relay performs it afterwards.
--
-- Each row is updated a few times soon after its insert and deleted some days later: vacuum comes by rows, not by a
-- share of a table that is mostly sent rows.
CREATE TABLE effectd.outbox (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	consumer text COLLATE "C" NOT NULL,
	message_key text COLLATE "C",
	kind text COLLATE "C" NOT NULL,
	-- consumer/message_key/ordinal unless the plugin gave one: in byte order, so the rows of one message are found
	-- by their beginning.
	idempotency_key text COLLATE "C" NOT NULL CONSTRAINT outbox_idempotency_key UNIQUE,
	payload jsonb NOT NULL,
	headers jsonb,
	ordering_key text COLLATE "C",
	created_at timestamptz NOT NULL DEFAULT now(),
	attempts integer NOT NULL DEFAULT 0,
	next_attempt_at timestamptz NOT NULL DEFAULT now(),
	leased_until timestamptz,
	sent_at timestamptz,
	status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sent', 'dead')),
	last_error text
) WITH (
	autovacuum_vacuum_scale_factor = 0.01,
	autovacuum_vacuum_threshold = 5000
);
COMMENT ON TABLE effectd.outbox IS 'calls to the outside world that committed with their effect';

CREATE INDEX outbox_due ON effectd.outbox (next_attempt_at, id) WHERE status = 'pending';
CREATE INDEX outbox_order ON effectd.outbox (ordering_key, id) WHERE status = 'pending' AND ordering_key IS NOT NULL;
CREATE INDEX outbox_sent ON effectd.outbox (sent_at) WHERE status = 'sent';
CREATE INDEX outbox_dead ON effectd.outbox (id) WHERE status = 'dead';
