// SPDX-License-Identifier: Apache-2.0

// Package redisquorum opens a quorum of independent Redis or Valkey servers by one URL:
// package quorum over stores of package redisstore. A majority of the servers decides,
// so locks work while a minority is down.
//
//	store, err := redisquorum.Open(ctx, "quorum://a.example.com,b.example.com,c.example.com?grace=true", nil)
//	defer store.Close()
//	locks, err := fencelock.New(store, &fencelock.Options{Require: fencelock.Correctness})
//
// Importing the package registers the schemes quorum and quorums with fencelock.OpenStore.
// There is no New: with clients of your own, give stores of redisstore.New to quorum.New.
// The package is beside redisstore and not part of it, so that a program with one server
// does not link package quorum.
package redisquorum
