// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// Script is a Lua script with the common part before it. One without a Text is
// called by its SHA only: it must be in the server already (life.go).
type Script struct {
	Name string
	Text string
	SHA  string
}

// load returns a script with what all of them share before it.
func load(name string) *Script {
	return compose(name, "", source("slot")+source("lib")+source("line")+include(name))
}

// loadAlone returns a script that includes lib.lua itself, where it needs it.
func loadAlone(name string) *Script { return compose(name, "", include(name)) }

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

// compose returns a script that knows the life of the server, if it is not empty.
func compose(name, runID, body string) *Script {
	text := lifeLine(runID) + body
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
}

func lifeLine(runID string) string { return "local LIFE = '" + runID + "'\n" }

// in returns the script as it is in one life of a server.
func (s *Script) in(runID string) *Script {
	return compose(s.Name, runID, strings.TrimPrefix(s.Text, lifeLine("")))
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

var (
	openScript      = load("open")
	keepAliveScript = load("keepalive")
	attemptScript   = load("attempt")
	withdrawScript  = load("withdraw")
	reclaimScript   = load("reclaim")
	closeScript     = load("close")
	tidyScript      = load("tidy")
	touchScript     = load("touch")
	inspectScript   = load("inspect")
	breakScript     = load("break")
	setLimitScript  = load("setlimit")
	foldScript      = loadAlone("fold")
)
