-- What scripted.c writes to. Nothing but effectd keeps an effect from being there twice.
CREATE TABLE effects (id bigserial PRIMARY KEY, consumer text NOT NULL, key text NOT NULL);
CREATE TABLE bodies (body jsonb);
CREATE TABLE seen (name text NOT NULL, value bytea);
CREATE TABLE things (name text, touched bigint NOT NULL DEFAULT 0);
CREATE TABLE natural_keys (key text PRIMARY KEY);
CREATE TABLE versions (name text PRIMARY KEY, version bigint NOT NULL);

-- Runs what it is given; errors keep their SQLSTATE.
CREATE FUNCTION run(sql text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	RETURN 1;
END
$$;

CREATE FUNCTION raise(code text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the test raises %', code USING ERRCODE = code;
END
$$;

-- One table for each kind of constraint.
CREATE TABLE parents (id bigint PRIMARY KEY);
CREATE TABLE children (parent_id bigint REFERENCES parents);
CREATE TABLE late_children (parent_id bigint REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE strict (needed text NOT NULL, positive bigint CHECK (positive > 0), only_one bigint UNIQUE);
CREATE TABLE bookings (during int8range, EXCLUDE USING gist (during WITH &&));
CREATE VIEW positive_things AS SELECT name, touched FROM things WHERE touched > 0 WITH CHECK OPTION;
