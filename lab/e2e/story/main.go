// SPDX-License-Identifier: Apache-2.0

// Command story shows what fencing is for, with everything real: two workers in
// separate processes, a lock in Redis, an account in PostgreSQL, and a
// worker that is stopped by SIGSTOP while it holds the lock.
//
//	go run ./lab/e2e/story
//
// It runs the story twice, without a guard and with one, prints the timeline of each
// run, and fails if one does not end as docs/tutorial.md describes.
//
//	A        lock, read 100 ┃ SIGSTOP .............. SIGCONT ┃ write 150
//	Redis        A's session ends after its TTL ┃ B acquires
//	B                                      lock, read 100, write 110
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencelock/fencelock/fence/sqlfence"
	"github.com/fencelock/fencelock/internal/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = worker(ctx, os.Args[2:])
	} else {
		err = story(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "story:", err)
		os.Exit(1)
	}
}

// The account begins with 100. A adds 50 and B adds 10.
const (
	begins   = 100
	addsA    = 50
	addsB    = 10
	lost     = begins + addsA         // B's update is gone
	complete = begins + addsA + addsB // nothing is
)

// story starts the servers and plays both acts.
func story(ctx context.Context, out io.Writer) error {
	redis, err := servers.Redis.Start()
	if err != nil {
		return err
	}
	defer redis.Stop()
	postgres, err := servers.Postgres()
	if err != nil {
		return err
	}
	defer postgres.Stop()
	url := "postgres://postgres@" + postgres.Addr + "/postgres?sslmode=disable"
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	guard, err := sqlfence.NewTable(sqlfence.PostgreSQL, nil)
	if err != nil {
		return err
	}
	for _, statement := range []string{guard.Schema(), "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL)"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	s := &stage{db: db, out: out, redis: "redis://" + redis.Addr, postgres: url}
	return errors.Join(
		s.play(ctx, act{account: 1, title: "Without a guard", guarded: "no", want: lost,
			moral: "B's update is lost: A had checked its lease for the last time before it was stopped."}),
		s.play(ctx, act{account: 2, title: "With a guard", guarded: "yes", want: complete,
			moral: "The late write was refused, A began again, and nothing is lost."}),
	)
}
