// SPDX-License-Identifier: Apache-2.0

// Command check searches the model of layout 2 of redisstore: with all rules, and
// without each of them. It prints the states seen and the length of each counterexample,
// with -v its steps too, and fails if a search does not end as it should.
package main

import (
	"flag"
	"os"
	"runtime/debug"
	"strings"

	"github.com/fencelock/fencelock/internal/explore"
	"github.com/fencelock/fencelock/lab/models/redismodel"
)

func main() {
	verbose := flag.Bool("v", false, "print the steps of every counterexample")
	states := flag.Int("states", redismodel.Limit, "how many states of a scene with all rules to see at most")
	only := flag.String("scene", "", "search only the scenes whose names begin so")
	flag.Parse()
	debug.SetGCPercent(25) // nearly all of the memory is in use to the end
	var scenes []redismodel.Scene
	for _, s := range redismodel.Scenes {
		if strings.HasPrefix(s.Name, *only) {
			scenes = append(scenes, s)
		}
	}
	r := explore.NewReport(*states, *verbose)
	redismodel.Check(scenes, *states, func(f redismodel.Finding) {
		off := ""
		if f.Off != 0 {
			off = f.Off.String()
		}
		r.Add(f.Scene, off, f.Result)
	})
	if r.End() > 0 {
		os.Exit(1)
	}
}
