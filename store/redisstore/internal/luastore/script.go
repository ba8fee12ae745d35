// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// Script is a Lua script with the common part before it. One without a Text is
// called by its SHA only: it must be in the server already (runproof.go).
type Script struct {
	Name string
	Text string
	SHA  string

	head, body string
}

// allowOOM lets a script run when the server's memory is full. A holder keeps its lock then,
// and can give it back: such a script writes over what is there, or removes it.
const allowOOM = "#!lua flags=allow-oom\n"

// load returns a script with what all of them share before it.
func load(head, name string) *Script {
	return compose(name, head, "", setupLine("")+shared()+include(name))
}

// loadSetup is load for a script that may set up a namespace: 'first' one that has no
// marker, 'any' also one that is vacant.
func loadSetup(head, setup, name string) *Script {
	return compose(name, head, "", setupLine(setup)+shared()+include(name))
}

// loadAlone returns a script that includes lib.lua itself, where it needs it.
func loadAlone(name string) *Script { return compose(name, "", "", setupLine("")+include(name)) }

func shared() string { return source("slot") + source("lib") + source("queue") }

func setupLine(setup string) string { return fmt.Sprintf("local SETUP = '%s'\n", setup) }

// include returns a source in which lines "--@include a b" are replaced by those.
func include(name string) string {
	var text strings.Builder
	for line := range strings.Lines(source(name)) {
		if names, ok := strings.CutPrefix(line, "--@include "); ok {
			for _, n := range strings.Fields(names) {
				text.WriteString(source(n))
			}
			continue
		}
		text.WriteString(line)
	}
	return text.String()
}

// compose returns a script that carries the run id of its server, if it is not empty.
func compose(name, head, runID, body string) *Script {
	text := head + "local RUN_ID = '" + runID + "'\n" + body
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:]), head: head, body: body}
}

// in returns the script for one run id.
func (s *Script) in(runID string) *Script { return compose(s.Name, s.head, runID, s.body) }

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

var (
	openScript      = loadSetup(allowOOM, "any", "open")
	keepAliveScript = load(allowOOM, "keepalive")
	attemptScript   = load("", "attempt")
	withdrawScript  = load(allowOOM, "withdraw")
	reclaimScript   = load(allowOOM, "reclaim")
	closeScript     = load(allowOOM, "close")
	tidyScript      = load(allowOOM, "tidy")
	touchScript     = loadSetup("", "first", "touch")
	inspectScript   = load(allowOOM, "inspect")
	breakScript     = load(allowOOM, "break")
	setLimitScript  = loadSetup("", "first", "setlimit")
	batchScript     = loadAlone("batch")
)
