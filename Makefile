# make run    builds everything and serves the screen on this machine
# make test   installs what the tests need and runs all of them
# The rest are the parts of those two, and what is run by hand.

SHELL   := /bin/sh
VERSION ?= 0.1.0
export VERSION
# One set of flags for programs, checks and tests: with two, the models' SDKs,
# which take minutes to compile, are compiled twice.
export GOFLAGS := $(GOFLAGS) -trimpath
LDFLAGS := -s -w -X github.com/glovebox-dev/glovebox/app.Version=$(VERSION)
BIN     := build/bin/glovebox
ARGS    ?=

DESKTOP := build/bin/glovebox-desktop

.PHONY: run test build desktop guest docker-image image standard-image ui gen check go-test ui-test e2e shots story bench crash hands fuzz lint clean

run: setup-run build
	exec $(BIN) serve $(ARGS)

# Both suites run to their ends, whatever the other found.
test: setup-test build $(DESKTOP) check ui-test
	@$(MAKE) -k --no-print-directory e2e go-test

.PHONY: setup-run setup-test setup-desktop setup-image
setup-run:
	@build/setup.sh run
setup-test:
	@build/setup.sh test
setup-desktop:
	@build/setup.sh desktop
setup-image:
	@build/setup.sh image

# One static file: the screen and the guests are inside.
build: ui guest
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $(BIN) .

# The same program with a window of its own. It starts without the webview's
# libraries and loads them when it opens its window. Names and users are looked
# up as in the static program, so what does not draw is compiled once for both.
desktop: setup-desktop $(DESKTOP)

.PHONY: $(DESKTOP)
$(DESKTOP): ui guest
	CGO_ENABLED=1 go build -tags desktop,production,webkit2_41,netgo,osusergo -ldflags '$(LDFLAGS)' -o $@.new .
	go run ./build/lazylink $@.new
	mv $@.new $@

guest:
	@build/guest.sh

# The program as an image, and a guest that stands alone; see docs/docker.md.
docker-image: build
	build/docker/image.sh $(BIN) backend/guest/embedded/bin/glovebox-guest-linux-$$(go env GOARCH) $(VERSION)

# The standard image, which has a browser, on this machine's engine.
image: setup-image build
	$(BIN) image build $(ARGS)

# The test that makes the whole of it, which takes minutes and a gigabyte.
standard-image: setup-image guest
	go test ./backend/sandbox/docker -run '^TestMakeStandard$$' -standard -v -timeout 1h

ui: frontend/dist/index.html

frontend/node_modules/.package-lock.json: frontend/package.json frontend/package-lock.json
	cd frontend && npm ci --no-audit --no-fund
	@touch $@

frontend/dist/index.html: frontend/node_modules/.package-lock.json $(shell find frontend/src frontend/index.html frontend/vite.config.ts -type f 2>/dev/null)
	cd frontend && npm run build

# The types that the screen shares with the server.
gen:
	go generate ./backend/httpapi/...

# Quick checks of form.
check:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt on these"; exit 1; }
	go vet ./...
	@! grep -q '"resolved"' frontend/package-lock.json || { echo "package-lock.json names registry hosts"; exit 1; }

# Every package, with the race detector and the real engine, bubblewrap and browser.
go-test:
	GLOVEBOX_DESKTOP=$(abspath $(DESKTOP)) go test -race -timeout 40m ./...

# The screen in a browser: over a canned server, and over the program itself.
e2e: build
	go build -o build/bin/modelserver ./backend/llm/llmtest/cmd/modelserver
	cd frontend && npm run e2e

# Pictures of every view, in docs/screenshots.
shots: ui
	cd frontend && npm run shots

# The story of an agent and a person in one browser, with its pictures.
story: build
	cd frontend && STORY_SHOTS=../docs/screenshots node --test e2e/story.test.mjs

ui-test: frontend/node_modules/.package-lock.json
	cd frontend && npm run check && npm test

# Measures against the floors of this machine; see docs/benchmarks.md.
bench: build
	$(BIN) bench $(ARGS)

# Servers that are killed at every step of what they do with a sandbox.
crash: guest
	go test ./app -run '^TestCrashPoints$$' -crash.all -v -timeout 2h

# An agent and a person at one page, ten thousand times at random.
hands:
	go test ./backend/browser/pane -run '^TestHands$$' -hands.holds 10000 -v -timeout 2h $(ARGS)

fuzz:
	build/fuzz.sh

lint:
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

clean:
	rm -rf build/bin frontend/node_modules
	find frontend/dist -mindepth 1 ! -name placeholder.html -delete
	rm -f backend/guest/embedded/bin/glovebox-guest-*
