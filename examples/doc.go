// SPDX-License-Identifier: Apache-2.0

// Package examples shows how the jobs that locks are used for are done with
// fencelock. It exports nothing: each file is one recipe, a function or two to
// copy, and an example that plays several processes against a store in memory and
// whose output is checked.
//
//	job                                   file                        kind
//	a cron job on ten replicas            example_cron_test.go        Once
//	one leader, handed off in peace      example_leader_test.go      Election
//	a migration at start-up               example_schema_test.go      Mutex, Inspect
//	at most n calls to a service          example_semaphore_test.go   Semaphore
//	who works for which tenant            example_tenants_test.go     Mutex, 100,000 times
//	a tenant that stays with a worker     example_sticky_test.go      Mutex, Linger
//	a compaction that gives way           example_compaction_test.go  Mutex, Contended
//	a message that is delivered twice     example_consumer_test.go    Once
//	a value that all miss at once         example_cache_test.go       Mutex
//
// The folders are programs for servers that you run; compose.yaml has them:
//
//	go run ./examples/orders    orders, packed once, with a guard in PostgreSQL
//	go run ./examples/cron      a report once a minute, on one replica
//	go run ./examples/leader    one leader, and another one when it ends
//	go run ./examples/limit     at most two calls at once, of all replicas together
//	go run ./examples/migrate   a migration at start-up, which names whom it waits for
//
// The code of docs/zh-CN/from-the-articles.md is in example_articles_test.go.
//
// Orders with a guard in SQL need a database, so that recipe is in the module
// lab/e2e (recipe_orders_test.go).
//
// # From memory to a server
//
// The examples make their clients with memstore, which locks within one process only.
// A program changes one line, in each of its processes:
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379", nil)
//
// Nothing else changes. Which store, and whether a lock is what the job needs, is
// in docs/recipes.md and the pages it links.
//
// # What a recipe cannot do
//
//   - A process can be paused at any point and go on late. Where that does harm,
//     what is written to must compare tokens: package fence.
//   - Work that was begun may be begun again after a crash. Recipes name where the
//     mark is set, and so what is repeated.
package examples
