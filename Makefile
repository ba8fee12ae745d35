# The modules come from go.work; nothing here lists them a second time.
MODULES   = $(shell go list -m -f '{{.Dir}}')
PACKAGES  = $(MODULES:%=%/...)
SHELL     = bash
SEEDS    ?= 2000
FUZZTIME ?= 10m

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:/ { print $$1 }' $(MAKEFILE_LIST))

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run all tests of all modules; those that need a server skip without it
	go test $(PACKAGES)

race: ## the same tests under the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race $(PACKAGES)

race-redis: ## all of redisstore under the race detector, on every kind and arrangement of servers
	CGO_ENABLED=1 go test -race -count=1 -p 1 -parallel 6 -timeout 60m -skip '^TestQuorum' ./store/redisstore/...

lint: ## gofmt, go vet, and the repository's tests of itself
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; }
	go vet $(PACKAGES)
	go test -count=1 ./internal/repo/repotest

sim: ## seeded schedules of faults in simulated time; SEEDS=2000
	go test ./internal/sim -run TestSchedules -sim.seeds=$(SEEDS) -count=1 -timeout 10m -v

fuzz: ## run every fuzz target; FUZZTIME=10m each, FUZZ=dir/dir for some packages
	@for d in $(or $(FUZZ),$(shell git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u)); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z]*' $$d/*_test.go | cut -d ' ' -f 2); do \
			echo "fuzz $$d $$f"; \
			(cd $$d && go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 .) || exit 1; \
		done; \
	done

mutants: ## mutants of our own source; each must be killed by the check named for it
	go run ./internal/mutants -all -slow

million: ## a million leases in one process
	go test -run TestMillionLeases -count=1 -v ./internal/measure -leases=1000000

model: ## search the model of the quorum, with and without each of its rules
	go run ./store/quorum/internal/modelcheck

model-redis: ## search the model of the Redis layout 2, with and without each of its rules
	go run ./store/redisstore/internal/listmodelcheck

figures-quorum: ## measure the quorum: a million schedules, five servers
	go run ./store/quorum/internal/modelcheck -walks 1000000
	go test ./test/e2e/quorum -count=1 -run 'TestQuorumRoundTrips|TestQuorumTokensUnderFire|TestQuorumFigures' -quorum.figures -v

# Every line of it is the output of one command; the last part takes most of the time.
figures-track: ## what was found and is held by tests: findings, mutants, schedules, failbacks; minutes
	go test ./internal/repo/repotest -count=1 -v -run '^TestFindings$$'
	go test ./internal/core -count=1 -v -run '^TestAbandonedClaimsAreFreeWithinATTL$$'
	set -o pipefail; go test ./store/redisstore/internal/native -count=1 -v -timeout 60m -parallel 12 -run '^(TestRandomFailbacks|TestSentinelsLeadBackToAnOldMaster)$$' -failbacks=200 -failbacks.sentinel=20 | grep -E $(REPORT)
	set -o pipefail; go test ./store/redisstore/internal/native -count=1 -v -timeout 60m -parallel 1 -run '^(TestLocksInMovingSlots|TestCanceledCallersKeepTheLeasesOfOthers|TestEndedMarksAreRemoved|TestAttemptBehindAReentrantHolderDoesNotGrow)$$' -slots.for=5m -cancel.for=1m | grep -E $(REPORT)
	go test ./test/e2e/quorum -count=1 -v -run '^TestQuorumHeapOneNodeAway$$'
	go test ./internal/sim -count=1 -v -timeout 60m -run '^TestSchedules$$' -sim.seeds=$(SEEDS)
	go run ./internal/mutants -all

figures-grace: ## grace: a rolling deployment of real processes, losses, what errors say; needs redis-server and databases
	go test ./internal/gracemodel -count=1
	go test . -count=1 -v -run '^TestGraceIsRecognizedFromEveryCall$$'
	set -o pipefail; go test ./store/redisstore -count=1 -v -run '^TestMigrationIntoAGracePeriodLeavesTheOldLock$$' | grep -E $(REPORT)
	set -o pipefail; go test ./store/sqlstore -count=1 -v -timeout 20m -run '^TestGraceByARollingDeployment$$' | grep -E $(REPORT)
	set -o pipefail; go test ./test/e2e/grace -count=1 -v -timeout 20m | grep -E $(REPORT)

figures-house: ## count what shall become fewer: rows at the top, lines of Go, copies of one rule
	go test ./internal/repo/repotest -count=1 -v -run '^TestHouseFigures$$'

figures: ## measure what the documents claim
	go run ./bench -figures core

figures-redis: ## measure what is promised of redisstore; needs redis-server
	go run ./bench -figures redis

figures-redis-long: ## the same with many waiters, sessions and millions of locks; ten minutes, 5 GB
	go run ./bench -figures redis-long

figures-redis-tests: ## what tests of redisstore measure: five minutes of locks in slots that move, keys that marks leave, attempts behind a re-entrant holder; needs redis-server
	go test ./store/redisstore/internal/native -count=1 -v -timeout 20m -run '^(TestLocksInMovingSlots|TestEndedMarksAreRemoved|TestAttemptBehindAReentrantHolderDoesNotGrow)$$' -slots.for=5m

figures-linger: ## measure locks that linger on Redis, and the notices that end it; needs redis-server
	go run ./bench -figures linger

figures-cli: ## fifty commands cut off from their store: is each dead in time?
	go test ./cmd/fencelock -run '^TestCutOffs' -count=1 -v -cutoffs=50

# What a test writes that passes or fails, without the output of the processes that it starts.
REPORT = '^(figure|---|ok|FAIL|panic| +[a-z_]+\.go:)'

figures-serve: ## what the server costs the store, what it lets pass, how fluid its page is; needs redis-server and Chromium
	set -o pipefail; go test ./cmd/fencelock/internal/serve -count=1 -v -run '^(TestViewersShareOnePoll|TestHostileRequestsDoNotPass|TestConsoleStaysFluid)$$' | grep -E $(REPORT)
	set -o pipefail; go test ./cmd/fencelock -count=1 -v -run '^(TestServeDemo|TestServeCosts)$$' -serve.demo=40s -serve.costs | grep -E $(REPORT)

serve-demo: ## kill, pause and cut off servers, Go and Python workers for ten minutes; needs redis-server and python3
	go test ./cmd/fencelock -count=1 -v -run '^TestServeDemo$$' -serve.demo=10m -timeout 30m

figures-fence: ## prove the guards on real servers, and refuse wrong ones
	go run ./bench -figures fence

figures-adapters: ## run the adapters in their hosts, several processes each; needs the servers; minutes
	cd adapters/caddylock && go vet ./... && go test . -count=1
	cd test/caddy && go test . -count=1
	cd test/adapters && go vet ./... && go test . -count=1 -v -adapters.figures

interop: ## share locks with the other libraries themselves, every version, and write docs/interop.md; needs Java, Maven, redis-py, kazoo, node-redlock and etcdctl
	go test ./test/interop -count=1 -timeout 40m -parallel 4 -v -interop.all -interop.page=$(CURDIR)/docs/interop.md

figures-interop: ## shared locks: wake-ups, renewals, ten minutes of a mixed fleet for each kind, fleets that migrate, and the cells that docs/interop.md keeps; needs what interop needs
	go test ./store/redisstore/redissonstore -count=1 -v -run '^TestRenewalTakesFewScripts$$'
	go test ./test/interop -count=1 -timeout 90m -parallel 4 -v -run '^(TestWakeUps|TestMixed|TestKeptCells)' -interop.all -interop.figures -interop.torture=10m
	go test ./test/interop -count=1 -timeout 40m -v -run '^TestFleet' -interop.all -interop.processes=5 -interop.rounds=5

# Half an hour, and 5 GB. The machine must do nothing else.
scale: ## measure unit costs, growth and small fleets on every server, for docs/scale.md
	go run ./bench -units -for 1s
	go run ./bench -growth -repetitions 5 -for 1s
	go run ./bench -runs -for 1s
	go run ./bench -page

figures-scale: ## what docs claim of scale and endurance, from the results that are kept
	go run ./test/torture kept test/torture/README.md
	go run ./bench -figures scale
	go test ./internal/fleetsim -count=1 -v -run '^TestSimulationAgreesWithRealRuns$$'
	go run ./test/events kept test/events/results docs/scale/storm.svg
	go run ./test/torture/soak kept test/torture/soak/results

figures-stores: ## measure the stores beside their servers' own locks; needs the servers
	go run ./bench -figures etcd
	go run ./bench -figures sql
	go run ./bench -figures zk

figures-engines: figures-stores ## the same, by the name that issues use

story: ## two workers, one of them stopped while it holds the lock; without a guard, and with one
	go run ./test/e2e/story

bench-quick: ## count commands and processor time on Redis in a minute; fails below bench/floors.txt
	go run ./bench -quick

docs-check: ## every code block compiles, every example runs, every link leads somewhere
	go run ./internal/repo/docscheck

pictures-console: ## pictures of the console, from a real run, into the folder TO; needs redis-server and Chromium
	go test ./cmd/fencelock/internal/serve -count=1 -run '^(TestConsoleInABrowser|TestConsoleBreaksALock|TestConsoleStaysFluid)$$' -console.pictures=$(abspath $(TO))

pictures: ## render every SVG, light and dark, into the folder TO; needs Chromium
	internal/repo/pictures.sh $(TO)

torture: ## break real servers under real locks, the full matrix, 75 minutes at most; needs the servers
	for part in $(or $(PART),redis others); do go run ./test/torture -part $$part -parallel 3 -least 120 -budget 40m -write test/torture/README.md || exit 1; done

torture-lossy: ## the second matrix: lost, reordered and delayed packets, drifting clocks; as root, 45 minutes at most
	go run ./test/torture -lossy -parallel 2 -least 80 -budget 45m -write test/torture/README.md

torture-linger: ## the third matrix: locks that linger and holders that give way, 30 minutes at most
	go run ./test/torture -linger -server redis,redis-grace,quorum-5,sentinel-grace,cluster-grace,etcd,zookeeper,postgres,mariadb -parallel 2 -least 120 -budget 30m -write test/torture/README.md

soak: ## use every server for half an hour each under random faults, and find out what grows; results are kept
	go run ./test/torture/soak -for 35m -parallel 3

events: ## failover, restart of all clients, death of a large client and others, with thousands of sessions; results are kept
	for e in failover restart death hot slow step; do go run ./test/events -event $$e || exit 1; done

torture-smoke: ## the cells of it that CI runs
	go run ./test/torture -smoke -parallel 2 -least 14 -budget 1m15s

torture-broken: ## broken locks on real servers; each must be caught by its checker
	go run ./test/torture broken -write test/torture/README.md

torture-peers: ## locks of other libraries under the same faults, counted beside ours
	go run ./test/torture peers -rounds 2 -write test/torture/README.md

rehearse: ## build every module as its users get it; -write tidies go.mod and go.sum
	go run ./internal/repo/rehearse

release-rehearsal: ## a whole release to a proxy in a folder, used as its users do; COLD=-cold compiles anew
	go run ./internal/repo/rehearse -release $(COLD)

servers-new: ## install the newest of each server into the folder TO and print the variables that name them
	.ci/servers-new $(or $(TO),dist/servers)

compat: ## test every version of every server, those in the folder TO too, for docs/compatibility.md; hours
	go run ./internal/repo/compat -servers $(or $(TO),dist/servers) $(COMPAT)

ci: ## everything, timed, as on a fresh machine
	.ci/run
