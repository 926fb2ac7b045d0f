"""The stage on which every contender plays: the same PostgreSQL and RabbitMQ, the same tables, a queue filled before.

Each run gets a database copied from one template, a new quorum queue, and servers that are idle again.
"""
import itertools
import os
import shutil
import tempfile
import time
from array import array

import cpu
import programs
from client import Client, wait_all
from lib import build, config, orders
from lib.daemon import effectd
from lib.postgres import Postgres
from lib.rabbit import Rabbit

# PostgreSQL's own defaults in place of the small test instance's; durable, as a default installation is. The two clocks
# cost nothing that can be measured: commit times are in the commit record anyway.
SETTINGS = {"shared_buffers": "128MB", "max_wal_size": "1GB", "log_lock_waits": "off", "fsync": "on",
            "synchronous_commit": "on", "track_commit_timestamp": "on", "track_wal_io_timing": "on"}
DUPLICATE_EVERY = 10
PATIENCE_S = 300
IDLE_SHARE, IDLE_LOOK_S, IDLE_PATIENCE_S = 0.1, 0.2, 15


def deliveries(order_count):
    return order_count + order_count // DUPLICATE_EVERY


class Stage:
    """A context manager: the servers are gone at its end."""

    def __init__(self, settings=None):
        """settings are PostgreSQL's, more than SETTINGS."""
        self._settings = {**SETTINGS, **(settings or {})}

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="effectd-bench-")
        os.chmod(self.folder, 0o755)
        self._numbers = itertools.count(1)
        self.pg = Postgres(os.path.join(self.folder, "pg"), self._settings)
        self.rabbit = Rabbit(os.path.join(self.folder, "mq"))
        try:
            self.pg.create().start()
            self.rabbit.create().start()
            self._pids = self._postmaster_pid(), int(self.rabbit.eval("os:getpid().").strip('"'))
            self.vhost = self.rabbit.add_vhost("bench")
            self._template = self._make_template()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.rabbit.destroy()
        self.pg.destroy()
        shutil.rmtree(self.folder, ignore_errors=True)

    def scene(self, *queues):
        """A new database and new queues with these names."""
        return Scene(self, next(self._numbers), queues)

    def server_cpu_s(self):
        """CPU time that PostgreSQL and RabbitMQ have used so far."""
        return sum(map(cpu.family_s, self._pids))

    def wait_idle(self):
        """The broker writes segments after a publish, PostgreSQL a checkpoint: not on the next run's time."""
        deadline = time.monotonic() + IDLE_PATIENCE_S
        used = self.server_cpu_s()
        while time.monotonic() < deadline:
            time.sleep(IDLE_LOOK_S)
            before, used = used, self.server_cpu_s()
            if used - before < IDLE_SHARE * IDLE_LOOK_S:
                return

    def _postmaster_pid(self):
        with open(os.path.join(self.pg.data, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def _make_template(self):
        """effectd's schema and the plugins' tables, which the peers use as well."""
        database = self.pg.createdb("bench_template")
        file = os.path.join(self.folder, "migrate.ini")
        with open(file, "w", encoding="utf-8") as out:
            out.write(config.text({"database:main": {"conninfo": database.conninfo}}))
        done = effectd("migrate", "up", "-c", file)
        if done.rc != 0:
            raise RuntimeError(f"effectd migrate up ended with {done.rc}:\n{done.stderr}")
        for plugin in ("loyalty_points", "analytics", "receipts"):
            database.run_file(build.plugin_schema(plugin))
        orders.seed_customers(database)
        database.execute("VACUUM ANALYZE")
        return database.name


class Scene:
    """What one run needs, used as a context manager: a database, queues, and the environment that names them."""

    def __init__(self, stage, number, queues):
        self.stage, self.vhost = stage, stage.vhost
        self._name = f"bench_{number}"
        self.queues = [f"{queue}_{number}" for queue in queues]
        self.folder = os.path.join(stage.folder, self._name)

    def __enter__(self):
        os.makedirs(self.folder)
        self.database = self.stage.pg.createdb(self._name, self.stage._template)
        # The peers name effectd's table without its schema, so that all of them write to the very same one.
        self.database.execute(f"ALTER DATABASE {self._name} SET search_path = public, effectd")
        self.vhost.declare(*self.queues)
        pg = self.stage.pg
        self.env = {"AMQP_URL": self.vhost.url, "PGHOST": "127.0.0.1", "PGPORT": str(pg.port), "PGUSER": pg.user,
                    "PGDATABASE": self._name, "PGSSLMODE": "disable"}
        self._clients = []
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.kill()
        with self.vhost.connect() as connection:
            for queue in self.queues:
                connection.channel().queue_delete(queue)
        self.database.drop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, argv):
        client = Client(argv, self.env, os.path.join(self.folder, f"client_{len(self._clients)}.log"))
        self._clients.append(client)
        return client

    def _run(self, argv):
        wait_all([self.start(argv)], PATIENCE_S)

    def publish(self, order_count):
        """Fill every queue, then wait until the servers have nothing left to do."""
        for queue in self.queues:
            self._run([programs.PUBLISH, queue, order_count, DUPLICATE_EVERY])
        self.settle()

    def settle(self):
        self.database.execute("CHECKPOINT")
        self.stage.wait_idle()

    def publish_paced(self, order_count, rate):
        """Fill the queue at rate messages a second; when each order was published, in microseconds since 1970."""
        file = os.path.join(self.folder, "times")
        self._run([programs.PUBLISH, self.queues[0], order_count, DUPLICATE_EVERY, rate, file])
        times = array("q")
        with open(file, "rb") as data:
            times.frombytes(data.read())
        return times

    def wait_consumers(self, count):
        with self.vhost.connect() as connection:
            channel = connection.channel()
            self._wait(lambda: _declared(channel, self.queues[0]).consumer_count >= count, "the consumers to be there")

    def wait_drained(self, client):
        """Wait until the broker holds nothing more. Asks rarely: the run's time comes from PostgreSQL's clock."""
        with self.vhost.connect() as connection:
            channel = connection.channel()
            for queue in self.queues:
                self._wait(lambda: _declared(channel, queue).message_count == 0, f"queue {queue} to be drained", client)
        time.sleep(IDLE_LOOK_S)  # the last batches: the next question costs the broker more
        for queue in self.queues:
            self._wait(lambda: self.vhost.depth(queue) == (0, 0), f"queue {queue} to be acknowledged", client)

    def _wait(self, condition, what, client=None):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if client and client.ended():
                raise RuntimeError(f"while waiting for {what} it ended by itself:\n{client.output()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited {PATIENCE_S} s in vain for {what}\n{client.output() if client else ''}")
            time.sleep(0.25)


def _declared(channel, queue):
    return channel.queue_declare(queue, passive=True).method
