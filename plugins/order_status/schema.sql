-- Table of the order_status plugin. Run it in the application's schema as often as you like: it adds what is missing.
--
--   psql -d shop -f schema.sql
--
-- The daemon's role needs SELECT, INSERT, UPDATE on order_status.

-- Rows stay: a deleted order would forget its version, and an old update that comes late would bring it back.
CREATE TABLE IF NOT EXISTS order_status (
  order_id   bigint PRIMARY KEY,
  version    bigint NOT NULL,
  status     text NOT NULL,
  changed_at timestamptz NOT NULL);
