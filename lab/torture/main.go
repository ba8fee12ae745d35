// SPDX-License-Identifier: Apache-2.0

// Command torture breaks real deployments under real locks and says what held. See
// README.md beside it.
//
//	torture -smoke                    the short matrix, as in CI
//	torture                           the full one
//	torture broken [NAME...]             locks that are broken on purpose; each must be caught
//	torture peers                     the same faults for locks of others, side by side
//	torture -lossy                    the second matrix: lost and delayed packets, drifting clocks
//	torture -linger                   the third matrix: locks that linger
//	torture kept FILE                 the figures of the second matrix that is kept in a document
//	torture -server redis -fault mix -seed 7
//	torture -server redis -plan '400ms stop holder for 1.8s; 2s kill client:2'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/fencelock/fencelock/lab/torture/internal/client"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
	"github.com/fencelock/fencelock/lab/torture/internal/resource"
)

func main() {
	err := route(os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// route finds out which of the processes this is.
func route(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "client":
			return client.Main(os.Stdin, os.Stdout)
		case "resource":
			return serve(args[1:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == "broken" {
		return visit(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "peers" {
		return compare(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "kept" {
		return kept(args[1:])
	}
	return torture(ctx, args)
}

// serve is the resource process: it ends with its standard input.
func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("a resource is started by the suite: resource ADDRESS GUARD")
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = l.Close()
	}()
	return resource.Serve(l, resource.Guard(args[1]), history.NewRecorder(os.Stdout))
}
