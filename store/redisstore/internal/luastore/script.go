// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"embed"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

//go:embed lua/*.lua
var sources embed.FS

// allowOOM lets a script run when the server's memory is full. A holder keeps its lock then,
// and can give it back: such a script writes over what is there, or removes it.
const allowOOM = "#!lua flags=allow-oom\n"

// load returns a script with what all of them share before it.
func load(head, name string) *wire.Script {
	return wire.Compose(name, head, "", setupLine("")+shared()+include(name))
}

// loadSetup is load for a script that may set up a namespace: 'first' one that has no
// marker, 'any' also one that is vacant.
func loadSetup(head, setup, name string) *wire.Script {
	return wire.Compose(name, head, "", setupLine(setup)+shared()+include(name))
}

// loadAlone returns a script that includes lib.lua itself, where it needs it.
func loadAlone(name string) *wire.Script {
	return wire.Compose(name, "", "", setupLine("")+include(name))
}

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
