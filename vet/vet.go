// SPDX-License-Identifier: Apache-2.0

// Package vet finds misuse of fencelock before it runs.
//
//	go install github.com/fencelock/fencelock/vet/cmd/fencelockvet@latest
//	go vet -vettool=$(which fencelockvet) ./...
//
// The analyzers are for golang.org/x/tools/go/analysis, so gopls and other drivers can run them, too. The package
// vet/golangci is the plugin for golangci-lint. A comment above the line, or at its end, switches a check off:
//
//	//fencelock:ignore outerctx the audit log is written in any case
//
// docs/testing.md has an example for each check.
package vet

import (
	"golang.org/x/tools/go/analysis"

	"github.com/fencelock/fencelock/vet/internal/checks"
)

// All are the analyzers:
//
//   - leaseleak: a lease is not unlocked on some path.
//   - outerctx: the function of Do works with a context that does not end when the lock is lost.
//   - leasectx: a lease is kept or given to a goroutine, and nobody would notice its loss.
//   - selflock: a lock waits for itself.
//   - unlockerr: nobody sees the error of Unlock.
//   - clientperrequest: a client is made for each request, or in a loop.
//   - tokencheck: a token is printed or compared in Go, and no resource checks it.
var All []*analysis.Analyzer = checks.Analyzers(checks.Fencelock)
