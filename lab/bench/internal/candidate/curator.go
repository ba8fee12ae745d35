// SPDX-License-Identifier: Apache-2.0

package candidate

// Curator is Java's best known client of ZooKeeper. Its lock has no tokens, and a holder
// is notified of a loss only if it listens to the connection.
var Curator = &Candidate{
	Name: "curator", Server: "zk", Settings: "Curator 5.9.0, InterProcessMutex, session timeout 15 s, ExponentialBackoffRetry(1 s, 3)", Waits: true,
	Open: notHere, Command: javaWorker,
}
