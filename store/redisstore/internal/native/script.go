// SPDX-License-Identifier: Apache-2.0

package native

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

//go:embed lua/*.lua
var sources embed.FS

// A script is composed of parts. Each stands behind the one before:
//
//	decide.lua                                  every script; batch.lua only what is before its line "-- LIB"
//	the short part of attempt.lua, withdraw.lua (before the line "-- LIB")
//	slot.lua                                    every script
//	lib.lua, lock.lua, queue.lua                every script but batch.lua
//	the script
//
// In the sources $name is an argument of that name, @name its number, and $X the code of a letter, or the place of
// something in a short claim.

// allowOOM lets a script run when the server's memory is full. A holder keeps its lock then,
// and can give it back: such a script writes over what is there, or removes it.
const allowOOM = "#!lua flags=allow-oom\n"

// load returns a script that runs when the memory is full.
func load(name string) *rediscmd.Script { return compose(name, allowOOM, "", noOwn) }

// loadSetup is load for a script that may set up a namespace that has no marker: 'first' with
// the grace period that it may need, 'new' without one.
func loadSetup(head, setup, name string) *rediscmd.Script { return compose(name, head, setup, noOwn) }

// noOwn is the argument of a script that asks for nothing.
const noOwn = "'-0'"

// compose returns a script with what stands before it. own is what its process asks for: only open.lua has that.
func compose(name, head, setup, own string) *rediscmd.Script {
	first, rest := source(name, read(name))
	lib := fmt.Sprintf("local SETUP, OWN = '%s', %s\n", setup, own)
	for _, part := range []string{"slot", "lib", "lock", "queue"} {
		_, text := source(part, read(part))
		lib += text
	}
	decide, passing := source("decide", read("decide"))
	return rediscmd.Compose(name, head, "", decide+passing+first+lib+rest)
}

// source returns a source with its names replaced, in two parts: what stands before the library, and the rest.
func source(name, text string) (first, rest string) {
	text = named(name, text)
	if first, rest, cut := strings.Cut(text, "-- LIB\n"); cut {
		return first, rest
	}
	return "", text
}

func read(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

// common are the arguments that every script has, in their order; its own come behind.
var common = []string{"layout", "incarnation", "channel", "publish", "asks"}

// places are those in a short claim: letter, since (6 bytes), session (16), seq (6), generation (7), incarnation (7), record.
var places = map[string]string{"SINCE": "2", "SID": "8", "ID": "8, 29", "SEQ": "24", "SEQ_TO": "24, 29", "RECORD": "44"}

var (
	declared = regexp.MustCompile(`(?m)^-- ARGV ([a-z ]+)$`)
	names    = regexp.MustCompile(`[$@]\w+`)
)

// named replaces the names in a source. A name that is not declared is a mistake in the source.
func named(script, text string) string {
	args := common
	if line := declared.FindStringSubmatch(text); line != nil && script != "lib" {
		args = append(slices.Clone(common), strings.Fields(line[1])...)
	}
	return names.ReplaceAllStringFunc(text, func(found string) string {
		name := found[1:]
		at := strconv.Itoa(slices.Index(args, name) + 1)
		switch place, ok := places[name]; {
		case ok:
			return place
		case at != "0" && found[0] == '@':
			return at
		case at != "0":
			return "ARGV[" + at + "]"
		case len(name) == 1:
			return strconv.Itoa(int(name[0]))
		}
		panic("native: " + script + ".lua: no argument is called " + name)
	})
}

var (
	openScript      = compose("open", allowOOM, "first", "ARGV[8]")
	keepAliveScript = load("keepalive")
	attemptScript   = loadSetup("", "", "attempt")
	withdrawScript  = load("withdraw")
	batchScript     = composeBatch()
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
	scanScript      = rediscmd.Compose("scan", "", "", read("scan"))
	settingsScript  = load("settings")
	beginScript     = loadSetup("", "new", "begin")
	setLimitScript  = loadSetup("", "first", "setlimit")
)

// composeBatch returns batch.lua, which needs no more than the first part of the decisions.
func composeBatch() *rediscmd.Script {
	decide, _ := source("decide", read("decide"))
	_, slot := source("slot", read("slot"))
	_, batch := source("batch", read("batch"))
	return rediscmd.Compose("batch", "", "", decide+slot+batch)
}
