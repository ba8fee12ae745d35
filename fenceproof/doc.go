// SPDX-License-Identifier: Apache-2.0

// Package fenceproof proves the guards of package sqlfence on real servers,
// PostgreSQL and MariaDB, which its tests start. It is a module of its own
// because the drivers are not in the standard library, and it is not released:
// nobody but its tests and the story needs it.
//
//	go test ./fenceproof/... -v      # the proofs
//	go run ./fenceproof/story        # two workers, one of them stopped
//
// Its servers are shared by all tests of a run; every case has a row of its own.
package fenceproof
