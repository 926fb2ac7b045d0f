"""A publisher that keeps a log of every message and of what the broker said about it.

The log is what the invariants are checked against. Publishing is pipelined: many messages are on their way before
the first confirm comes back. Lost connections are reported, not hidden: such messages are 'unknown' in the log.
"""
from collections import Counter
from dataclasses import dataclass

import pika

from . import orders

CONFIRMED, NACKED, RETURNED, UNKNOWN = "confirmed", "nacked", "returned", "unknown"
WINDOW = 2000


@dataclass
class Published:
    """One publish; key is the message key that a consumer makes of the body, None when the body has none."""
    key: str
    body: bytes
    exchange: str
    routing_key: str
    properties: pika.BasicProperties
    outcome: str = UNKNOWN


class Publisher:
    def __init__(self, vhost, exchange="", routing_key=""):
        """exchange and routing_key are the defaults for messages that name none; exchange "" means a queue's name."""
        self._vhost, self._exchange, self._routing_key = vhost, exchange, routing_key
        self.log = []

    def message(self, body, key=None, exchange=None, routing_key=None, **properties):
        """A message for publish(); properties are AMQP's (headers, message_id, timestamp, ...)."""
        properties = {"delivery_mode": 2, "content_type": "application/json", **properties}
        return Published(key, body, self._exchange if exchange is None else exchange,
                         self._routing_key if routing_key is None else routing_key,
                         pika.BasicProperties(**properties))

    def publish(self, messages):
        """Publish Published messages, wait for the broker's answers, and add all of them to the log."""
        messages = list(messages)
        self.log += messages
        _Flight(self._vhost.server.parameters(self._vhost.name), messages).fly()
        return messages

    def body(self, body, key=None, **options):
        """Publish one message of any body, and require its confirm."""
        message, = self.publish([self.message(body, key, **options)])
        assert message.outcome == CONFIRMED, f"the broker answered: {message.outcome}"
        return message

    def order(self, order_id, **changes):
        """An order's message for publish()."""
        return self.message(orders.body(order_id, **changes), orders.key(order_id))

    def orders(self, ids, duplicate_every=0, **changes):
        """Publish an order for each id, each duplicate_every-th twice, and require all confirms."""
        messages = []
        for order_id in ids:
            copies = 2 if duplicate_every and order_id % duplicate_every == 0 else 1
            messages += [self.order(order_id, **changes) for _ in range(copies)]
        outcomes = Counter(message.outcome for message in self.publish(messages))
        assert outcomes[CONFIRMED] == len(messages), f"the broker answered: {dict(outcomes)}"
        return messages


class _Flight:
    """One connection that publishes a list of messages, WINDOW of them unanswered at most."""

    def __init__(self, parameters, messages):
        self._messages, self._next, self._open = messages, 0, {}
        self._connection = pika.SelectConnection(parameters, on_open_callback=self._opened,
                                                 on_open_error_callback=self._ended, on_close_callback=self._ended)
        self._channel = None

    def fly(self):
        if self._messages:
            self._connection.ioloop.start()

    def _opened(self, connection):
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel):
        self._channel = channel
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._answered, callback=lambda _: self._fill())

    def _fill(self):
        while self._next < len(self._messages) and len(self._open) < WINDOW:
            message = self._messages[self._next]
            self._next += 1
            self._open[self._next] = message
            self._channel.basic_publish(message.exchange, message.routing_key, message.body, message.properties,
                                        mandatory=True)
        if not self._open:
            self._connection.close()

    def _returned(self, _channel, method, properties, body):
        """A return comes before the confirm of its message."""
        for message in self._open.values():
            if (message.outcome == UNKNOWN and message.body == body and message.exchange == method.exchange
                    and message.routing_key == method.routing_key and message.properties == properties):
                message.outcome = RETURNED
                return

    def _answered(self, frame):
        tag = frame.method.delivery_tag
        outcome = CONFIRMED if isinstance(frame.method, pika.spec.Basic.Ack) else NACKED
        for one in [open_tag for open_tag in self._open if open_tag <= tag] if frame.method.multiple else [tag]:
            message = self._open.pop(one)
            if message.outcome == UNKNOWN:
                message.outcome = outcome
        if len(self._open) < WINDOW // 2:
            self._fill()

    def _channel_closed(self, _channel, _reason):
        if self._connection.is_open:
            self._connection.close()

    def _ended(self, connection, _reason):
        connection.ioloop.stop()
