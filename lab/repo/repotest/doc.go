// SPDX-License-Identifier: Apache-2.0

// Package repotest tests the repository itself: what a reviewer would
// otherwise have to remember. It has no code outside its tests.
//
// Each check is a pure function from a tree of files to complaints, so it can
// be fed a small bad tree and be seen to complain. A second test runs it on
// the real tree:
//
//	git ls-files ──▶ tree ──▶ check(tree) ──▶ "file:line: what, and what to do"
//	    (or a walk)    ▲
//	 treeOf("a.go", "package a") in the tests of the checks
//
// The checks, one file each:
//
//   - modules: no replace, no requirement in the root
//   - imports: who may import what, with the reason
//   - links: relative links lead somewhere, and every document is in the index
//   - private: nothing of the machine it was written on
//   - spec: every clause has its test
//   - examples: checked output, one for every store and guard, and the README shows real code
//   - blocks: Go code in documents is taken from files that are compiled
//   - readme: its first program runs when it is pasted into a fresh module
//   - ignored: git hides nothing that was written by hand
//   - decisions: numbered without gaps, with the four headings
//   - claims: no promise that no lock can keep
//   - testnames: tests that documents name exist; every claimed guarantee has one
//   - translation: the READMEs have the same headings, code, tables and links
//   - errorpage: every error has its part in docs/troubleshooting.md
//   - systems: what only Linux has is compiled on Linux only
//   - findings: every finding of a review has a line that names its tests
//   - house: the counts of make figures-house
//   - starters: one package starts servers
//   - constructors: every store is opened, made and checked by the same functions
//   - prefixes: only the outermost error names its package
//   - names: what a package is called says what it is and where it lives
//   - hosting: workflows are pinned and only read, dependabot knows every module
//   - pictures: drawings can be read aloud, and in the dark
//
// What golangci-lint checks (comments, size, the SPDX line, sleeping) is in .golangci.yml.
//
// An exception is a line in a table with its reason, never a special comment
// in the file that breaks the rule.
package repotest
