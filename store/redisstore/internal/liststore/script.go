// SPDX-License-Identifier: Apache-2.0

package liststore

import (
	"embed"
	"fmt"

	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

//go:embed lua/*.lua
var sources embed.FS

// allowOOM lets a script run when the server's memory is full. A holder keeps its lock then,
// and can give it back: such a script writes over what is there, or removes it.
const allowOOM = "#!lua flags=allow-oom\n"

// needsMemory lets a server whose memory is full reject a script before its first command.
// Without it the server rejects only a first write that needs memory.
const needsMemory = "#!lua\n"

// load returns a script with what all of them share before it. It runs when the memory is
// full.
func load(name string) *wire.Script {
	return wire.Compose(name, allowOOM, "", setupLine("")+source("checked")+shared()+source(name))
}

// loadSetup is load for a script that may set up a namespace: 'first' one that has no
// marker, 'any' also one that is vacant.
func loadSetup(head, setup, name string) *wire.Script {
	return wire.Compose(name, head, "", setupLine(setup)+source("checked")+shared()+source(name))
}

// loadBehind is load for a script with a short one before it, which does what is most often to
// be done without the common part: to make its functions costs more than that.
func loadBehind(first, head, name string) *wire.Script {
	return wire.Compose(name, head, "", source("checked")+source("ends")+source(first)+setupLine("")+shared()+source(name))
}

func shared() string { return source("slot") + source("lib") + source("lock") + source("queue") }

func setupLine(setup string) string { return fmt.Sprintf("local SETUP = '%s'\n", setup) }

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

var (
	openScript      = loadSetup(allowOOM, "any", "open")
	keepAliveScript = load("keepalive")
	attemptScript   = loadBehind("ask", "", "attempt")
	withdrawScript  = loadBehind("pass", allowOOM, "withdraw")
	votesScript     = wire.Compose("votes", "", "", source("checked")+source("votes"))
	manyScript      = wire.Compose("many", needsMemory, "", source("checked")+source("many"))
	wakeScript      = load("wake")
	reclaimScript   = load("reclaim")
	closeScript     = load("close")
	touchScript     = loadSetup("", "first", "touch")
	inspectScript   = load("inspect")
	holdersScript   = load("holders")
	breakScript     = load("break")
	expireScript    = load("expire")
	sweepScript     = load("sweep")
	tidyScript      = load("tidy")
	scanScript      = wire.Compose("scan", "", "", source("scan"))
	setLimitScript  = loadSetup("", "first", "setlimit")
)
