# The everyday targets, and those that a pull request or a release needs. What measures, and what runs for long, is in
# lab/lab.mk. The modules come from go.work; nothing here lists them a second time.
MODULES   = $(shell go list -m -f '{{.Dir}}')
PACKAGES  = $(MODULES:%=%/...)
SHELL     = bash
SEEDS    ?= 2000
FUZZTIME ?= 10m

include lab/lab.mk

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:/ { print $$1 }' $(MAKEFILE_LIST))

help:
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile
	@echo; echo 'Measure: make figures-NAME prints lines "figure NAME VALUE GOAL"'
	@echo "  NAME is $(patsubst figures-%,%,$(filter figures-%,$(shell awk -F: '/^figures-[a-z-]+:/ { print $$1 }' lab/lab.mk)))"
	@echo; echo 'All others, which run for minutes or hours, have a comment each in lab/lab.mk'

##@ Every day

test: ## run all tests of all modules; those that need a server skip without it
	go test $(PACKAGES)

lint: ## gofmt, golangci-lint, and the repository's tests of itself
	.ci/run lint golangci fencelockvet

ci: ## everything that must stay true, timed, as on a fresh machine; .ci/run NAME runs a part
	.ci/run

##@ Look closer

race: ## the same tests under the race detector, but for redisstore: make race-redis; needs a C compiler
	CGO_ENABLED=1 go test -race $(filter-out %/store/redisstore/...,$(PACKAGES))

sim: ## seeded schedules of faults in simulated time; SEEDS=2000
	go test ./lab/sim -run TestSchedules -sim.seeds=$(SEEDS) -count=1 -timeout 10m -v

mutants: ## mutants of our own source; each must be killed by the check named for it
	go run ./lab/mutants -all -slow

model: ## search the model of the quorum, with and without each of its rules
	go run ./store/quorum/internal/modelcheck

fuzz: ## run every fuzz target; FUZZTIME=10m each, FUZZ=dir/dir for some packages
	@for d in $(or $(FUZZ),$(shell git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u)); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z]*' $$d/*_test.go | cut -d ' ' -f 2); do \
			echo "fuzz $$d $$f"; \
			(cd $$d && go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 .) || exit 1; \
		done; \
	done

story: ## two workers, one of them stopped while it holds the lock; without a guard, and with one
	go run ./lab/e2e/story

##@ With real servers, for long

torture: ## break real servers under real locks, the full matrix; 75 minutes at most
	for part in $(or $(PART),redis others); do go run ./lab/torture -part $$part -parallel 3 -least 120 -budget 40m -write lab/results/torture.md || exit 1; done

interop: ## share locks with the other libraries themselves, and write lab/results/interop.md; needs Java, Python and others
	go test ./lab/interop -count=1 -timeout 40m -parallel 4 -v -interop.all -interop.page=$(CURDIR)/lab/results/interop.md

compat: ## test every version of every server, those in the folder TO too; hours
	go run ./lab/repo/compat -servers $(or $(TO),dist/servers) $(COMPAT)

servers-new: ## install the newest of each server into the folder TO
	.ci/servers-new $(or $(TO),dist/servers)

nightly: ## what CI has no time for: all mutants, models, race detector, fuzzing, all of torture; hours
	$(MAKE) mutants model model-redis race race-redis fuzz FUZZTIME=2m
	$(MAKE) torture torture-lossy torture-linger torture-broken interop figures-adapters

##@ Documents and releases

docs-check: ## every code block compiles, every example runs, every link leads somewhere
	go run ./lab/repo/docscheck

pictures: ## render every SVG, light and dark, into the folder TO; needs Chromium
	lab/repo/pictures.sh $(TO)

bench-quick: ## count commands and processor time on Redis in a minute; fails below lab/bench/floors.txt
	go run ./lab/bench -quick

evidence: ## run everything that is measured before a release, and write lab/results/evidence.md; many hours, goes on where it stopped
	go run ./lab/repo/evidence

vulncheck: ## known vulnerabilities in what each module calls; needs the network
	@for d in $(MODULES); do echo "vulncheck: $$d"; (cd $$d && go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 ./...) || exit 1; done

goreleaser: ## build the tool that makes the binaries into bin/, and let it check .goreleaser.yaml; minutes
	GOBIN=$(CURDIR)/bin GOFLAGS= go install github.com/goreleaser/goreleaser/v2@v2.16.0
	bin/goreleaser check

release-rehearsal: ## a whole release to a proxy in a folder, used as its users do; COLD=-cold compiles anew
	go run ./lab/repo/rehearse -release $(COLD)

release-check: ## what must hold before the tags: reports of this code, hashes of this tree, a rehearsal; minutes
	go run ./lab/repo/releasecheck
	go run ./lab/repo/rehearse -release -sums
