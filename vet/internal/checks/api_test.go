// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// TestEveryAcquisitionIsKnown: each function of the stub that returns a lease and an error is in the table. A test in lab/vet
// makes sure that the stub has all of them.
func TestEveryAcquisitionIsKnown(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../../testdata/src/"+path+"/fencelock.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || fn.Type.Results.NumFields() != 2 {
			continue
		}
		res := types.ExprString(fn.Type.Results.List[0].Type)
		if res != "*Lease" && res != "*LeaseSet" {
			continue
		}
		recv := types.ExprString(fn.Recv.List[0].Type)
		name := "(*" + path + "." + recv[1:] + ")." + fn.Name.Name
		if !slices.Contains(Fencelock.Acquire, name) {
			t.Errorf("%s is not in the table", name)
		}
		known++
	}
	if known != len(Fencelock.Acquire) {
		t.Errorf("the table has %d functions, the stub %d", len(Fencelock.Acquire), known)
	}
}
