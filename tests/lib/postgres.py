"""A private PostgreSQL: own data folder, own loopback port and socket, unprivileged user, gone when destroyed.

fsync stays on, because durability is what the tests test; the system's own instance is never touched.
"""
import glob
import os
import shutil
import signal
import subprocess

import psycopg

from .account import Account
from .database import Database
from .ports import free_ports
from .process import Process
from .wait import wait_until

SUPERUSER = "effectd"
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "dynamic_shared_memory_type": "mmap",
    "log_line_prefix": "%m [%p] %a/%d ",
    "log_lock_waits": "on",
    "timezone": "UTC",
}


class Postgres:
    def __init__(self, folder, settings=None, die_with_parent=True):
        """folder is made by create(); settings override SETTINGS."""
        self.folder = os.path.abspath(folder)
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")
        self.port = None
        self.user = SUPERUSER
        self._settings = {**SETTINGS, **(settings or {})}
        self._account = Account()
        self._prefix = self._account.prefix(die_with_parent)
        self._bin = _newest_bin()
        self._process = None

    def create(self):
        """Make the data folder."""
        os.makedirs(self.folder, mode=0o755)
        self._account.own(self.folder)
        self.port, = free_ports(1)
        done = subprocess.run(
            [*self._account.prefix(), f"{self._bin}/initdb", "-D", self.data, "-U", SUPERUSER, "--auth=trust",
             "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")
        lines = [f"{key} = '{value}'\n" for key, value in self._settings.items()]
        lines += [f"port = {self.port}\n", f"unix_socket_directories = '{self.folder}'\n"]
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.writelines(lines)
        return self

    def start(self, timeout=30):
        """Start the server and return when it takes connections."""
        self._process = Process.spawn([*self._prefix, f"{self._bin}/postgres", "-D", self.data], self.log,
                                      cwd=self.folder)
        self._process.save(self._pid_file)
        wait_until(self._ready, timeout, "PostgreSQL to take connections", explain=self._log_tail)
        return self

    def stop(self, mode="fast", timeout=30):
        """Stop the server: smart, fast or immediate."""
        if self._process:
            self._process.stop(STOP_SIGNALS[mode], timeout)

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def kill(self):
        """SIGKILL the postmaster and every backend, as a power cut would."""
        self._process.kill()

    def signal(self, number):
        """Send a signal to the postmaster only."""
        self._process.signal(number)

    def destroy(self):
        """Stop the server, whatever state it is in, and remove its folder."""
        if self._process and self._process.alive():
            self._process.signal(signal.SIGCONT)
            self.stop("immediate")
        self._remove_shared_memory()
        shutil.rmtree(self.folder, ignore_errors=True)

    @classmethod
    def attach(cls, folder):
        """The server that another program started in folder."""
        server = cls(folder, die_with_parent=False)
        server._process = Process.load(server._pid_file)
        return server

    def alive(self):
        return bool(self._process and self._process.alive())

    def conninfo(self, dbname="postgres", user=SUPERUSER):
        return f"host=127.0.0.1 port={self.port} user={user} dbname={dbname}"

    def connect(self, dbname="postgres", **options):
        """A psycopg connection in autocommit mode."""
        return psycopg.connect(self.conninfo(dbname), autocommit=True, **options)

    def createdb(self, name, template="template1"):
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return Database(self, name)

    def databases(self):
        """Names of all databases."""
        with self.connect() as connection:
            return [name for name, in connection.execute("SELECT datname FROM pg_database").fetchall()]

    def dropdb(self, name):
        with self.connect() as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    @property
    def _pid_file(self):
        return os.path.join(self.folder, "process")

    def _ready(self):
        if not self._process.alive():
            raise RuntimeError(f"PostgreSQL ended at start; {self._log_tail()}")
        try:
            self.connect(connect_timeout=5).close()
            return True
        except psycopg.OperationalError:
            return False

    def _log_tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return f"end of {self.log}:\n{''.join(file.readlines()[-20:])}"

    def _remove_shared_memory(self):
        """A killed postmaster leaves its small System V segment; its pid file names it."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        if len(lines) > 6 and len(lines[6].split()) == 2:
            subprocess.run(["ipcrm", "-m", lines[6].split()[1]], capture_output=True)


def _newest_bin():
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    if not found:
        raise RuntimeError("PostgreSQL's server is not installed: run tools/packages")
    return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))
