// SPDX-License-Identifier: Apache-2.0

// Package gocronlock makes the jobs of gocron v2 run on one replica at a time.
//
// First consider [fencelock.Client.Once] inside the task: it names the occurrence, its
// context ends when the lock is lost, and it needs nothing of gocron. A lock that gocron
// holds for a task cannot stop the task.
//
//	period := time.Minute
//	locker, err := gocronlock.NewLocker[gocron.Lock](client, &gocronlock.Options{Period: period})
//	…
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	s.NewJob(gocron.DurationJob(period), gocron.NewTask(report), gocron.WithName("report"))
//
// # Why the lock outlives the run
//
// Replicas do not fire at the same moment: DurationJob counts from the start of a process,
// and clocks differ. A lock that is held for the run only is free again when the next
// replica fires:
//
//	replica 1   fires ├run┤            fires ├run┤
//	replica 2            fires ├run┤              fires ├run┤      the job runs twice
//
// So Locker keeps the lock taken for nine tenths of the period, even if the run ends or its
// process dies before ([fencelock.MinHold]):
//
//	replica 1   fires ├run┤───taken──┤  fires ├run┤───taken──┤
//	replica 2            fires: busy            fires: busy
//
// It never waits: a replica that waited would run the job as soon as the lock is free.
//
// # Failures
//
//   - The process of a run dies: the occurrence counts as run, and the next one runs on
//     whichever replica fires first. If the period is shorter than the client's TTL,
//     occurrences until the end of the TTL are skipped.
//   - Replicas fire at any time of the period, and each may be the next: runs are nine tenths
//     of a period apart at least, and usually a period.
//   - A job that is started by hand (RunNow), or that fails, uses up its occurrence.
//   - The store does not answer: gocron skips the run on this replica.
//   - The lock is lost during a run: OnLost is called, and the task goes on. A task that
//     must stop then uses Once.
//   - The store loses its data after a run: the job may run twice in this period.
//   - A store without MinHold (ZooKeeper, memcached) is refused by NewLocker.
//
// gocron is not imported: Go's interfaces are structural, and the type parameter is its type
// Lock. So this package adds nothing to go.mod.
package gocronlock
