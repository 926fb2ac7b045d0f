// go_consumer QUEUE COUNT CONNECTIONS: one transaction a message, CONNECTIONS goroutines, ack after the commit.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v4/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	claimSQL   = "INSERT INTO processed_messages (consumer, message_key) VALUES ('loyalty', $1) ON CONFLICT DO NOTHING"
	balanceSQL = "UPDATE balances SET points = points + $1 WHERE customer_id = $2"
	entrySQL   = "INSERT INTO point_ledger (order_id, customer_id, points) VALUES ($1, $2, $3)"
)

type order struct {
	OrderID    int64 `json:"order_id"`
	CustomerID int64 `json:"customer_id"`
	TotalCents int64 `json:"total_cents"`
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func apply(ctx context.Context, pool *pgxpool.Pool, body []byte) (duplicate bool) {
	var o order
	must(json.Unmarshal(body, &o))
	tx, err := pool.Begin(ctx)
	must(err)
	claim, err := tx.Exec(ctx, claimSQL, "order-completed:"+strconv.FormatInt(o.OrderID, 10))
	must(err)
	if claim.RowsAffected() == 1 {
		_, err = tx.Exec(ctx, balanceSQL, o.TotalCents/100, o.CustomerID)
		must(err)
		_, err = tx.Exec(ctx, entrySQL, o.OrderID, o.CustomerID, o.TotalCents/100)
		must(err)
	}
	must(tx.Commit(ctx))
	return claim.RowsAffected() == 0
}

func main() {
	queue, connections := os.Args[1], os.Args[3]
	count, err := strconv.ParseInt(os.Args[2], 10, 64)
	must(err)
	workers, err := strconv.Atoi(connections)
	must(err)
	ctx := context.Background()
	pool, err := pgxpool.Connect(ctx, "pool_max_conns="+connections)
	must(err)
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	must(err)
	channel, err := broker.Channel()
	must(err)
	must(channel.Qos(workers*20, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)

	var done, duplicates int64
	finished := make(chan struct{})
	start := time.Now()
	for i := 0; i < workers; i++ {
		go func() {
			for d := range deliveries {
				if apply(ctx, pool, d.Body) {
					atomic.AddInt64(&duplicates, 1)
				}
				must(d.Ack(false))
				if atomic.AddInt64(&done, 1) == count {
					close(finished)
				}
			}
		}()
	}
	<-finished
	fmt.Printf("deliveries=%d duplicates=%d seconds=%.4f\n", count, atomic.LoadInt64(&duplicates),
		time.Since(start).Seconds())
	must(broker.Close())
}
