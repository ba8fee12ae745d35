// SPDX-License-Identifier: Apache-2.0

// Package brokenlock is locks that are broken on purpose. All are one plain lock on
// Redis with one flaw each, of those that were found in real libraries or in
// answers to "how do I lock with Redis". Each must be caught, by the checker
// that is named beside it; one that is not shows a checker that cannot see. The
// locks without a flaw are in the list too, and must not be caught under any of the
// faults by which a lock is.
//
// Where a flaw has a window of microseconds it is made wider, so that minutes
// are enough to meet it.
package brokenlock

import (
	"github.com/fencelock/fencelock/lab/torture/internal/resource"
)

// Prefix of the kind of lock in a lock.Spec.
const Prefix = "broken:"

// Lock is one broken lock.
type Lock struct {
	Name string
	// Flaw says what is wrong, for people; AsIn where it was found, if it was.
	Flaw, AsIn string
	// Fault is the row of the matrix in which it shows, Plan its own plan instead.
	Fault, Plan string
	// Caught are the checkers of which one must object.
	Caught []string
	// Guard is the resource's, Sound if empty. Deployment is redis if empty.
	Guard      resource.Guard
	Deployment string
	Clients    int
	// Like is the lock without the flaw, Sound if empty.
	Like string
}

// Sound is the plain lock without a flaw, SoundQueue the same with a line, and
// SoundQuorum with a majority of five.
const (
	Sound       = "sound"
	SoundQueue  = "sound-queue"
	SoundQuorum = "sound-quorum"
)

// Control is the lock without its flaw: the sound lock, on the same deployment under
// the same faults.
func (a Lock) Control() Lock {
	c := Lock{Name: a.Like, Fault: a.Fault, Plan: a.Plan, Deployment: a.Deployment, Clients: a.Clients}
	if c.Name == "" {
		c.Name = Sound
	}
	return c
}

const (
	// pauses stops holders for longer than the TTL, again and again.
	pauses = "300ms stop holder for 1.4s; 2.2s stop holder for 1.4s; 4.1s stop holder for 1.3s"
	kills  = "300ms kill holder; 900ms kill client:1; 1.5s kill holder; 2.1s kill client:0; 2.7s kill client:3; 3.3s kill client:2"
	// volleys kills all at once, whatever each of them is doing.
	volleys = "1s kill client:0; 1s kill client:1; 1s kill client:2; 1s kill client:3; 2s kill client:0; 2s kill client:1; 2s kill client:2; 2s kill client:3; 3s kill client:0; 3s kill client:1; 3s kill client:2; 3s kill client:3"
	// deafness: a client that is granted the lock in its time does not receive the reply.
	deafness = "300ms cut-replies client:0 for 900ms; 300ms cut-replies client:1 for 900ms; 300ms cut-replies client:2 for 900ms; 300ms cut-replies client:3 for 900ms; " +
		"2.6s cut-replies client:0 for 900ms; 2.6s cut-replies client:1 for 900ms; 2.6s cut-replies client:2 for 900ms; 2.6s cut-replies client:3 for 900ms"
	cuts = "300ms cut holder for 2s; 2.8s cut holder for 2s"
)

// Locks are all of them.
var Locks = []Lock{
	{Name: "unlock-anybodys", Flaw: "unlock deletes the key of any holder", AsIn: "the recipe of SETNX and DEL", Plan: pauses, Caught: []string{"D3"}},
	{Name: "renew-anybodys", Flaw: "renewal prolongs the key of any holder", AsIn: "goRedisson: a renewal only checks whether the key exists", Plan: pauses, Caught: []string{"D3"}},
	{Name: "renew-resurrects", Flaw: "renewal sets the key again if it is gone", AsIn: "redsync with WithSetNXOnExtend", Plan: pauses, Caught: []string{"D3"}},
	{Name: "renew-ignores-answer", Flaw: "renewal that found the lock gone counts as a success", AsIn: "the lock of Consul's client: the result of the renewal is ignored", Plan: pauses, Caught: []string{"D3"}},
	{Name: "renew-trusts-early", Flaw: "the deadline moves when a renewal is sent, not when it succeeded", AsIn: "rueidislock: the call that extends may last as long as it would extend", Plan: cuts, Caught: []string{"D3"}},
	{Name: "renewal-outlives-unlock", Flaw: "renewal goes on after unlock, and keeps the lock of a dead process", AsIn: "go-redislock of jefferyjob: a second lock of one owner leaks a renewal", Plan: "1.5s kill holder", Caught: []string{"D6"}},
	{Name: "no-deadline", Flaw: "a holder that cannot renew trusts its lock forever", AsIn: "the lock of Consul's client: a loss goes unnoticed for minutes", Plan: cuts, Caught: []string{"D3"}},
	{Name: "never-notified", Flaw: "the deadline is right, but is never checked", AsIn: "dynamolock: the callback is not called if the lease has ended before", Plan: cuts, Caught: []string{"D7"}},
	{Name: "deadline-from-reply", Flaw: "the TTL is counted from the reply", AsIn: "etcd's session counts from the reply", Plan: "100ms delay client:0 by 150ms for 6s", Clients: 2, Caught: []string{"D3"}},
	{Name: "error-means-granted", Flaw: "an error of the store counts as a grant", Plan: cuts, Caught: []string{"D3", "D2"}},
	{Name: "ghost-is-renewed", Flaw: "an acquisition whose answer was lost is renewed forever", AsIn: "etcd's mutex: a lost answer leaves a key under a session that lives", Caught: []string{"D6"},
		Plan: deafness},
	{Name: "impatient", Flaw: "a client that waited long enough removes the lock", Plan: pauses, Caught: []string{"D3"}},
	{Name: "check-then-set", Flaw: "checks whether it is free, then takes it", Fault: "calm", Caught: []string{"D3"}},
	{Name: "owner-by-host", Flaw: "the owner is the host, so processes of one host re-enter each other", AsIn: "etcd's mutex: two callers of one session both hold", Fault: "calm", Caught: []string{"D3"}},
	{Name: "owner-by-prefix", Flaw: "owners are compared up to the length of the shorter", AsIn: "bsm/redislock: owners are compared up to the length of the caller's token", Fault: "calm", Caught: []string{"D3"}},
	{Name: "no-expiry", Flaw: "the key has no expiry", AsIn: "the recipe of SETNX alone", Plan: kills, Caught: []string{"D6"}},
	{Name: "expiry-after-lock", Flaw: "the expiry is set in a second call", AsIn: "the recipe of SETNX and EXPIRE", Plan: volleys, Caught: []string{"D6"}},
	{Name: "ttl-in-seconds", Flaw: "milliseconds are sent as seconds", Plan: "300ms stop holder for 1.4s; 400ms kill holder; 1.9s kill holder", Caught: []string{"D6"}},
	{Name: "ttl-in-hundredths", Flaw: "the TTL at the server is shorter than the one trusted", Fault: "calm", Caught: []string{"D3"}},
	{Name: "token-constant", Flaw: "every token is the same", Fault: "calm", Caught: []string{"D1"}},
	{Name: "token-of-the-second", Flaw: "the token is the time in seconds", Fault: "calm", Caught: []string{"D1"}},
	{Name: "token-random", Flaw: "the token is the owner's random value", Fault: "calm", Caught: []string{"D2"}},
	{Name: "token-after-lock", Flaw: "it is taken in two calls, lock and token, and trusted from the second on", Fault: "calm", Caught: []string{"D3", "D2"}},
	{Name: "token-counter-only", Flaw: "the counter is lost with the data", Fault: "flushall", Caught: []string{"D1", "D2"}},
	{Name: "push-only", Flaw: "waits for a message only, and the message may be lost", AsIn: "rueidislock with NOLOOP: no timer beside the message", Fault: "push-cut", Caught: []string{"D6"}},
	{Name: "queue-keeps-the-dead", Like: SoundQueue, Flaw: "a waiter that died stays at the head of the queue", AsIn: "the lock of ZooKeeper's Go client: an error leaves its node in the queue", Fault: "waiter-kill", Caught: []string{"D6"}},
	{Name: "queue-newest-first", Like: SoundQueue, Flaw: "the queue is a stack", AsIn: "go-redislock of jefferyjob: within a second, not in the order of the requests", Fault: "calm", Caught: []string{"D8"}},
	{Name: "quorum-of-half", Like: SoundQuorum, Flaw: "two of five nodes are enough", Fault: "calm", Deployment: "quorum-5", Caught: []string{"D3"}},
	{Name: "guard-open", Flaw: "the resource keeps no fence", Plan: pauses, Guard: resource.Open, Caught: []string{"D4"}},
	{Name: "guard-above", Flaw: "the guard lets a token in once", Fault: "calm", Guard: resource.Above, Caught: []string{"D3"}},
	{Name: "guard-read-first", Flaw: "reading does not raise the fence", Plan: pauses, Guard: resource.OnlyWrites, Caught: []string{"D5"}},
}

// Named returns the lock of that name; the sound locks are locks, too.
func Named(name string) (Lock, bool) {
	if name == Sound || name == SoundQueue || name == SoundQuorum {
		return Lock{Name: name}, true
	}
	for _, a := range Locks {
		if a.Name == name {
			return a, true
		}
	}
	return Lock{}, false
}
