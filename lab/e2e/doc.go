// SPDX-License-Identifier: Apache-2.0

// Package e2e proves the guards of packages sqlfence and gormfence on real servers,
// PostgreSQL, MariaDB and, if MYSQLD names its program, MySQL, which its tests start;
// package quorum below it does the same for the quorum on five Redis servers, and package
// guarded pauses and kills the writers of a guard. They are in the module lab, which is not
// released: the drivers are not in the standard library, and stores are combined here.
//
//	go test ./lab/e2e/... -v      # the proofs
//	go run ./lab/e2e/story        # two workers, one of them stopped
//
// Its servers are shared by all tests of a run; every case has its own row.
package e2e
