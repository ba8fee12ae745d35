// SPDX-License-Identifier: Apache-2.0

package redismodel

import "github.com/fencelock/fencelock/internal/explore"

// Scenes are the worlds that are searched. Each is as small as the rules it shows to be
// needed allow. Those that show none are larger, to see that the rules are enough.
var Scenes = []Scene{
	{Name: "leftovers", Clients: 2, Claims: 1, Tickets: 1, Poll: true, Scripts: true, Lost: 1, Shows: []Rule{OneTransaction, Leftovers, KnownTicket}},
	{Name: "no polls", Clients: 3, Claims: 1, Tickets: 1, Scripts: true, Shows: []Rule{Length, Wake}},
	{Name: "three clients", Clients: 3, Claims: 1, Tickets: 1, Poll: true, Lost: 1, Shows: []Rule{SameTicket}},
	{Name: "lost replies", Clients: 2, Claims: 2, Tickets: 2, Poll: true, Lost: 1, Gives: 1, Shows: []Rule{Tombstone, ByValue, SureRelease}},
	{Name: "sessions", Clients: 2, Claims: 2, Tickets: 2, Poll: true, Ends: 2, Shows: []Rule{Generation}},
	{Name: "shared", Clients: 2, Claims: 2, Tickets: 2, Poll: true, Reader: true, Lost: 1, Ends: 1, Shows: []Rule{Sentinel}},
	{Name: "flush", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Flush: true, Lost: 1, Losses: 1, Shows: []Rule{AboveAll, AfterGrace, SameSession}},
	{Name: "failover", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Losses: 1, Shows: []Rule{Incarnation, RunID, DropTickets, Patience}},
	{Name: "one client", Clients: 1, Claims: 2, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Lost: 1, Ends: 1, Losses: 1, Shows: []Rule{OwnClaims}},
	{Name: "failback", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Failback: true, Losses: 2, Shows: []Rule{Marker}},
	{Name: "return", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Return: true, Losses: 2, Shows: []Rule{ReplicationID, SureEnd}},
	{Name: "return, no grace", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Failover: true, Return: true, Losses: 2, Shows: []Rule{Checked}},
	{Name: "unnoticed", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Return: true, Unnoticed: true, Ends: 1, Losses: 2, Shows: []Rule{Seen}},
	{Name: "break", Clients: 2, Claims: 1, Tickets: 2, Poll: true, Lost: 1, Ends: 1, Breaks: 1, Shows: []Rule{EvenTickets}},
	{Name: "break, failover", Clients: 2, Claims: 1, Tickets: 2, Poll: true, Failover: true, Losses: 1, Breaks: 1, Shows: []Rule{FenceAbove, NotAdopted}},
	{Name: "releases", Clients: 2, Claims: 2, Tickets: 1, Poll: true, Batch: true, Lost: 1, Shows: []Rule{Finish}},
	{Name: "keep-alives", Clients: 2, Claims: 1, Tickets: 2, Poll: true, TTL: 3, Ticks: 5, Keeps: 2, Shows: []Rule{LaterEnd, NoNewEnd, MovedEnd, InTime}},
	{Name: "keep-alives, failover", Clients: 2, Claims: 1, Tickets: 2, Eager: true, Poll: true, Grace: true, Failover: true, Losses: 1, TTL: 2, Ticks: 2, Keeps: 1, Shows: []Rule{SameMarker}},
	{Name: "stopped scripts", Clients: 2, Claims: 2, Tickets: 2, Poll: true, Scripts: true, Stops: 1, Shows: []Rule{NotifyLast}},
	{Name: "moving slot", Clients: 3, Claims: 1, Tickets: 1, Scripts: true, Moves: 1, Shows: []Rule{Whole}},

	{Name: "no tickets", Clients: 2, Claims: 1, Tickets: 2, Poll: true, Grace: true, Failover: true, Lost: 1, Losses: 1},
	{Name: "no grace", Clients: 2, Claims: 1, Tickets: 2, Poll: true, Flush: true, Failover: true, Lost: 1, Losses: 1},
	{Name: "keep-alives, loss", Clients: 2, Claims: 1, Tickets: 2, Poll: true, Grace: true, Failover: true, Flush: true, Lost: 1, Losses: 1, TTL: 2, Ticks: 5, Keeps: 3, Apart: true},
	{Name: "two claims", Clients: 2, Claims: 2, Tickets: 1, Poll: true, Grace: true, Failover: true, Flush: true, Lost: 1, Ends: 1, Losses: 1, Breaks: 1, Gives: 1},
	{Name: "three, failover", Clients: 3, Claims: 1, Tickets: 1, Poll: true, Grace: true, Failover: true, Flush: true, Lost: 1, Ends: 1, Losses: 2, Breaks: 1},
}

// Limit is how many states a search sees at most before it ends. The last scenes have
// more.
const Limit = 25_000_000

// Finding is the outcome of one search: of a scene with all rules, or with all but one.
type Finding = explore.Finding[Rule]

// Check searches scenes with all rules, at most limit states, and without each of the
// rules they show, and calls report with each outcome.
func Check(scenes []Scene, limit int, report func(Finding)) {
	for _, s := range scenes {
		report(Finding{Result: Search(s, All(), limit), Scene: s.Name})
		for _, off := range s.Shows {
			report(Finding{Result: Search(s, All(off), Limit), Scene: s.Name, Off: off})
		}
	}
}
