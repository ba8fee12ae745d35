// SPDX-License-Identifier: Apache-2.0

package golangci

import (
	"testing"

	"golang.org/x/tools/go/analysis"
)

// TestOneIssueForEachReport: golangci-lint makes an issue of each related place, which a nolint at the report does not silence.
func TestOneIssueForEachReport(t *testing.T) {
	a := &analysis.Analyzer{Run: func(pass *analysis.Pass) (any, error) {
		pass.Report(analysis.Diagnostic{Message: "leak", Related: []analysis.RelatedInformation{{Message: "here"}}})
		return nil, nil
	}}
	var got []analysis.Diagnostic
	_, err := alone(a).Run(&analysis.Pass{Report: func(d analysis.Diagnostic) { got = append(got, d) }})
	if err != nil || len(got) != 1 || got[0].Message != "leak" || got[0].Related != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
