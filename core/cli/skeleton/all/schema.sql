-- The effect of consumer example, in the application's schema. Safe to run as often as you like.
CREATE TABLE IF NOT EXISTS example (
  id          text PRIMARY KEY,
  customer_id bigint NOT NULL,
  amount      numeric NOT NULL);
