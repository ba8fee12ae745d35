// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"
	"strings"
)

// family is a metric with its samples. An empty one is not written.
type family struct {
	name, help, kind string
	samples          []sample
}

type sample struct {
	label string // of the lock; empty if it is about all
	value float64
}

func (f *family) add(label string, value float64) {
	f.samples = append(f.samples, sample{label, value})
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// write appends the family in the text format of Prometheus.
func (f *family) write(b *strings.Builder) {
	if len(f.samples) == 0 {
		return
	}
	b.WriteString("# HELP " + f.name + " " + f.help + "\n# TYPE " + f.name + " " + f.kind + "\n")
	for _, s := range f.samples {
		b.WriteString(f.name)
		if s.label != "" {
			b.WriteString(`{lock="` + escaper.Replace(s.label) + `"}`)
		}
		b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}
