"""One database of the private PostgreSQL, and short ways to ask it."""


class Database:
    def __init__(self, server, name):
        self.server, self.name = server, name

    @property
    def conninfo(self):
        return self.server.conninfo(self.name)

    def connect(self, **options):
        return self.server.connect(self.name, **options)

    def execute(self, sql, args=None):
        """Run one or, without args, several statements."""
        with self.connect() as connection:
            connection.execute(sql, args)

    def run_file(self, path):
        with open(path, encoding="utf-8") as file:
            self.execute(file.read())

    def rows(self, sql, args=None):
        with self.connect() as connection:
            return connection.execute(sql, args).fetchall()

    def value(self, sql, args=None):
        """The single value of a one-row, one-column query."""
        (answer,), = self.rows(sql, args)
        return answer

    def drop(self):
        self.server.dropdb(self.name)
