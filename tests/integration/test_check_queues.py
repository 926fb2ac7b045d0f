"""effectd check --live with a management_url: what queues do to their messages, and what that means."""
import base64
import json
import os
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from integration.test_amqp_tls import listens
from lib import build, config
from lib.daemon import effectd
from lib.ports import free_ports
from lib.rabbit import PASSWORD, USER, Rabbit
from lib.wait import wait_until

pytestmark = pytest.mark.slow  # a broker of its own, with the management plugin

TLS = """\
management.ssl.ip = 127.0.0.1
management.ssl.port = {port}
management.ssl.cacertfile = {folder}/ca.pem
management.ssl.certfile = {folder}/localhost.pem
management.ssl.keyfile = {folder}/localhost.key
"""
# How often a queue that is declared from now on tells of itself: every 5 s if nobody says otherwise.
TICK, TICK_MS = "(fun(Ms) -> application:set_env(rabbit, quorum_tick_interval, Ms) end)", 200
VHOST = "shop/é %2f"  # every byte of it must be escaped
QUORUM, CLASSIC = {"x-queue-type": "quorum"}, {"x-queue-type": "classic"}
DEAD = {"x-dead-letter-exchange": "dead"}
GONE = "and there is no dead-letter exchange"
ONCE = "warning: dead letters are sent at most once"

# Queue: its arguments, what else its declaration and its consumer say, and what is found. Every finding is listed.
QUEUES = {
    "plain": (QUORUM, {}, {}, []),
    "orders/é?#%2f": (QUORUM, {}, {}, []),
    "..": (QUORUM, {}, {}, ["management_url: what the management interface says of the queue is no queue"]),
    "limited": (QUORUM | {"x-delivery-limit": 30}, {}, {},
                [f"the broker drops a message after 30 returns (argument x-delivery-limit), {GONE}"]),
    "by-policy": (QUORUM, {}, {}, [
        "warning: a message becomes a dead letter after 3 returns (policy three): a few crashes", ONCE]),
    "by-operator": (QUORUM | {"x-delivery-limit": 50}, {}, {},
                    [f"the broker drops a message after 25 returns (operator policy guard), {GONE}"]),
    "dying": (QUORUM | {"x-message-ttl": 60000}, {}, {},
              ["warning: messages that wait for 1min are gone unseen (argument x-message-ttl)"]),
    "vanishing": (CLASSIC | {"x-expires": 3600000}, {}, {},
                  ["it is deleted when nobody consumes for 1h (argument x-expires)"]),
    "short": (CLASSIC | {"x-max-length": 1000}, {}, {},
              ["warning: beyond 1000 messages the oldest messages are gone unseen (argument x-max-length)"]),
    "bounded": (CLASSIC | {"x-max-length": 1000, "x-overflow": "reject-publish"}, {}, {}, []),
    "transient": (CLASSIC, {"durable": False}, {}, ["it is not durable: a restart of the broker"]),
    "passing": (CLASSIC, {"auto_delete": True}, {}, ["it deletes itself with its last consumer"]),
    "stream": ({"x-queue-type": "stream"}, {}, {}, ["it is a stream"]),
    "no-exchange": (CLASSIC | {"x-message-ttl": 5, "x-dead-letter-exchange": "nowhere"}, {}, {},
                    ["dead letters go to exchange nowhere, which does not exist (argument x-dead-letter-exchange)"]),
    "no-binding": (CLASSIC | {"x-message-ttl": 5, "x-dead-letter-exchange": "unbound"}, {}, {},
                   ["dead letters go to exchange unbound, which leads them to no queue"]),
    "no-key": (CLASSIC | DEAD | {"x-message-ttl": 5, "x-dead-letter-routing-key": "other"}, {}, {},
               ["dead letters go to exchange dead, which leads them to no queue"]),
    "no-queue": (CLASSIC | {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"}, {},
                 {}, ["dead letters go to the default exchange, which leads them to no queue"]),
    "itself": (CLASSIC | {"x-message-ttl": 5, "x-dead-letter-exchange": ""}, {}, {},
               ["dead letters go to the default exchange, which leads them back here or nowhere"]),
    "harmless": (CLASSIC | {"x-dead-letter-exchange": "nowhere"}, {}, {},
                 ["warning: dead letters would go to exchange nowhere, which does not exist"]),
    "kept": (QUORUM | DEAD | {"x-delivery-limit": 20, "x-dead-letter-routing-key": "k", "x-overflow": "reject-publish",
                              "x-dead-letter-strategy": "at-least-once"}, {}, {}, []),
    "half-kept": (QUORUM | DEAD | {"x-delivery-limit": 20, "x-dead-letter-strategy": "at-least-once"}, {}, {},
                  ["warning: dead-letter-strategy = at-least-once (argument x-dead-letter-strategy) holds only with"]),
    "single": (QUORUM | {"x-single-active-consumer": True}, {}, {"workers": 3},
               ["warning: it feeds one consumer at a time (argument x-single-active-consumer): 2 of the 3 workers"]),
    "ordered": (CLASSIC | {"x-max-priority": 5}, {}, {"order": "queue"}, [
        "warning: order = queue, but it has no x-single-active-consumer",
        "warning: order = queue, but it has priorities (argument x-max-priority)"]),
    "declared": (QUORUM | {"x-max-length": 9, "x-overflow": "reject-publish"}, {},
                 {"declare": "yes", "queue_arg__x-max-length": 9, "queue_arg__x-overflow": "reject-publish"}, []),
    "redeclared": (CLASSIC, {}, {"declare": "yes", "queue_arg__x-single-active-consumer": "true"}, [
        "it is a classic queue, but declare = yes wants queue_type = quorum: the broker refuses",
        "its argument x-single-active-consumer is not what declare = yes would set: the broker refuses"]),
    "windowed": (CLASSIC | DEAD | {"x-message-ttl": 7200000}, {}, {"retention": "1h"},
                 ["warning: a message may wait in its queue for 2h, but retention = 1h"]),
}

HOLDS = {
    "plain": "is quorum and durable; only an acknowledgement takes a message out of it",
    "bounded": "is classic and durable; only an acknowledgement takes a message out of it",
    "kept": "is quorum and durable; a message also leaves it after 20 returns (argument x-delivery-limit); "
            "dead letters go to exchange dead (argument x-dead-letter-exchange)",
    "by-policy": "is quorum and durable; a message also leaves it after 3 returns (policy three); "
                 "dead letters go to exchange dead (policy three)",
    "short": "is classic and durable; a message also leaves it beyond 1000 messages (argument x-max-length)",
    "windowed": "is classic and durable; a message also leaves it at the age of 2h (argument x-message-ttl); "
                "dead letters go to exchange dead (argument x-dead-letter-exchange)",
}


class Broker(Rabbit):
    """With the management interface, over TLS too."""

    def __init__(self, folder, certificates):
        self.tls_port, = free_ports(1)
        super().__init__(folder, config=TLS.format(port=self.tls_port, folder=certificates), management=True)

    @property
    def management_url(self):
        return f"http://127.0.0.1:{self.management_port}"

    def ask(self, method, *path, value=None):
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        path = "/".join(urllib.parse.quote(part, safe="") for part in path)
        request = urllib.request.Request(f"{self.management_url}/api/{path}", json.dumps(value).encode(), method=method,
                                         headers={"Authorization": f"Basic {login}",
                                                  "Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or "null")

    def policy(self, kind, name, pattern, **definition):
        self.ask("PUT", kind, VHOST, name, value={"pattern": pattern, "apply-to": "queues", "definition": definition})


def declare(vhost):
    with vhost.connect() as connection:
        channel = connection.channel()
        for exchange in ("dead", "unbound"):
            channel.exchange_declare(exchange, "direct", durable=True)
        channel.queue_declare("graveyard", durable=True)
        channel.queue_bind("graveyard", "dead", "k")
        for name, (arguments, more, _, _) in QUEUES.items():
            channel.queue_declare(name, arguments=arguments, **{"durable": True, **more})


@pytest.fixture(scope="module")
def broker(servers_folder, certificates):
    """A node whose virtual host has all the queues."""
    server = Broker(os.path.join(servers_folder, "mq-management"), certificates)
    try:
        server.create().start()
        wait_until(lambda: listens(server.management_port) and listens(server.tls_port), 30, "the management interface")
        server.eval(f"{TICK}({TICK_MS}), application:set_env(rabbit, collect_statistics_interval, {TICK_MS}).")
        vhost = server.add_vhost(VHOST)
        declare(vhost)
        server.policy("policies", "three", "^by-policy$", **{"delivery-limit": 3, "dead-letter-exchange": "dead"})
        server.policy("operator-policies", "guard", "^by-operator$", **{"delivery-limit": 25})
        for name, tags in (("watcher", "management"), ("nobody", "")):
            server.ask("PUT", "users", name, value={"password": "p@ss:/", "tags": tags})
            server.ask("PUT", "permissions", VHOST, name, value={"configure": "", "write": "", "read": ".*"})
        for queue, policy in (("by-policy", "policy"), ("by-operator", "operator_policy")):
            wait_until(lambda: server.ask("GET", "queues", VHOST, queue).get(policy), 20, f"the {policy} to be known")
        yield vhost
    finally:
        server.destroy()


@pytest.fixture
def check(broker, stage_db, runtime_dir, tmp_path):
    """Run `effectd check --live` for consumers of these queues."""
    def write(*queues, name="effectd.ini", **more):
        sections = config.base(stage_db, broker, runtime_dir)
        sections["broker:main"].update({"management_url": broker.server.management_url, **more})
        for number, queue in enumerate(queues):
            settings = QUEUES[queue][2] if queue in QUEUES else {}
            sections[f"consumer:c{number}"] = config.consumer("scripted", queue, **{"workers": 1, **settings})
        file = tmp_path / name
        file.write_text(config.text(sections))
        return "check", "--live", "--json", "-c", file

    def run(*queues, **more):
        done = effectd(*write(*queues, **more))
        assert done.stderr == "", done
        return done.rc, json.loads(done.stdout)
    run.write = write
    return run


def findings(answer, section):
    """Warnings have the word before them, as on stderr."""
    return [mark + p["text"] for mark, kind in (("", "problems"), ("warning: ", "warnings"))
            for p in answer[kind] if p["section"] == section]


def facts(answer, subject):
    return [fact["text"] for fact in answer["facts"] if fact["subject"] == subject]


def test_every_queue_that_loses_messages_is_named_and_no_other_is(check):
    rc, answer = check(*QUEUES)
    assert rc == 78
    for number, (queue, (_, _, _, expected)) in enumerate(QUEUES.items()):
        found = [text for text in findings(answer, f"consumer:c{number}") if "never ran on this database" not in text]
        missing = [line for line in expected if not any(text.startswith(line) for text in found)]
        assert not missing and len(found) == len(expected), (queue, missing, found)
    said = {queue: facts(answer, f"consumer c{number}") for number, queue in enumerate(QUEUES)}
    for queue, holds in HOLDS.items():
        assert f"queue {queue} {holds}" in said[queue] and f"queue {queue} has 0 messages ready" in said[queue]
    assert any(text.startswith("RabbitMQ ") for text in facts(answer, "broker main"))


def test_a_queue_that_is_declared_otherwise_is_refused_as_check_said(check, broker, stage_db, runtime_dir, daemon):
    """What check says of a start is what a start meets."""
    sections = config.base(stage_db, broker, runtime_dir)
    sections["consumer:same"] = config.consumer("scripted", "declared", **QUEUES["declared"][2])
    sections["consumer:other"] = config.consumer("scripted", "redeclared", **QUEUES["redeclared"][2])
    with daemon(sections) as one:
        one.wait_log(r"event=consuming\b.*\bconsumer=same\b")
        one.wait_log(r"PRECONDITION_FAILED.*redeclared")
    assert not one.matches(r"PRECONDITION_FAILED.*'declared'")


def test_who_asks_and_over_what(check, broker, certificates):
    """The broker's user or one in the URL; TLS by the broker's own files."""
    password = urllib.parse.quote("p@ss:/", safe="")
    https = f"https://localhost:{broker.server.tls_port}"
    plain = broker.server.management_url
    known = "queue plain is quorum and durable"
    for options, rc, says in (
            ({"management_url": plain.replace("//", f"//watcher:{password}@") + "/"}, 0, None),
            ({"management_url": https, "tls_ca_file": certificates / "ca.pem"}, 0, None),
            ({"management_url": https, "tls_verify": "no"}, 0, None),
            ({"management_url": https, "tls_ca_file": certificates / "stranger.pem"}, 69, "certificate"),
            ({"management_url": plain.replace("//", f"//nobody:{password}@")}, 77, "user nobody is not let in"),
            ({"management_url": plain.replace("//", "//watcher:wrong@")}, 77, "user watcher is not let in"),
            ({"management_url": plain + "/elsewhere"}, 78, "is no management interface"),
            ({"management_url": f"http://127.0.0.1:{free_ports(1)[0]}"}, 69, "connect"),
            ({"management_url": f"http://127.0.0.1:{broker.server.port}"}, 69, "what the queues do to their messages"),
    ):
        code, answer = check("plain", **options)
        problems = findings(answer, "broker:main")
        said = "\n".join(facts(answer, "consumer c0"))
        assert code == rc, (options, answer)
        assert "p@ss" not in json.dumps(answer) and "wrong" not in json.dumps(answer)
        if says is None:
            assert problems == [] and known in said, (options, answer)
        else:
            assert len(problems) == 1 and says in problems[0], (options, problems)
            assert known not in said and "has 0 messages ready; its arguments and policies are not known" in said


def test_what_is_not_told_is_not_waited_for_long(check, broker):
    """An interface that says nothing: one timeout, not one for each queue. One that has no statistics of a queue yet, in
    which its policies stand: it may have them soon."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        silent = subprocess.Popen([build.EFFECTD, *map(str, check.write(
            *QUEUES, management_url=f"http://127.0.0.1:{listener.getsockname()[1]}"))], stdout=subprocess.PIPE)
        try:
            broker.server.eval(f"{TICK}(60000).")
            broker.declare("late", arguments={"x-delivery-limit": 5})
            rc, answer = check("late", name="late.ini")
            assert rc == 0 and "warning: its policies are not known" in "".join(findings(answer, "consumer:c0")), answer
            assert any(text.startswith("queue late is quorum and durable; a message also leaves it after 5 returns")
                       for text in facts(answer, "consumer c0"))
            answer = json.loads(silent.communicate(timeout=60)[0])
        finally:
            broker.server.eval(f"{TICK}({TICK_MS}).")
            silent.kill()
    problems = findings(answer, "broker:main")
    assert silent.returncode == 69 and len(problems) == 1 and "timed out" in problems[0].lower(), answer
