// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/internal/must"
)

const parseText = `# comment

= a | x.go | . TestA | checker fifo
-	one
-	two
@ y.go
-b &&
+b
= b | z.lua | equivalent
  nothing is
  promised
- - 1
+
= c | x.go | clause O3
-	three
+
+	four
`

// TestParse: every part of the form is read as it stands.
func TestParse(t *testing.T) {
	got, err := parse("t.txt", parseText)
	must.OK(t, err)
	want := []mutant{
		{name: "a", catcher: catcher{pkg: ".", test: "TestA"}, sim: "fifo", edits: []edit{{"x.go", "\tone\n\ttwo\n", ""}, {"y.go", "b &&", "b"}}},
		{name: "b", why: "nothing is promised", edits: []edit{{"z.lua", " - 1", ""}}},
		{name: "c", catcher: catcher{clause: "O3"}, edits: []edit{{"x.go", "\tthree", "\n\tfour"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestParseRejects: a mistake is named with its file and line.
func TestParseRejects(t *testing.T) {
	const head = "= a | x.go | . TestA\n"
	for text, want := range map[string]string{
		"-x\n":                              "t.txt:1: a mutant begins with =",
		"= a | x.go\n":                      "t.txt:1: want = NAME | FILE | CHECK",
		"= a | | . TestA\n":                 "t.txt:1: an empty field",
		"= a | x.go | TestA\n":              `t.txt:1: "TestA": a check is PACKAGE TestName`,
		"= a | x.go | . TestA | fifo\n":     `t.txt:1: "fifo": the last field is a checker`,
		"= a | x.go | equivalent\n-x\n":     "t.txt: at the end: a is equivalent, and no line says why",
		head + "+x\n":                       "t.txt:2: no line - before this one",
		head + "-x\n+y\n-z\n":               "t.txt:4: a second edit needs a line @ FILE",
		head + "-x\n  late\n":               "t.txt:3: the line that says what a mutant breaks comes before its edits",
		head + "-x \n":                      "t.txt:2: a space at the end of the line",
		head + "-x\n+x\n":                   "t.txt: at the end: a changes nothing in x.go",
		head + "= b | x.go | . TestB\n-x\n": "t.txt:2: a changes nothing in x.go",
		head + "-x\n@\n-y\n":                "t.txt:3: @ names no file",
		head + "-x\nforgotten\n":            `t.txt:3: a line begins with one of`,
	} {
		if _, err := parse("t.txt", text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
