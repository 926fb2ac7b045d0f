"""One virtual host of the private RabbitMQ: its queues, how full they are, what is in them."""
import re
from collections import namedtuple

from .wait import wait_until

Depth = namedtuple("Depth", "ready unacked")

# A quorum queue's numbers in rabbitmqctl and in the management interface are up to 5 s old: ask its state machine.
DEPTH = """\
case rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)) of
  {{ok, Queue}} ->
    case amqqueue:get_type(Queue) of
      rabbit_quorum_queue ->
        {{ok, State, _}} = ra:consistent_query(amqqueue:get_pid(Queue), fun rabbit_fifo:overview/1),
        {{maps:get(num_ready_messages, State), maps:get(num_checked_out, State)}};
      _ ->
        [{{_, R}}, {{_, U}}] = rabbit_amqqueue:info(Queue, [messages_ready, messages_unacknowledged]),
        {{R, U}}
    end;
  _ -> missing
end."""


class Vhost:
    def __init__(self, server, name):
        self.server, self.name = server, name

    @property
    def url(self):
        return self.server.url(self.name)

    def connect(self):
        """A pika BlockingConnection."""
        return self.server.connect(self.name)

    def declare(self, *queues, queue_type="quorum", arguments=None):
        """Durable queues, which survive a kill of the broker from now on."""
        with self.connect() as connection:
            channel = connection.channel()
            for queue in queues:
                channel.queue_declare(queue, durable=True,
                                      arguments={"x-queue-type": queue_type, **(arguments or {})})
        self.server.keep_queues()

    def bind(self, exchange, routing_key, *queues, exchange_type="topic"):
        """Declare a durable exchange and bind the queues to it."""
        with self.connect() as connection:
            channel = connection.channel()
            channel.exchange_declare(exchange, exchange_type, durable=True)
            for queue in queues:
                channel.queue_bind(queue, exchange, routing_key)

    def depth(self, queue):
        """What the broker holds for the queue now: (ready, unacked)."""
        answer = self.server.eval(DEPTH.format(vhost=self.name, queue=queue))
        numbers = re.findall(r"\d+", answer)
        if len(numbers) != 2:
            raise RuntimeError(f"queue {queue} in vhost {self.name}: {answer}")
        return Depth(*map(int, numbers))

    def wait_empty(self, *queues, timeout=30):
        """Wait until the queues hold nothing, neither ready nor unacknowledged."""
        for queue in queues:
            wait_until(lambda: self.depth(queue) == (0, 0), timeout, f"queue {queue} to be empty",
                       explain=lambda: f"it holds {self.depth(queue)}")

    def browse(self, queue):
        """The bodies of all ready messages, which then go back (a quorum queue counts that as a delivery)."""
        bodies = []
        with self.connect() as connection:
            channel = connection.channel()
            while True:
                method, _, body = channel.basic_get(queue)
                if method is None:
                    return bodies
                bodies.append(body)

    def get(self, queue):
        """Take one message out: (method, properties, body), or (None, None, None)."""
        with self.connect() as connection:
            return connection.channel().basic_get(queue, auto_ack=True)

    def delete(self):
        self.server.delete_vhost(self.name)
