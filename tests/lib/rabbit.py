"""A private RabbitMQ node: own name, folders, cookie, epmd and loopback ports, unprivileged user, gone when destroyed.

The system's broker, its files and its epmd are never touched.
"""
import glob
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import urllib.parse

import pika

from .account import Account
from .ports import free_ports
from .process import Process
from .vhost import Vhost
from .wait import wait_until

logging.getLogger("pika").setLevel(logging.CRITICAL)  # a refused connection is normal while a node starts

USER = PASSWORD = "effectd"
CONFIG = """\
listeners.tcp.local = 127.0.0.1:{port}
default_user = {user}
default_pass = {password}
log.console = false
log.file.level = info
disk_free_limit.absolute = 100MB
raft.wal_max_size_bytes = 67108864
"""
MANAGEMENT = """\
management.tcp.ip = 127.0.0.1
management.tcp.port = {management_port}
"""
# A command through each quorum queue's log: once it is answered, everything before it has been recovered.
CATCH_UP = """\
[{ok, _, _} = ra:process_command(amqqueue:get_pid(Queue), rabbit_fifo:make_garbage_collection(), 30000)
 || Queue <- rabbit_amqqueue:list(), amqqueue:get_type(Queue) =:= rabbit_quorum_queue], ok."""


class Rabbit:
    def __init__(self, folder, config="", management=False, die_with_parent=True):
        """folder is made by create(); config holds more lines for rabbitmq.conf."""
        self.folder = os.path.abspath(folder)
        self.log = os.path.join(self.folder, "log", "node.log")
        self.port = self.management_port = None
        self.node = None
        self._extra_config, self._management = config, management
        self._account = Account()
        self._prefix = self._account.prefix(die_with_parent)
        self._sbin = _sbin()
        self._env = None
        self._cookie = None
        self._epmd = self._process = None

    def create(self):
        """Make the node's folders and configuration."""
        for name in ("", "home", "log", "mnesia", "etc", "schema"):
            os.makedirs(os.path.join(self.folder, name), mode=0o755)
            self._account.own(os.path.join(self.folder, name))
        self.port, self.management_port, dist_port, epmd_port, ctl_port = free_ports(5)
        self.node = f"effectd-{secrets.token_hex(4)}@localhost"
        self._cookie = secrets.token_hex(16)
        self._write("home/.erlang.cookie", self._cookie, 0o400)
        values = {"port": self.port, "management_port": self.management_port, "user": USER, "password": PASSWORD}
        self._write("etc/rabbitmq.conf", (CONFIG + (MANAGEMENT if self._management else "")).format(**values)
                    + self._extra_config)
        self._write("etc/enabled_plugins", "[rabbitmq_management].\n" if self._management else "[].\n")
        self._write("etc/rabbitmq-env.conf", "")
        self._write("etc/advanced.config", "[].\n")
        self._env = self._environment(dist_port, epmd_port, ctl_port)
        return self

    def start(self, timeout=60):
        """Start epmd and the node, and return when it takes connections and has recovered its queues."""
        if not self._epmd or not self._epmd.alive():
            self._epmd = self._spawn("epmd", ["epmd", "-port", self._env["ERL_EPMD_PORT"], "-address", "127.0.0.1"])
            wait_until(self._epmd_answers, 10, "epmd to answer", explain=self._log_tail)
        self._process = self._spawn("node", [f"{self._sbin}/rabbitmq-server"])
        wait_until(self._ready, timeout, "RabbitMQ to take connections", interval=0.1, explain=self._log_tail)
        self.eval(CATCH_UP)
        return self

    def stop(self, timeout=60):
        if self._process:
            self._process.stop(signal.SIGTERM, timeout)

    def restart(self):
        self.stop()
        self.start()

    def kill(self):
        """SIGKILL the node, as a power cut would."""
        self._process.kill()

    def signal(self, number):
        self._process.signal(number)

    def destroy(self):
        """Stop the node and its epmd, whatever state they are in, and remove the folder."""
        for process in (self._process, self._epmd):
            if process and process.alive():
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @classmethod
    def attach(cls, folder):
        """The node that another program started in folder; it can be destroyed, not used."""
        server = cls(folder, die_with_parent=False)
        server._process, server._epmd = (Process.load(server._pid_file(name)) for name in ("node", "epmd"))
        return server

    def alive(self):
        return bool(self._process and self._process.alive())

    def url(self, vhost="/"):
        return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{urllib.parse.quote(vhost, safe='')}"

    def parameters(self, vhost="/"):
        """pika's connection parameters."""
        return pika.ConnectionParameters("127.0.0.1", self.port, vhost, pika.PlainCredentials(USER, PASSWORD),
                                         blocked_connection_timeout=60)

    def connect(self, vhost="/"):
        return pika.BlockingConnection(self.parameters(vhost))

    def add_vhost(self, name):
        """A new virtual host with full rights for the tests' user."""
        quoted = f"<<{_erlang_string(name)}/utf8>>"
        self.eval(f"rabbit_vhost:add({quoted}, <<\"tests\">>), rabbit_auth_backend_internal:set_permissions("
                  f"<<\"{USER}\">>, {quoted}, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"tests\">>), ok.")
        return Vhost(self, name)

    def delete_vhost(self, name):
        self.eval(f"rabbit_vhost:delete(<<{_erlang_string(name)}/utf8>>, <<\"tests\">>), ok.")

    def keep_queues(self):
        """Write the names of new quorum queues to disk now.

        RabbitMQ 3.10 does so half a second late, and a node killed before that brings the queue back dead.
        """
        self.eval("dets:sync(ra_directory_reverse).")

    def ctl(self, *args):
        """Run rabbitmqctl (takes a second or two) and return what it printed."""
        return self._run([f"{self._sbin}/rabbitmqctl", "--quiet", *args])

    def eval(self, expressions):
        """Evaluate Erlang expressions on the node (takes milliseconds) and return the printed value."""
        answer = self._run(["erl_call", "-r", "-sname", self.node, "-c", self._cookie, "-e"], expressions + "\n")
        match = re.fullmatch(r"\{ok, (.*)\}\s*", answer, re.DOTALL)
        if not match:
            raise RuntimeError(f"the node could not evaluate {expressions!r}: {answer}")
        return match[1]

    def _environment(self, dist_port, epmd_port, ctl_port):
        path = lambda name: os.path.join(self.folder, name)
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "HOME": path("home"),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_CRASH_DUMP": "/dev/null",
            "RUNNING_UNDER_SYSTEMD": "true",  # the start script then becomes the node instead of being its parent
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_CTL_DIST_PORT_MIN": str(ctl_port),
            "RABBITMQ_CTL_DIST_PORT_MAX": str(ctl_port + 20),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
            "RABBITMQ_MNESIA_BASE": path("mnesia"),
            "RABBITMQ_LOG_BASE": path("log"),
            "RABBITMQ_LOGS": self.log,
            "RABBITMQ_PID_FILE": path("mnesia/pid"),
            "RABBITMQ_SCHEMA_DIR": path("schema"),
            "RABBITMQ_GENERATED_CONFIG_DIR": path("schema"),
            "RABBITMQ_CONF_ENV_FILE": path("etc/rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": path("etc/rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": path("etc/advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": path("etc/enabled_plugins"),
        }

    def _spawn(self, name, argv):
        process = Process.spawn([*self._prefix, *argv], os.path.join(self.folder, "log", f"{name}.out"),
                                env=self._env, cwd=self.folder)
        process.save(self._pid_file(name))
        return process

    def _pid_file(self, name):
        return os.path.join(self.folder, f"{name}.process")

    def _run(self, argv, text=None):
        done = subprocess.run([*self._account.prefix(), *argv], input=text or "", env=self._env, cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _epmd_answers(self):
        return subprocess.run(["epmd", "-names"], env=self._env, capture_output=True).returncode == 0

    def _ready(self):
        if not self._process.alive():
            raise RuntimeError(f"RabbitMQ ended at start; {self._log_tail()}")
        try:
            self.connect().close()
            return True
        except pika.exceptions.AMQPError:
            return False

    def _log_tail(self):
        text = ""
        for path in sorted(glob.glob(os.path.join(self.folder, "log", "*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += f"end of {path}:\n{''.join(file.readlines()[-20:])}"
        return text

    def _write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        self._account.own(path)


def _erlang_string(text):
    """In ASCII: erl_call reads bytes, and takes each for a character."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isascii() else f"\\x{{{ord(c):x}}}" for c in escaped) + '"'


def _sbin():
    found = glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")
    if not found:
        raise RuntimeError("RabbitMQ is not installed: run tools/packages")
    return found[-1]
