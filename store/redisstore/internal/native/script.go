// SPDX-License-Identifier: Apache-2.0

package native

import (
	"embed"
	"fmt"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
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
func load(name string) *rediscmd.Script {
	return rediscmd.Compose(name, allowOOM, "", setupLine("", noOwn)+source("checked")+shared()+source(name))
}

// loadSetup is load for a script that may set up a namespace that has no marker: 'first' with
// the grace period that it may need, 'new' without one.
func loadSetup(head, setup, name string) *rediscmd.Script {
	own := noOwn
	if name == "open" {
		own = "ARGV[8]"
	}
	return rediscmd.Compose(name, head, "", setupLine(setup, own)+source("checked")+shared()+source(name))
}

// loadBehind is load for a script with a short one before it, which does what is most often to
// be done without the common part: to make its functions costs more than that.
func loadBehind(first, head, name string) *rediscmd.Script {
	return rediscmd.Compose(name, head, "", source("checked")+source("ends")+source(first)+setupLine("", noOwn)+shared()+source(name))
}

// noOwn is the argument of a script that asks for nothing.
const noOwn = "'-0'"

func shared() string { return source("slot") + source("lib") + source("lock") + source("queue") }

// setupLine says what a script may set up. Only open.lua has what its process asks for, as its eighth argument.
func setupLine(setup, own string) string {
	return fmt.Sprintf("local SETUP, OWN = '%s', %s\n", setup, own)
}

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

var (
	openScript      = loadSetup(allowOOM, "first", "open")
	keepAliveScript = load("keepalive")
	attemptScript   = loadBehind("ask", "", "attempt")
	withdrawScript  = loadBehind("pass", allowOOM, "withdraw")
	votesScript     = rediscmd.Compose("votes", "", "", source("checked")+source("votes"))
	manyScript      = rediscmd.Compose("many", needsMemory, "", source("checked")+source("many"))
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
	scanScript      = rediscmd.Compose("scan", "", "", source("scan"))
	settingsScript  = load("settings")
	beginScript     = loadSetup("", "new", "begin")
	setLimitScript  = loadSetup("", "first", "setlimit")
)
