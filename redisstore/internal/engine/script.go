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

// Script is a Lua script with the common part before it.
type Script struct {
	Name string
	Text string
	SHA  string
}

// load returns a script with slot.lua and lib.lua before it.
func load(name string) *Script { return compose(name, source("slot")+source("lib")+source(name)) }

// loadIncluding returns a script in which lines "--@include a b" are replaced by
// those sources.
func loadIncluding(name string) *Script {
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
	return compose(name, text.String())
}

func compose(name, text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA: hex.EncodeToString(sum[:])}
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
	inspectScript   = load("inspect")
	breakScript     = load("break")
	setLimitScript  = load("setlimit")
	foldScript      = loadIncluding("fold")
)
