// SPDX-License-Identifier: Apache-2.0

package candidate

// Redisson is Java's best known client with locks, as it comes.
var Redisson = newRedisson("redisson", "Redisson 4.7, getLock, defaults: a watchdog of 30 s; its DEL after each unlock is not counted")

// RedissonFair is its lock that keeps the order of asking.
var RedissonFair = newRedisson("redisson-fair", "Redisson 4.7, getFairLock, defaults; its DEL after each unlock is not counted")

func newRedisson(name, settings string) *Candidate {
	return &Candidate{
		Name: name, Server: "redis", Settings: settings, Plain: []string{"subscribe", "unsubscribe"}, Uncounted: []string{"del"}, Waits: true,
		Open: notHere, Command: javaWorker,
	}
}
