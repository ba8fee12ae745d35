# The modules come from go.work; nothing here lists them a second time.
MODULES   = $(shell go list -m -f '{{.Dir}}')
PACKAGES  = $(MODULES:%=%/...)
SEEDS    ?= 2000

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:/ { print $$1 }' $(MAKEFILE_LIST))

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run all tests of all modules; those that need a server skip without it
	go test $(PACKAGES)

race: ## the same tests under the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race $(PACKAGES)

race-redis: ## all of redisstore under the race detector, on every kind and arrangement of servers
	CGO_ENABLED=1 go test -race -count=1 -p 1 -parallel 6 -timeout 60m -skip '^TestQuorum' ./redisstore/...

lint: ## gofmt, go vet, and the repository's tests of itself
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; }
	go vet $(PACKAGES)
	go test -count=1 ./internal/repotest

sim: ## seeded schedules of faults in simulated time; SEEDS=2000
	go test ./internal/sim -run TestSchedules -sim.seeds=$(SEEDS) -count=1 -timeout 10m -v

zoo: ## locks broken on purpose; each must be caught by name
	go run ./internal/zoo

million: ## a million leases in one process
	go test -run TestMillionLeases -count=1 -v . -leases=1000000

model: ## search the model of the quorum, with and without each of its rules
	go run ./quorum/internal/modelcheck

figures-quorum: ## measure the quorum: a million schedules, five servers
	go run ./quorum/internal/modelcheck -walks 1000000
	go test ./redisstore -count=1 -run 'TestQuorumRoundTrips|TestQuorumTokensUnderFire|TestQuorumFigures' -quorum.figures -v

figures: ## measure what the documents claim
	go run ./internal/figures

figures-redis: ## measure what is promised of redisstore; needs redis-server
	go run ./bench -figures redis

figures-redis-long: ## the same among a thousand that wait and with a million leases; minutes
	go run ./bench -figures redis-long

figures-cli: ## fifty commands cut off from their store: is each dead in time?
	go test ./cmd/fencelock -run '^TestCutOffs' -count=1 -v -cutoffs=50

figures-fence: ## prove the guards on real servers, and refuse wrong ones
	go run ./internal/fencefigures

figures-engines: ## measure the stores beside their engines' own recipes; needs the servers
	go run ./etcdstore/internal/compare
	go run ./sqlstore/internal/sqlfigures
	go run ./bench -figures zk

story: ## two workers, one of them stopped while it holds the lock; without a guard, and with one
	go run ./fenceproof/story

bench-quick: ## compare with the bare engine and others in a minute; fails below bench/floors.txt
	go run ./bench -quick

docs-check: ## every code block compiles, every example runs, every link leads somewhere
	go run ./internal/docscheck

torture: ## break real servers under real locks, the full matrix, 75 minutes at most; needs the servers
	go run ./torture -parallel 3 -least 290 -budget 75m -write torture/README.md

torture-smoke: ## the cells of it that CI runs
	go run ./torture -smoke -parallel 2 -least 18 -budget 2m50s

torture-zoo: ## broken locks on real servers; each must be caught by its checker
	go run ./torture zoo -write torture/README.md

torture-peers: ## locks of other libraries under the same faults, counted beside ours
	go run ./torture peers -rounds 2 -write torture/README.md

rehearse: ## build every module as its users get it; -write tidies go.mod and go.sum
	go run ./internal/rehearse

release-rehearsal: ## a whole release to a proxy in a folder, used as its users do; COLD=-cold compiles anew
	go run ./internal/rehearse -release $(COLD)

ci: ## everything, timed, as on a fresh machine
	.ci/run
