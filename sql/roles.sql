-- The roles of effectd. A superuser, or a role with CREATEROLE and CREATE on the database, runs this file in each
-- database that effectd uses, before the first `effectd migrate up`; again at any time, it changes nothing.
--
--	psql -d shop -f roles.sql
--	psql -d shop -c "CREATE ROLE effectd LOGIN IN ROLE effectd_app"
--	psql -d shop -c "CREATE ROLE effectd_migrate LOGIN NOINHERIT IN ROLE effectd_owner"
--
-- and in effectd.ini, so that everything that a migration makes belongs to effectd_owner:
--
--	[database:main]
--	conninfo = dbname=shop user=effectd
--	owner_conninfo = dbname=shop user=effectd_migrate options='-c role=effectd_owner'
--
--	effectd_owner  owns the schema: migrations, and daily partitions
--	effectd_app    what the daemon needs: rows, no DDL. Tables of plugins are the application's to grant
--	effectd_read   looks, changes nothing: dashboards, people

DO $$
DECLARE
	role_name text;
BEGIN
	FOREACH role_name IN ARRAY ARRAY['effectd_owner', 'effectd_app', 'effectd_read'] LOOP
		IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
			EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
		END IF;
	END LOOP;
END
$$;

CREATE SCHEMA IF NOT EXISTS effectd AUTHORIZATION effectd_owner;
GRANT USAGE ON SCHEMA effectd TO effectd_app, effectd_read;

-- Tables that migrations will make. schema_version is only read by the daemon: the first migration sees to that.
ALTER DEFAULT PRIVILEGES FOR ROLE effectd_owner IN SCHEMA effectd
	GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO effectd_app;
ALTER DEFAULT PRIVILEGES FOR ROLE effectd_owner IN SCHEMA effectd
	GRANT SELECT ON TABLES TO effectd_read;
