// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/lab/torture/internal/cell"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// span is something that lasts, in a lane, in thousandths of the width.
type span struct {
	X, W  float64
	Class string
	Title string
	// Label is written into it if it is wide enough.
	Label string
}

// lane is one line of a time line.
type lane struct {
	Name  string
	Y     int
	Spans []span
	Marks []span
}

// chart is the time line of a cell: the faults, then a lane for each client.
type chart struct {
	Seconds float64
	Height  int
	Lanes   []*lane
	Ticks   []span
}

const laneHeight = 22

// draw turns a history into a time line. It decides nothing.
func draw(r cell.Result) *chart {
	if len(r.Events) == 0 {
		return nil
	}
	d := &drawing{from: r.Events[0].At, to: r.Events[len(r.Events)-1].At, lanes: map[string]*lane{}, open: map[string]history.Event{}}
	d.lane("faults")
	for _, e := range r.Events {
		d.step(e)
	}
	for key, e := range d.open { // what never ended
		d.span(strings.SplitN(key, " ", 2)[1], e.At, d.to, string(e.Kind), "", e)
	}
	for _, v := range r.Violations {
		if v.Property != "U" && v.Property != "O" && v.Check != "P" { // P is about the whole
			l := d.lane("faults")
			l.Marks = append(l.Marks, span{X: d.x(v.At), Class: "violation", Title: v.String()})
		}
	}
	c := &chart{Seconds: float64(d.to-d.from) / 1e9}
	for _, name := range d.order {
		l := d.lanes[name]
		l.Y = len(c.Lanes) * laneHeight
		c.Lanes = append(c.Lanes, l)
	}
	c.Height = len(c.Lanes)*laneHeight + 18
	for s := int64(0); s*1e9 <= d.to-d.from; s++ {
		c.Ticks = append(c.Ticks, span{X: d.x(d.from + s*1e9), W: float64(s)})
	}
	return c
}

type drawing struct {
	from, to int64
	lanes    map[string]*lane
	order    []string
	open     map[string]history.Event // by kind and lane
}

func (d *drawing) x(at int64) float64 {
	if d.to == d.from {
		return 0
	}
	return math.Round(float64(at-d.from)/float64(d.to-d.from)*1e4) / 10 // more would only make the page longer
}

// lane returns the lane of a client; one that was killed shares that of its
// successor.
func (d *drawing) lane(who string) *lane {
	name, _, _ := strings.Cut(who, ".")
	l := d.lanes[name]
	if l == nil {
		l = &lane{Name: name}
		d.lanes[name] = l
		d.order = append(d.order, name)
		if len(d.order) > 2 {
			slices.Sort(d.order[1:])
		}
	}
	return l
}

func (d *drawing) span(who string, from, to int64, class, title string, e history.Event) {
	if title == "" {
		title = strings.TrimSpace(class + " " + e.Text)
	}
	l := d.lane(who)
	w := math.Round(max(d.x(to)-d.x(from), 1)*10) / 10
	l.Spans = append(l.Spans, span{X: d.x(from), W: w, Class: class, Title: title})
}

// held draws an acquisition that ends: as far as its holder trusted it, and what
// was beyond that, because the process was stopped or was not notified.
func (d *drawing) held(e history.Event, title string) {
	key := "grant " + e.Who
	b, ok := d.open[key]
	if !ok {
		return
	}
	delete(d.open, key)
	end := e.At
	if until := max(b.Until, e.Until); until != 0 && until < end {
		end = max(until, b.At)
		d.span(e.Who, end, e.At, "stale", e.Who+" trusted it no more", b)
	}
	if b.Token != 0 {
		title += fmt.Sprintf(", token %d", b.Token)
	}
	d.span(e.Who, b.At, end, "hold", title, b)
}

// end closes a span that began with an event.
func (d *drawing) end(kind history.Kind, who, class, title string, at int64) {
	key := string(kind) + " " + who
	if b, ok := d.open[key]; ok {
		d.span(who, b.At, at, class, title, b)
		delete(d.open, key)
	}
}

func (d *drawing) step(e history.Event) {
	mark := func(class, title string) {
		l := d.lane(e.Who)
		l.Marks = append(l.Marks, span{X: d.x(e.At), Class: class, Title: title})
	}
	switch e.Kind {
	case history.Ask:
		d.open["ask "+e.Who] = e
	case history.Miss:
		d.end(history.Ask, e.Who, "wait", "gave up: "+e.Text, e.At)
	case history.Grant:
		d.end(history.Ask, e.Who, "wait", e.Who+" waited", e.At)
		d.open["grant "+e.Who] = e
	case history.Release:
		d.held(e, e.Who+" held")
	case history.Lost:
		d.held(e, e.Who+" held, and was notified that it ended")
		mark("lost", e.Who+" was notified: "+e.Text)
	case history.Killed:
		d.end(history.Ask, e.Who, "wait", e.Who+" waited", e.At)
		d.held(e, e.Who+" held")
		mark("killed", e.Who+" was killed")
	case history.End:
		d.end(history.Ask, e.Who, "wait", e.Who+" waited", e.At)
	case history.Refused:
		mark("refused", "refused: "+e.Text)
	case history.Fault:
		d.open["fault "+"faults"+e.Text] = e
	case history.Healed:
		key := "fault faults" + e.Text
		if b, ok := d.open[key]; ok {
			d.span("faults", b.At, e.At, "fault", b.Text+" "+b.Who, b)
			l := d.lane("faults")
			if last := &l.Spans[len(l.Spans)-1]; last.W > 70 {
				last.Label = verb(b.Text)
			}
			delete(d.open, key)
		}
		if after := min(e.Until, d.to); after > e.At {
			d.span("faults", e.At, after, "after", "what follows from it may last until here: "+e.Text, e)
		}
	}
}

// verb is what a step does, without when and how long.
func verb(step string) string {
	words := strings.Fields(step)
	if len(words) < 3 {
		return step
	}
	return words[1] + " " + words[2]
}
