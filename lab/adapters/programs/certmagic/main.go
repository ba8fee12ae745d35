// SPDX-License-Identifier: Apache-2.0

// Command certmagic is the program on the page of certmagiclock.
package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"

	"github.com/caddyserver/certmagic"
	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/adapters/certmagiclock"
	"github.com/fencelock/fencelock/store/redisstore"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("web server", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	store, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"), nil) // redis://localhost:6379
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := fencelock.New(store, nil)
	if err != nil {
		return err
	}
	defer client.Close(context.Background())

	shared := &certmagic.FileStorage{Path: "/mnt/certificates"} // or any other storage that all replicas have
	certmagic.Default.Storage = certmagiclock.New[certmagic.KeyInfo](shared, client, nil)
	return certmagic.HTTPS([]string{os.Getenv("DOMAIN")}, http.FileServer(http.Dir("public")))
}
