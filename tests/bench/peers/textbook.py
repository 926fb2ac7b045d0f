#!/usr/bin/python3
"""textbook.py QUEUE COUNT: the textbook consumer, one transaction a message, ack after the commit."""
import json
import os
import sys
import time

import pika
import psycopg

CLAIM = "INSERT INTO processed_messages (consumer, message_key) VALUES ('loyalty', %s) ON CONFLICT DO NOTHING"
BALANCE = "UPDATE balances SET points = points + %s WHERE customer_id = %s"
ENTRY = "INSERT INTO point_ledger (order_id, customer_id, points) VALUES (%s, %s, %s)"


class Consumer:
    def __init__(self, count):
        self.count, self.done, self.duplicates, self.start = count, 0, 0, None
        self.database = psycopg.connect("")
        self.database.execute("SELECT 1")
        self.database.commit()

    def apply(self, order):
        """True: applied; False: a duplicate."""
        with self.database.transaction():
            if self.database.execute(CLAIM, (f"order-completed:{order['order_id']}",)).rowcount == 0:
                return False
            points = order["total_cents"] // 100
            self.database.execute(BALANCE, (points, order["customer_id"]))
            self.database.execute(ENTRY, (order["order_id"], order["customer_id"], points))
        return True

    def on_message(self, channel, method, _properties, body):
        self.start = self.start or time.monotonic()
        self.duplicates += not self.apply(json.loads(body))
        channel.basic_ack(method.delivery_tag)
        self.done += 1
        if self.done == self.count:
            channel.stop_consuming()


def main(queue, count):
    consumer = Consumer(count)
    broker = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    channel = broker.channel()
    channel.basic_qos(prefetch_count=100)
    channel.basic_consume(queue, consumer.on_message)
    channel.start_consuming()
    seconds = time.monotonic() - consumer.start
    print(f"deliveries={count} duplicates={consumer.duplicates} seconds={seconds:.4f}")
    broker.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
