// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// Shapes returns an analyzer that reports every place at which a check has something to decide. A search without
// false alarms means little if there was nothing to be wrong about, so make figures-vet counts these places, too.
func Shapes(api *API) *analysis.Analyzer {
	indexer := newIndexer(api)
	return &analysis.Analyzer{
		Name:     "shapes",
		Doc:      "list acquisitions, functions under a lock and clients",
		Requires: []*analysis.Analyzer{indexer},
		Run: func(pass *analysis.Pass) (any, error) {
			x := pass.ResultOf[indexer].(*index)
			if x.skip {
				return nil, nil
			}
			for _, a := range x.acquisitions(nil) {
				pass.Reportf(a.call.Pos(), "acquisition")
			}
			for _, s := range x.scopes() {
				pass.Reportf(s.lit.Pos(), "function")
			}
			for c := range x.root.Preorder((*ast.CallExpr)(nil)) {
				if calls(x.info, c.Node().(*ast.CallExpr), api.Clients) {
					pass.Reportf(c.Node().Pos(), "client")
				}
			}
			return nil, nil
		},
	}
}
