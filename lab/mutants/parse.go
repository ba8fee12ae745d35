// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// texts are the mutants, a file for each part of the library. A mutant is written
//
//	= NAME | FILE | CHECK | checker NAME
//	  what it breaks, if its name does not say it
//	-the text to find, once in FILE
//	+the text to put there
//	@ FILE
//	-another text to find
//	+and what becomes of it
//
// CHECK must kill it: a test (PACKAGE TestName, where . is the API), a clause of the reference store (clause O3),
// or a checker of the simulator (checker fifo), which may also come beside another check. Instead of a check, "equivalent" stands
// for a mutant that no test can kill, and the line below says why.
//
// A text may begin and end inside of a line. With no line +, whole lines are deleted; a single + puts nothing in place of a part of
// a line. No text ends with a space: nobody would see it. Lines that begin with # are comments.
//
//go:embed *.txt
var texts embed.FS

// parseAll returns the mutants of all files.
func parseAll(files fs.FS) (list []mutant, err error) {
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		got, err := parse(name, string(raw))
		list, errs = append(list, got...), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// parse returns the mutants of one file; an error names the line.
func parse(file, text string) ([]mutant, error) {
	var p textParser
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("%s: at the end: %w", file, err)
	}
	return p.list, nil
}

// textParser has read some lines.
type textParser struct {
	list []mutant
	file string   // of the edit that is being read
	old  []string // its lines so far
	new  []string
}

func (p *textParser) line(line string) error {
	if strings.TrimRight(line, " \t") != line {
		return errors.New("a space at the end of the line")
	}
	if line == "" || line[0] == '#' {
		return nil
	}
	if len(p.list) == 0 && line[0] != '=' {
		return errors.New("a mutant begins with =")
	}
	rest := line[1:]
	switch line[0] {
	case '=':
		return p.begin(rest)
	case ' ':
		last := &p.list[len(p.list)-1]
		last.why = strings.TrimSpace(last.why + " " + strings.TrimSpace(rest))
		return p.none("the line that says what a mutant breaks")
	case '@':
		if err := p.endEdit(); err != nil {
			return err
		}
		if p.file = strings.TrimSpace(rest); p.file == "" {
			return errors.New("@ names no file")
		}
		return nil
	case '-':
		if p.new != nil {
			return errors.New("a second edit needs a line @ FILE before it")
		}
		p.old = append(p.old, rest)
		return nil
	case '+':
		if p.old == nil {
			return errors.New("no line - before this one")
		}
		p.new = append(p.new, rest)
		return nil
	}
	return fmt.Errorf("a line begins with one of = - + @ #, or with two spaces, not with %q", line[:1])
}

// none makes sure that no edit of the mutant was read.
func (p *textParser) none(what string) error {
	if p.old != nil || len(p.list[len(p.list)-1].edits) > 0 {
		return fmt.Errorf("%s comes before its edits", what)
	}
	return nil
}

// begin reads the line that names a mutant.
func (p *textParser) begin(rest string) (err error) {
	if err := p.end(); err != nil {
		return err
	}
	fields := strings.Split(rest, "|")
	for i, f := range fields {
		if fields[i] = strings.TrimSpace(f); fields[i] == "" {
			return errors.New("an empty field")
		}
	}
	if len(fields) != 3 && len(fields) != 4 {
		return errors.New("want = NAME | FILE | CHECK, and perhaps | checker NAME")
	}
	m := mutant{name: fields[0]}
	p.file = fields[1]
	if m.catcher, err = parseCatcher(fields[2]); err != nil {
		return err
	}
	if len(fields) == 4 {
		var found bool
		if m.sim, found = strings.CutPrefix(fields[3], "checker "); !found {
			return fmt.Errorf("%q: the last field is a checker of the simulator", fields[3])
		}
	}
	p.list = append(p.list, m)
	return nil
}

func parseCatcher(text string) (catcher, error) {
	kind, name, two := strings.Cut(text, " ")
	switch {
	case text == "equivalent":
		return catcher{}, nil
	case !two || strings.Contains(name, " "):
		return catcher{}, fmt.Errorf("%q: a check is PACKAGE TestName, clause ID, checker NAME or equivalent", text)
	case kind == "clause":
		return catcher{clause: name}, nil
	case kind == "checker":
		return catcher{checker: name}, nil
	}
	return catcher{pkg: kind, test: name}, nil
}

// end completes the last mutant.
func (p *textParser) end() error {
	if len(p.list) == 0 {
		return nil
	}
	m := p.list[len(p.list)-1]
	if m.equivalent() && m.why == "" {
		return fmt.Errorf("%s is equivalent, and no line says why", m.name)
	}
	return p.endEdit()
}

// endEdit completes the edit that is being read.
func (p *textParser) endEdit() error {
	m := &p.list[len(p.list)-1]
	old, text := strings.Join(p.old, "\n"), strings.Join(p.new, "\n")
	if p.new == nil {
		old += "\n"
	}
	if strings.TrimSpace(old) == "" || old == text {
		return fmt.Errorf("%s changes nothing in %s", m.name, p.file)
	}
	m.edits = append(m.edits, edit{p.file, old, text})
	p.old, p.new = nil, nil
	return nil
}
