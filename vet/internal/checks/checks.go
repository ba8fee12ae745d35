// SPDX-License-Identifier: Apache-2.0

package checks

import "golang.org/x/tools/go/analysis"

// docURL is the page about the checks.
const docURL = "https://github.com/fencelock/fencelock/blob/main/docs/vet.md"

// Analyzers returns the checks for the locks of a table, in the order in which the page has them.
func Analyzers(api *API) []*analysis.Analyzer {
	indexer := newIndexer(api)
	return []*analysis.Analyzer{
		newLeaseLeak(indexer),
		newOuterContext(indexer),
		newLeaseContext(indexer),
		newSelfLock(indexer),
		newUnlockError(indexer),
		newClientPerRequest(indexer),
		newTokenCheck(indexer),
	}
}
