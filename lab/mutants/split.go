// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// split puts mutants into the text of one file. Each function that a mutant changes
// gets a copy with the change, and first asks whether the copy shall run instead:
//
//	func (l *lock) free() bool {
//		if mutated("never-free") {
//			return l.freeMutant0()
//		}
//		return len(l.grants) == 0
//	}
//
//	func (l *lock) freeMutant0() bool {
//		return false
//	}
//
// So any number of mutants of one function are compiled together, and a change may be
// a part of an expression.
func split(file, text string, edits []namedEdit) (string, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	s := splitter{text: text, file: file, base: fset.File(tree.Pos()).Base()}
	var errs []error
	for _, e := range edits {
		errs = append(errs, s.add(tree, e))
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return s.assemble(), nil
}

// namedEdit is one edit of one mutant.
type namedEdit struct {
	name     string
	old, new string
}

type splitter struct {
	text, file string
	base       int
	funcs      []*splitFunc
	copies     int
	patches    []patch
}

// splitFunc is a function with its mutants.
type splitFunc struct {
	decl    *ast.FuncDecl
	mutants []*copyOf
}

// copyOf is one mutant of one function.
type copyOf struct {
	name, fn string
	text     string
}

func (s *splitter) at(p token.Pos) int { return int(p) - s.base }

// add notes an edit at the function that it is in.
func (s *splitter) add(tree *ast.File, e namedEdit) error {
	if n := strings.Count(s.text, e.old); n != 1 {
		return fmt.Errorf("mutant %s: its text is %d times in %s, want once; adapt it to the code", e.name, n, s.file)
	}
	from := strings.Index(s.text, e.old)
	for _, d := range tree.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil || from < s.at(decl.Pos()) || from+len(e.old) > s.at(decl.End())+1 {
			continue
		}
		c := s.copyFor(decl, e.name)
		if strings.Count(c.text, e.old) != 1 {
			return fmt.Errorf("mutant %s: its edits of %s overlap", e.name, decl.Name.Name)
		}
		c.text = strings.Replace(c.text, e.old, e.new, 1)
		return nil
	}
	return fmt.Errorf("mutant %s: its text is not inside one function of %s", e.name, s.file)
}

// copyFor returns the mutant's copy of a function.
func (s *splitter) copyFor(decl *ast.FuncDecl, mutant string) *copyOf {
	i := slices.IndexFunc(s.funcs, func(f *splitFunc) bool { return f.decl == decl })
	if i < 0 {
		i = len(s.funcs)
		s.funcs = append(s.funcs, &splitFunc{decl: decl})
	}
	f := s.funcs[i]
	for _, c := range f.mutants {
		if c.name == mutant {
			return c
		}
	}
	c := &copyOf{name: mutant, fn: fmt.Sprintf("%sMutant%d", decl.Name.Name, s.copies)}
	c.text = s.text[s.at(decl.Pos()):s.at(decl.End())] + "\n"
	s.copies++
	f.mutants = append(f.mutants, c)
	return c
}

// assemble returns the text with a switch in each function and the copies behind it.
func (s *splitter) assemble() string {
	for _, f := range s.funcs {
		receiver, args := s.nameParameters(f.decl)
		body, end := s.at(f.decl.Body.Lbrace)+1, s.at(f.decl.End())
		for _, c := range f.mutants {
			call := receiver + c.fn + "(" + strings.Join(args, ", ") + ")"
			if f.decl.Type.Results.NumFields() > 0 {
				call = "return " + call
			} else {
				call += "\nreturn"
			}
			s.patch(body, body, fmt.Sprintf("\nif mutated(%q) {\n%s\n}\n", c.name, call))
			s.patch(end, end, "\n\n"+rename(c.text, f.decl.Name.Name, c.fn))
		}
	}
	slices.SortStableFunc(s.patches, func(a, b patch) int { return a.from - b.from })
	var out strings.Builder
	done := 0
	for _, p := range s.patches {
		out.WriteString(s.text[done:p.from] + p.text)
		done = p.to
	}
	return out.String() + s.text[done:]
}

// rename changes the name in the text of a function.
func rename(text, from, to string) string {
	receiver := ""
	if strings.HasPrefix(text, "func (") {
		receiver, text, _ = strings.Cut(text, ") ")
		receiver += ") "
	}
	return receiver + strings.Replace(text, from, to, 1)
}

// nameParameters gives a name to each parameter that has none, because the switch has
// to pass it on, and returns how the copy is called.
func (s *splitter) nameParameters(d *ast.FuncDecl) (receiver string, args []string) {
	fresh := 0
	name := func(f *ast.Field) (names []string) {
		if len(f.Names) == 0 {
			names = []string{fmt.Sprintf("unnamed%d", fresh)}
			s.patch(s.at(f.Type.Pos()), s.at(f.Type.Pos()), names[0]+" ")
			fresh++
		}
		for _, id := range f.Names {
			names = append(names, id.Name)
			if id.Name == "_" {
				names[len(names)-1] = fmt.Sprintf("unnamed%d", fresh)
				s.patch(s.at(id.Pos()), s.at(id.End()), names[len(names)-1])
				fresh++
			}
		}
		return names
	}
	if d.Recv != nil {
		receiver = name(d.Recv.List[0])[0] + "."
	}
	for _, f := range d.Type.Params.List {
		args = append(args, name(f)...)
		if _, ok := f.Type.(*ast.Ellipsis); ok {
			args[len(args)-1] += "..."
		}
	}
	return receiver, args
}

// patch replaces a part of the file's text.
func (s *splitter) patch(from, to int, text string) {
	s.patches = append(s.patches, patch{from, to, text})
}

// patch is text to put in place of another part.
type patch struct {
	from, to int
	text     string
}
