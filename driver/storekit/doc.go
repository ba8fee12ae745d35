// SPDX-License-Identifier: Apache-2.0

// Package storekit has what every store needs and none should write again. It is for authors of stores.
//
//   - Form reads a URL: user, hosts, path, parameters, TLS. What several stores have (see Common) is
//     written and rejected in the same way everywhere, and no error shows a secret.
//
//   - Address.Dialer and Reach connect, and explain a connection that fails.
//
//   - Gate keeps sessions away from servers on which locks are unsafe.
//
//   - Watches notify holders of claims that wait, where a client can watch a queue.
//
//   - Opener is what driver.Register wants.
//
//     o := *opts // the caller's
//     err := storekit.Parameters{
//     "namespace":    storekit.Option("Namespace", &o.Namespace, storekit.Text),
//     "max_ttl":      storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration),
//     "dial_timeout": storekit.Duration(&dialTimeout),
//     }.Read("yourstore", query)
//
// # A setting in the URL and in Options
//
// Neither wins. A setting that a caller has in Options and in the URL must have the same
// value in both; if the values differ, Open returns an error that names both places. An
// ignored setting would be found later, when the store of a namespace rejects the client or,
// worse, when two processes use different locks. A field of Options with its zero value is
// not set, so grace=true in the URL may stand beside Options{Grace: false}. Option
// and Part implement the rule.
package storekit
