"""What a person's shell knows of the servers."""


def variables(pg, amqp_url, dbname="postgres"):
    """Environment variables: libpq's, and AMQP_URL."""
    return {"PGHOST": "127.0.0.1", "PGPORT": str(pg.port), "PGUSER": pg.user, "PGDATABASE": dbname,
            "AMQP_URL": amqp_url}
