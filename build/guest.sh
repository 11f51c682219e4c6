#!/bin/sh
# Builds the guest for every architecture that a sandbox may have, where the
# host's binary embeds it from. Without cgo: the guest changes the rights of all
# its threads at once, and must run in images that have no C library.
set -eu
cd "$(dirname "$0")/.."
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo devel)}
out=backend/guest/embedded/bin
mkdir -p "$out"
for arch in ${GUEST_ARCHS:-amd64 arm64}; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath \
		-ldflags "-s -w -X main.version=$version" \
		-o "$out/glovebox-guest-linux-$arch" ./backend/guest/cmd/glovebox-guest
done
