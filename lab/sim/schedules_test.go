// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/figure"
)

var (
	flagSeeds  = flag.Uint64("sim.seeds", 300, "how many schedules to run")
	flagFrom   = flag.Uint64("sim.from", 1, "the first seed")
	flagSeed   = flag.Uint64("sim.seed", 0, "run this seed only, and show what happened")
	flagFault  = flag.String("sim.fault", "", "faults instead of the seed's own: one for all clients, or one for each, separated by |")
	flagRepeat = flag.Int("sim.repeat", 20, "how often to run the seed of -sim.seed, until something is violated")
	flagEvery  = flag.Duration("sim.progress", time.Minute, "how often to print how far a run is; 0: never")
	flagStop   = flag.String("sim.stop", "", "stop at the first violation of this checker; any: of whichever")
)

func TestSchedules(t *testing.T) {
	f := &Fleet{From: *flagFrom, Seeds: *flagSeeds, Fault: *flagFault, Stop: *flagStop, Progress: *flagEvery, Print: func(s string) { fmt.Print(s) }}
	if *flagSeed != 0 {
		f.From, f.Seeds, f.Repeat, f.Verbose = *flagSeed, 1, *flagRepeat, testing.Verbose()
	}
	ran, violated := f.Run(t)
	if testing.Verbose() {
		fmt.Print(f.Coverage.String())
	}
	fmt.Printf("sim: seeds %d-%d, %d schedules, %d violations\n", f.From, f.From+f.Seeds-1, ran, violated)
	figure.Print("sim-schedules", ran, figure.AtLeast(float64(f.Seeds)))
	figure.Print("sim-violations", violated, figure.Exactly(0))
}
