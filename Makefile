# What people type. The work is done by scripts/, and by `go` in every module that scripts/modules.sh lists.

# How long the tests of one package may take, and how many packages are tested at once. Most tests wait for servers, but
# too many neighbours disturb those that compare times. make lint vets.
TIMEOUT ?= 20m
P ?= 2
# More for go test, such as ARGS='-run TestQueue -v'.
ARGS ?=

# The tests start processes of their own, and the race detector would let each sleep for a second at its end.
export GORACE ?= atexit_sleep_ms=0

.DEFAULT_GOAL := help
.PHONY: help test clients quick lint bench go-bench referee soak soak-short soak-crowd servers

test: servers ## every test, under the race detector, on real servers (installs what is missing)
	@go run tools/testrun/main.go -race -vet=off -shuffle=on -timeout=$(TIMEOUT) -p=$(P) $(ARGS)
	@[ -n "$(ARGS)" ] || scripts/clients.sh

clients: servers ## the quick cases of each backend with the newest client libraries that are supported; go.mod has the oldest
	@scripts/clients.sh

quick: ## the tests that need no server; under a minute
	@scripts/modules.sh go test -short -timeout=2m $(ARGS) ./...

lint: ## gofmt, go mod tidy, go vet and staticcheck, for Linux and macOS; go build for Windows
	@scripts/lint.sh

# How lockport is measured beside other libraries: all of it, for docs/benchmarks.md. BENCH='-family redis -docs ../docs' is one family of servers of it,
# BENCH=-quick shows in a few minutes that all works, and writes nothing.
BENCH ?= -docs ../docs

bench: servers ## lockport beside other libraries, into docs/benchmarks.md, in three quarters of an hour (BENCH=-quick: in minutes)
	@cd bench && go run . $(BENCH)

referee: servers ## the suite on other people's libraries, three runs each, into docs/referee.md, in a quarter of an hour
	@cd referee && LOCKPORT_TEST_FULL=1 go test -count=1 -run=TestReproductions . && go run . -docs ../docs

go-bench: servers ## the Go benchmarks of all packages
	@scripts/modules.sh go test -run='^$$' -bench=. -benchmem -timeout=$(TIMEOUT) -p=1 $(ARGS) ./...

# How long the fault runs last, and with which seed: 0 is another one each time.
FOR ?= 30m
SEED ?= 0

soak: servers ## every conformance case on every arrangement of servers, then fault runs for a long time (FOR=2h, SEED=N to replay), whose figures go into docs/faults.json and docs/guarantees.md
	@LOCKPORT_TEST_FULL=1 go test -race -count=1 -timeout=0 -p=1 -run='^TestConformance' $(ARGS) ./backend/...
	@for m in $$(scripts/modules.sh | grep ^backend/); do (cd $$m && LOCKPORT_TEST_FULL=1 go test -race -count=1 -timeout=0 -run='^TestConformance' $(ARGS) ./...) || exit; done
	@cd referee && LOCKPORT_TEST_FULL=1 go test -count=1 -run=TestReproductions .
	@go test -race -count=1 -timeout=0 ./compare/hazards -run=TestQuickRun -all
	@go test -race -count=1 -timeout=0 ./faults -run=TestCells -full -lanes=4 -for=$(FOR) -seed=$(SEED) -write $(ARGS) -v

soak-short: servers ## fault runs, five phases per cell
	@go test -race -count=1 -timeout=0 ./faults -run=TestCells -full -phases=5 -seed=$(SEED) $(ARGS)

# Which backends a crowd soaks, as a regular expression, and how large it is.
CROWD ?= .
PROCESSES ?= 4
GOROUTINES ?= 512

soak-crowd: servers ## a crowd on every backend, FOR=30m each, under the race detector (CROWD='redis|etcd' PROCESSES=4 GOROUTINES=512)
	@go test -race -count=1 -timeout=0 ./cmd/lockport -run='TestSoak/$(CROWD)' -soak=$(FOR) -processes=$(PROCESSES) -goroutines=$(GOROUTINES) $(ARGS) -v

servers: ## install the lock servers that the tests start, without starting their services
	@scripts/install-servers.sh

help: ## this list
	@echo 'make TARGET, where TARGET is one of:'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-11s %s\n", $$1, $$2 }'
	@echo "Variables: TIMEOUT=$(TIMEOUT) P=$(P) ARGS='-run NAME -v' LOCKPORT_TEST_REQUIRE=all LOCKPORT_TEST_INSTALL=no"
