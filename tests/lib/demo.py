"""The second half of tools/quickstart: servers, orders, one effectd with three plugins and a relay, and the proof.

The proof is counted in PostgreSQL and the broker, and compared with what was published, and at the provider that gets the
receipts; effectd's own counters are not asked. Exit 1 if anything does not fit.
"""
import os
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lib import build, checker, config, orders  # noqa: E402
from lib.daemon import Effectd  # noqa: E402
from lib.postgres import Postgres  # noqa: E402
from lib.provider import Provider  # noqa: E402
from lib.publisher import Publisher  # noqa: E402
from lib.rabbit import Rabbit  # noqa: E402
from lib.wait import wait_until  # noqa: E402

ORDERS, DUPLICATE_EVERY = 20000, 10
PLUGINS = {"loyalty": "loyalty_points", "analytics": "analytics", "receipts": "receipts"}
QUEUES = {consumer: f"{consumer}.order-completed" for consumer in PLUGINS}
PATIENCE_S = 120


def main(keep):
    folder = tempfile.mkdtemp(prefix="effectd-quickstart-")
    os.chmod(folder, 0o755)
    pg, rabbit = Postgres(os.path.join(folder, "pg")), Rabbit(os.path.join(folder, "mq"))
    daemon = None
    provider = Provider()
    try:
        say("private PostgreSQL and RabbitMQ")
        pg.create().start()
        rabbit.create().start()
        database, vhost = pg.createdb("shop"), rabbit.add_vhost("shop")
        provider.__enter__()
        daemon = Effectd(os.path.join(folder, "effectd"),
                         sections(database, vhost, provider, os.path.join(folder, "effectd")))
        say("effectd migrate up, and the plugins' schema.sql")
        migrate(daemon, database)
        publisher = publish(vhost)
        say(f"effectd run -c {daemon.file}")
        started = time.monotonic()
        daemon.start()
        watch(daemon, database, vhost)
        seconds = time.monotonic() - started
        wait_for_receipts(daemon, database)
        if keep:
            prove(publisher.log, database, vhost, provider, seconds)
            wait_for_ctrl_c(daemon, database, rabbit)
        daemon.stop()
        if not keep:
            prove(publisher.log, database, vhost, provider, seconds)
            print(NEXT)
    finally:
        if daemon and daemon.alive():
            daemon.kill()
        provider.__exit__()
        rabbit.destroy()
        pg.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def sections(database, vhost, provider, runtime_dir):
    answer = config.base(database, vhost, runtime_dir)
    answer["effectd"]["log_level"] = "info"
    for consumer, plugin in PLUGINS.items():
        answer[f"consumer:{consumer}"] = config.consumer(plugin, QUEUES[consumer])
    answer["target:mailer"] = {"type": "http", "url": provider.url}
    answer["relay:main"] = {"kind.send_receipt": "mailer"}
    return answer


def migrate(daemon, database):
    done = daemon.command("migrate", "up")
    if done.rc != 0:
        raise Failure(f"effectd migrate up ended with {done.rc}:\n{done.stderr}")
    for plugin in PLUGINS.values():
        database.run_file(build.plugin_schema(plugin))
    orders.seed_customers(database)


def publish(vhost):
    """Each order once, each tenth twice, through a topic exchange that copies it to three queues."""
    vhost.declare(*QUEUES.values())
    vhost.bind("orders", "order.completed", *QUEUES.values())
    publisher = Publisher(vhost, "orders", "order.completed")
    started = time.monotonic()
    messages = publisher.orders(range(1, ORDERS + 1), DUPLICATE_EVERY)
    say(f"published {len(messages):,} messages for {ORDERS:,} orders to exchange `orders`, all confirmed, "
        f"in {time.monotonic() - started:.1f} s")
    return publisher


def watch(daemon, database, vhost):
    """Show how far the consumers are, until their queues are empty."""
    deadline = time.monotonic() + PATIENCE_S
    shown = None
    while True:
        depths = {consumer: sum(vhost.depth(queue)) for consumer, queue in QUEUES.items()}
        claims = dict(database.rows("SELECT consumer, count(*) FROM effectd.processed_messages GROUP BY 1"))
        line = "  " + "   ".join(f"{consumer} {100 * claims.get(consumer, 0) // ORDERS:3d} %" for consumer in PLUGINS)
        if sys.stdout.isatty():
            print(f"\r{line}", end="", flush=True)
        elif sum(claims.values()) // (ORDERS // 2) != shown:
            shown = sum(claims.values()) // (ORDERS // 2)
            print(line, flush=True)
        if not any(depths.values()):
            print("\n" if sys.stdout.isatty() else "")
            return
        if not daemon.alive():
            raise Failure(f"effectd ended by itself; {daemon.log_tail()}")
        if time.monotonic() > deadline:
            raise Failure(f"after {PATIENCE_S} s the queues still hold {depths}; {daemon.log_tail()}")
        time.sleep(0.1)


def wait_for_receipts(daemon, database):
    """Until the relay has delivered what the receipts plugin wrote into the outbox."""
    def sent():
        if not daemon.alive():
            raise Failure(f"effectd ended by itself; {daemon.log_tail()}")
        return database.value("SELECT count(*) FROM effectd.outbox WHERE status <> 'sent'") == 0
    wait_until(sent, PATIENCE_S, "all receipts to be delivered", interval=0.1, explain=daemon.log_tail)


def prove(log, database, vhost, provider, seconds):
    columns = {consumer: checker.Checker(log, vhost, database, consumer, queue).check()
               for consumer, queue in QUEUES.items()}
    published = len(log)
    for consumer, counted in columns.items():
        require(counted["applied"] == ORDERS, f"{consumer} applied {counted['applied']}, not {ORDERS}")
        require(counted["parked"] == counted["queued"] == 0, f"{consumer} left messages over: {counted}")
    checker.check_loyalty_sums(database)
    checker.check_loyalty_orders(log, database)
    checker.check_analytics_sums(log, database)
    ledger = database.value("SELECT sum(points) FROM point_ledger")
    balances = database.value("SELECT sum(points) FROM balances")
    owed = sum(orders.points(order_id) for order_id in range(1, ORDERS + 1))
    require(ledger == balances == owed, f"points: ledger {ledger}, balances {balances}, orders {owed}")
    sold, total = database.rows("SELECT sum(orders), sum(total) FROM daily_sales")[0]
    receipts, of_orders = database.rows("SELECT count(*), count(DISTINCT message_key) FROM effectd.outbox "
                                        "WHERE kind = 'send_receipt'")[0]
    require(receipts == of_orders == ORDERS, f"{receipts} receipts for {of_orders} orders, not {ORDERS}")
    calls = provider.keys()
    named = {call.body["order_id"] for call in provider.calls}
    require(set(calls) == set(provider.effects) and len(set(calls)) == len(named) == ORDERS,
            f"the provider got {len(calls)} calls with {len(set(calls))} keys for {len(named)} orders, not {ORDERS}")

    rows = {
        "published": [published] * len(columns),
        "applied": [counted["applied"] for counted in columns.values()],
        "duplicates": [published - counted["applied"] for counted in columns.values()],
        "parked": [counted["parked"] for counted in columns.values()],
        "left in queue": [counted["queued"] for counted in columns.values()],
    }
    print(f"  {'':16}" + "".join(f"{consumer:>12}" for consumer in columns))
    for name, numbers in rows.items():
        print(f"  {name:16}" + "".join(f"{number:12,}" for number in numbers))
    print(f"\n  points           ledger {ledger:,} = balances {balances:,} = what the orders say {owed:,}")
    print(f"  sales            {sold:,} orders, {total:,} EUR = what the orders say")
    print(f"  receipts         {len(calls):,} calls of a provider = {len(set(calls)):,} keys = {receipts:,} orders")
    print(f"  time             {seconds:.1f} s, {len(columns) * published / seconds:,.0f} deliveries a second, "
          "one process")
    print("\n  Every effect is there exactly once.\n")


def wait_for_ctrl_c(daemon, database, rabbit):
    print(f"""\
Look around in another terminal (Ctrl-C here ends everything):
  psql '{database.conninfo}' -c 'SELECT * FROM effectd.processed_messages LIMIT 5'
  {os.path.relpath(build.EFFECTD)} status -c {daemon.file}
  less {daemon.log_file}
  AMQP: {rabbit.url('shop')}
""")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def say(text):
    print(f"- {text}", flush=True)


class Failure(Exception):
    """Something that the reader must know, without a stack trace."""


def require(condition, sentence):
    if not condition:
        raise Failure(sentence)


NEXT = """\
Look around:  tools/quickstart --keep    keeps PostgreSQL, RabbitMQ and effectd running after the proof
Read next:    plugins/loyalty_points/loyalty_points.c    a consumer: its key, its SQL, its effect
              docs/tutorial.md                           write and run one of your own, in ten minutes
              docs/plugin-guide.md                       all about writing them
              docs/guarantees.md                         what `exactly once` means here, and what it does not
"""

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main("--keep" in sys.argv[1:])
    except (Failure, AssertionError) as error:
        print(f"\ntools/quickstart: this is wrong: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
