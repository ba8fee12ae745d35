// SPDX-License-Identifier: Apache-2.0

package checks

import "golang.org/x/tools/go/analysis"

// docURL is the page about the checks.
const docURL = "https://github.com/fencelock/fencelock/blob/main/docs/testing.md#find-misuse-before-it-runs"

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

// newCheck returns an analyzer that runs on the packages in which the index found something to look at.
func newCheck(name, doc string, indexer *analysis.Analyzer, run func(pass *analysis.Pass, x *index)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:     name,
		Doc:      doc,
		URL:      docURL,
		Requires: []*analysis.Analyzer{indexer},
		Run: func(pass *analysis.Pass) (any, error) {
			if x := pass.ResultOf[indexer].(*index); !x.skip {
				run(pass, x)
			}
			return nil, nil
		},
	}
}
