# What measures and what runs for long. The Makefile includes this; make figures-NAME prints "figure NAME VALUE GOAL".

# What a test writes that passes or fails, without the output of the processes that it starts.
REPORT = '^(figure|---|ok|FAIL|panic| +[a-z_]+\.go:)'

# All of redisstore under the race detector, on every kind and arrangement of servers.
race-redis:
	CGO_ENABLED=1 go test -race -count=1 -p 1 -parallel 6 -timeout 60m -skip '^TestQuorum' ./store/redisstore/...

# A million leases in one process.
million:
	go test -run TestMillionLeases -count=1 -v ./internal/measure -leases=1000000

# Search the model of the Redis layout 2, with and without each of its rules.
model-redis:
	go run ./lab/models/redismodel/check

# Measure the quorum: a million schedules, a thousand that settle, five servers.
figures-quorum:
	go run ./store/quorum/internal/modelcheck -walks 1000000
	go test ./store/quorum -count=1 -timeout 30m -run '^TestSettles$$' -quorum.settle=1000
	go test ./lab/e2e/quorum -count=1 -run 'TestQuorumRoundTrips|TestQuorumTokensUnderFire|TestQuorumFigures' -quorum.figures -v

# What was found and is held by tests: findings, failbacks, all mutants; half an hour. figures-core runs the schedules of the
# simulator, figures-redis-tests the other tests of redisstore that take minutes.
figures-track:
	go test ./lab/repo/repotest -count=1 -v -run '^TestFindings$$'
	go test ./internal/core -count=1 -v -run '^TestAbandonedClaimsAreFreeWithinATTL$$'
	set -o pipefail; go test ./store/redisstore/internal/native -count=1 -v -timeout 60m -parallel 12 -run '^(TestRandomFailbacks|TestSentinelsLeadBackToAnOldMaster)$$' -failbacks=200 -failbacks.sentinel=20 | grep -E $(REPORT)
	go test ./lab/e2e/quorum -count=1 -v -run '^TestQuorumHeapOneNodeAway$$'
	go run ./lab/mutants -all

# Grace: a rolling deployment of real processes, losses, what errors say; needs redis-server and databases.
figures-grace:
	go test ./lab/models/gracemodel -count=1
	go test . -count=1 -v -run '^TestGraceIsRecognizedFromEveryCall$$'
	set -o pipefail; go test ./store/redisstore -count=1 -v -run '^TestMigrationIntoAGracePeriodLeavesTheOldLock$$' | grep -E $(REPORT)
	set -o pipefail; go test ./store/sqlstore -count=1 -v -timeout 20m -run '^TestGraceByARollingDeployment$$' | grep -E $(REPORT)
	set -o pipefail; go test ./lab/e2e/grace -count=1 -v -timeout 20m | grep -E $(REPORT)

# Count what shall become fewer: rows at the top, lines of Go, copies of one rule.
figures-house:
	go test ./lab/repo/repotest -count=1 -v -run '^TestHouseFigures$$'

# Count what users type: identifiers, long comments, types without an example, options, and changes against the snapshot.
figures-api:
	go test ./lab/repo/repotest -count=1 -v -run '^TestAPI'

# Count words and pages, numbers that are written twice, examples, and reports of older code.
figures-docs:
	go test ./lab/repo/repotest -count=1 -v -run '^(TestDocsFigures|TestNumbersAreWrittenOnce)$$'
	go run ./lab/repo/releasecheck -figures

# Measure what the documents claim.
figures-core:
	go run ./lab/bench -figures core

# Measure what is promised of redisstore; needs redis-server.
figures-redis:
	go run ./lab/bench -figures redis

# The same with many waiters, sessions and millions of locks; ten minutes, 5 GB.
figures-redis-long:
	go run ./lab/bench -figures redis-long

# What tests of redisstore measure: what short scripts spare, five minutes of locks in slots that move, canceled callers, keys that marks leave, attempts behind a re-entrant holder; needs redis-server.
figures-redis-tests:
	go test ./store/redisstore/internal/native -count=1 -v -timeout 20m -parallel 1 -run '^(TestLocksInMovingSlots|TestCanceledCallersKeepTheLeasesOfOthers|TestShortPartsPay|TestEndedMarksAreRemoved|TestAttemptBehindAReentrantHolderDoesNotGrow)$$' -slots.for=5m -cancel.for=1m

# Measure locks that linger on Redis, and the notices that end it; needs redis-server.
figures-linger:
	go run ./lab/bench -figures linger

# Fifty commands cut off from their store: is each dead in time?.
figures-cli:
	go test ./cmd/fencelock -run '^TestCutOffs' -count=1 -v -cutoffs=50

# What the server costs the store, what it lets pass, how fluid its page is; needs redis-server and Chromium.
figures-serve:
	set -o pipefail; go test ./cmd/fencelock/internal/server -count=1 -v -run '^(TestViewersShareOnePoll|TestHostileRequestsDoNotPass|TestConsoleStaysFluid)$$' | grep -E $(REPORT)
	set -o pipefail; go test ./cmd/fencelock -count=1 -v -run '^(TestServeDemo|TestServeCosts)$$' -serve.demo=40s -serve.costs | grep -E $(REPORT)

# Kill, pause and cut off servers, Go and Python workers for ten minutes; needs redis-server and python3.
serve-demo:
	go test ./cmd/fencelock -count=1 -v -run '^TestServeDemo$$' -serve.demo=10m -timeout 30m

# Prove the guards on real servers, refuse wrong ones, and pause and kill their writers for ten minutes.
figures-fence:
	go run ./lab/bench -figures fence
	set -o pipefail; go test ./lab/e2e/guarded -count=1 -v -timeout 60m -parallel 12 -guarded.long=10m | grep -E $(REPORT)

# Which misuses the analyzers find, what they report here and in a million lines of others, and their time beside go vet; minutes.
figures-vet:
	go test ./lab/vet -count=1 -v -timeout 30m -vet.figures

# Run the adapters in their hosts, several processes each; needs the servers; minutes.
figures-adapters:
	cd adapters/caddylock && go vet ./... && go test . -count=1
	cd lab/caddy && go test . -count=1
	cd lab/adapters && go vet ./... && go test . -count=1 -v -adapters.figures

# Shared locks: wake-ups, renewals, ten minutes of a mixed fleet for each kind, fleets that migrate, and the cells that lab/results/interop.md keeps; needs what interop needs.
figures-interop:
	go test ./store/redisstore/redissonstore -count=1 -v -run '^TestRenewalTakesFewScripts$$'
	go test ./lab/interop -count=1 -timeout 90m -parallel 4 -v -run '^(TestWakeUps|TestMixed|TestKeptCells)' -interop.all -interop.figures -interop.torture=10m
	go test ./lab/interop -count=1 -timeout 40m -v -run '^TestFleet' -interop.all -interop.processes=5 -interop.rounds=5

# Half an hour, and 5 GB. The machine must do nothing else.
# Measure unit costs on every server, and growth on Redis, for lab/results/scale.md.
scale:
	go run ./lab/bench -units -for 1s
	go run ./lab/bench -growth -repetitions 5 -for 1s
	go run ./lab/bench -page

# What docs claim of scale and endurance, from the results that are kept.
figures-scale:
	go run ./lab/torture kept lab/results/torture.md
	go run ./lab/bench -figures scale
	go run ./lab/load kept

# Measure the stores beside their servers' own locks; needs the servers.
figures-stores:
	go run ./lab/bench -figures etcd
	go run ./lab/bench -figures sql
	go run ./lab/bench -figures zk

# The same, by the name that issues use.
figures-engines: figures-stores

# Pictures of the console, from a real run, into the folder TO; needs redis-server and Chromium.
pictures-console:
	go test ./cmd/fencelock/internal/server -count=1 -run '^(TestConsoleInABrowser|TestConsoleBreaksALock|TestConsoleStaysFluid)$$' -console.pictures=$(abspath $(TO))

# The second matrix: lost, reordered and delayed packets, drifting clocks; as root, 45 minutes at most.
torture-lossy:
	go run ./lab/torture -lossy -parallel 2 -least 80 -budget 45m -write lab/results/torture.md

# The third matrix: locks that linger and holders that give way, 30 minutes at most.
torture-linger:
	go run ./lab/torture -linger -server redis,redis-grace,quorum-5,sentinel-grace,cluster-grace,etcd,zookeeper,postgres,mariadb -parallel 2 -least 120 -budget 30m -write lab/results/torture.md

# Use all servers, or those in SERVER, for half an hour under random faults, side by side, and find out what grows; results are kept.
soak:
	go run ./lab/load soak -for 35m -parallel 9 $(SERVER:%=-server %)

# Failover, restart of all clients, death of a large client and others, with thousands of sessions; results are kept.
events:
	for e in failover restart death hot slow step; do go run ./lab/load event $$e || exit 1; done

# The cells of it that CI runs.
torture-smoke:
	go run ./lab/torture -smoke -parallel 2 -least 14 -budget 1m15s

# Broken locks on real servers; each must be caught by its checker.
torture-broken:
	go run ./lab/torture broken -write lab/results/torture.md

# Locks of other libraries under the same faults, counted beside ours.
torture-peers:
	go run ./lab/torture peers -rounds 2 -write lab/results/torture.md

# Build every module as its users get it; -write tidies go.mod and go.sum.
rehearse:
	go run ./lab/repo/rehearse
