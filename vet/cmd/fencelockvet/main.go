// SPDX-License-Identifier: Apache-2.0

// Command fencelockvet finds misuse of fencelock. Run it by itself, which is faster, or by go vet, which keeps its results:
//
//	fencelockvet ./...
//	go vet -vettool=$(which fencelockvet) ./...
//	fencelockvet -fix ./...        apply the suggested fixes
//	fencelockvet -outerctx ./...   only this check
//	fencelockvet help outerctx     what it finds
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/fencelock/fencelock/vet"
)

func main() { multichecker.Main(vet.All...) } // it is a unitchecker, too, if go vet calls it
