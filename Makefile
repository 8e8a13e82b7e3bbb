# scripts/ does the work, and go does, in every module that scripts/modules.sh lists.

# The time limit of one package's tests, and how many packages run concurrently. Most tests wait for servers, but too many at once disturb tests
# that compare times. make lint vets.
TIMEOUT ?= 20m
P ?= 2
# More arguments for go test, such as ARGS='-run TestQueue -v'.
ARGS ?=

# By default, the race detector delays the exit of every process by a second, and the tests start many. scripts/races.txt lists the data races of a client.
export GORACE ?= atexit_sleep_ms=0 suppressions='$(CURDIR)/scripts/races.txt'
# Collecting garbage less often saves a tenth of the time.
export GOGC ?= 400

# Servers keep their data in memory if 4 GB are free there: otherwise a disk that is slow for a second makes servers late, and locks are lost.
test cells: export LOCKPORT_TEST_DATA ?= $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print $$6 }')

.DEFAULT_GOAL := help
.PHONY: help test clients quick lint bench referee soak cells soak-short soak-crowd servers

test: servers ## run every test on real servers, with the race detector; installs missing servers
	@go run tools/testrun/main.go -race -vet=off -shuffle=on -timeout=$(TIMEOUT) -p=$(P) $(ARGS)

clients: servers ## run the tests and quick cases of backends and fences with the newest supported client libraries, as CI does (go.mod requires the oldest)
	@scripts/clients.sh

quick: ## run the tests that need no server; takes under a minute
	@scripts/modules.sh go test -short -timeout=2m $(ARGS) ./...

lint: ## run gofmt, go mod tidy, go vet and staticcheck for Linux and macOS, and go build for Windows
	@scripts/lint.sh

# The default measures everything, for docs/benchmarks.md. BENCH='-family redis -docs ../docs' measures one family of servers again. BENCH=-quick
# takes a few minutes, checks that everything works, and writes nothing.
BENCH ?= -docs ../docs

bench: servers ## compare lockport with other libraries and update docs/benchmarks.md; takes 45 minutes (BENCH=-quick takes a few and writes nothing)
	@cd bench && go run . $(BENCH) && go test -count=1 -run=TestPage ./page -update

referee: servers ## run the conformance suite on other libraries and update docs/referee.md; takes 15 minutes
	@cd referee && LOCKPORT_TEST_FULL=1 go test -count=1 -run=TestReproductions . && go run . -docs ../docs && go test -count=1 -run=TestPage . -update

# The duration of the fault runs, and their random seed; 0 picks a new one each time.
FOR ?= 30m
SEED ?= 0

soak: servers ## run all conformance cases on all server topologies, then inject faults for FOR=30m (SEED=N to replay)
	@LOCKPORT_TEST_FULL=1 go test -race -count=1 -timeout=0 -p=1 -run='^TestConformance' $(ARGS) ./backend/...
	@for m in $$(scripts/modules.sh | grep ^backend/); do (cd $$m && LOCKPORT_TEST_FULL=1 go test -race -count=1 -timeout=0 -run='^TestConformance' $(ARGS) ./...) || exit; done
	@cd referee && LOCKPORT_TEST_FULL=1 go test -count=1 -run=TestReproductions .
	@go test -race -count=1 -timeout=0 ./compare/hazards -run=TestRun -cells=.
	@go test -race -count=1 -timeout=0 ./faults -run=TestCells -full -lanes=4 -for=$(FOR) -seed=$(SEED) $(ARGS) -v

cells: servers ## inject each fault once, without the cells of long runs; make test injects a random third of them, CI all
	@go test -race -count=1 -timeout=$(TIMEOUT) ./faults -part=1 -seed=$(SEED) $(ARGS)

soak-short: servers ## inject every fault on every server topology, in five phases each
	@go test -race -count=1 -timeout=0 ./faults -run=TestCells -full -phases=5 -seed=$(SEED) $(ARGS)

# Which backends soak-crowd tests, as a regular expression, and the size of the crowd.
CROWD ?= .
PROCESSES ?= 4
GOROUTINES ?= 512

soak-crowd: servers ## stress every backend but NATS with 4 × 512 goroutines for FOR=30m each, with the race detector (CROWD=redis PROCESSES=4 GOROUTINES=512)
	@go test -race -count=1 -timeout=0 ./cmd/lockport -run='TestSoak/$(CROWD)' -soak=$(FOR) -processes=$(PROCESSES) -goroutines=$(GOROUTINES) $(ARGS) -v

servers: ## install the lock servers for the tests; starts no services
	@scripts/install-servers.sh

help: ## show this list
	@echo 'Usage: make TARGET. The targets are:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-11s %s\n", $$1, $$2 }'
	@echo "Variables: TIMEOUT=$(TIMEOUT) (per package), P=$(P) (packages at once), ARGS='-run NAME -v' (for go test), FOR=$(FOR), SEED=$(SEED)"
	@echo 'LOCKPORT_TEST_REQUIRE=all fails tests whose server is missing. LOCKPORT_TEST_INSTALL=no installs nothing; tests without their server are skipped.'
