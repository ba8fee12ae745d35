// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"embed"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

//go:embed lua/*.lua
var sources embed.FS

func source(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: it is there
	}
	return string(text)
}

// load returns a script. None has flags, which a server before 7.0 does not understand: a
// fleet of Java services may still have one.
func load(name string) *rediscmd.Script {
	return rediscmd.Compose(name, source("lib"), "", source(name))
}

var (
	openScript      = load("open")
	keepScript      = load("keep")
	mendScript      = load("mend")
	takeScript      = load("take")
	takeRWScript    = load("takerw")
	takePlainScript = load("takeplain")
	releaseScript   = load("release")
	closeScript     = load("close")
	breakScript     = load("break")
	inspectScript   = load("inspect")
)
