-- Tables of the loyalty_points plugin. Run it in the application's schema as often as you like: it adds what is missing.
--
--   psql -d shop -f schema.sql
--
-- The daemon's role needs SELECT, INSERT on point_ledger, USAGE on its sequence, and SELECT, UPDATE on balances.

CREATE TABLE IF NOT EXISTS balances (
  customer_id bigint PRIMARY KEY,
  points      bigint NOT NULL DEFAULT 0);

-- one_credit_per_order is the second lock on the door, with no window: an order's points are here once, for good.
CREATE TABLE IF NOT EXISTS point_ledger (
  id          bigserial PRIMARY KEY,
  customer_id bigint NOT NULL,
  order_id    bigint NOT NULL CONSTRAINT one_credit_per_order UNIQUE,
  points      bigint NOT NULL);
