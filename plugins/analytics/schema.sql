-- The table of the analytics plugin. Run it in the application's schema as often as you like: it adds what is missing.
--
--   psql -d shop -f schema.sql
--
-- The daemon's role needs SELECT, INSERT and UPDATE on it.

CREATE TABLE IF NOT EXISTS daily_sales (
  day      date    NOT NULL,
  currency text    NOT NULL,
  orders   bigint  NOT NULL,
  total    numeric NOT NULL,
  PRIMARY KEY (day, currency));
