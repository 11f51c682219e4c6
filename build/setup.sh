#!/bin/sh
# Brings a machine to the point where "make run" or "make test" works, and says
# what it does. It installs only what is missing, asks for root only then, and
# never changes what is there. On systems without apt it names what to install.
#
#   build/setup.sh run      Go and Node are there; a wall can be had
#   build/setup.sh desktop  also what the window is built with
#   build/setup.sh image    also an engine, and what the standard image is made with where no registry answers
#   build/setup.sh test     also all that the tests use: engine, bubblewrap, browser, display
#   build/setup.sh stop     ends the engine that this script has started
set -eu
cd "$(dirname "$0")/.."
mode=${1:-run}
pidfile=build/bin/dockerd.pid

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }
PATH=$PATH:/usr/sbin:/sbin

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif has sudo; then sudo "$@"
	else die "root is needed for: $*"; fi
}

updated=
install() { # install PACKAGE... with apt, or say that they are needed
	if ! has apt-get; then
		say "please install: $* (the names are Debian's)"
		return 1
	fi
	say "installing $*"
	if [ -z "$updated" ]; then as_root apt-get update -qq; updated=1; fi
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

engine_answers() { has docker && timeout 5 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

start_engine() { # an installed engine that does not run
	engine_answers && return 0
	has dockerd || return 1
	[ -z "${DOCKER_HOST:-}" ] || return 1 # another engine is meant; starting this one would not help
	if [ -d /run/systemd/system ]; then
		say "starting the Docker engine"
		as_root systemctl start docker || return 1
	else
		say "starting the Docker engine (log: build/bin/dockerd.log)"
		mkdir -p build/bin
		as_root sh -c 'rm -f /var/run/docker.pid; setsid dockerd >build/bin/dockerd.log 2>&1 </dev/null & echo $! >'"$pidfile"
	fi
	i=0
	until engine_answers; do
		i=$((i + 1))
		[ "$i" -lt 150 ] || { say "the Docker engine does not answer"; return 1; }
		sleep 0.2
	done
}

static_busybox() {
	for b in /bin/busybox /usr/bin/busybox; do
		[ -x "$b" ] && ! ldd "$b" >/dev/null 2>&1 && return 0
	done
	return 1
}

case $mode in
stop)
	[ -f "$pidfile" ] || exit 0
	pid=$(cat "$pidfile")
	say "stopping the Docker engine that was started for this ($pid)"
	as_root kill "$pid" 2>/dev/null || true
	i=0
	while kill -0 "$pid" 2>/dev/null && [ "$i" -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
	rm -f "$pidfile"
	exit 0
	;;
run | desktop | image | test) ;;
*) die "usage: build/setup.sh run|desktop|image|test|stop" ;;
esac

has go || die "Go 1.26 or newer is needed: https://go.dev/dl/"
has node && has npm || die "Node 20 or newer with npm is needed: https://nodejs.org/"

if [ "$mode" = run ]; then
	if start_engine; then
		static_busybox || install busybox-static || true # the tiny image is made of it
	elif ! has bwrap; then
		install bubblewrap || true # the server says what is missing
	fi
	exit 0
fi

image_tools() { # the packages that are missing for a Debian made of packages
	has mmdebstrap || printf ' mmdebstrap'
	[ "$(id -u)" = 0 ] || has newuidmap || printf ' uidmap' # it then makes the tree as many users at once
}

if [ "$mode" = image ]; then
	missing=$(image_tools)
	has dockerd || engine_answers || missing="$missing docker.io iptables"
	# shellcheck disable=SC2086 # a list of packages
	[ -z "$missing" ] || install $missing || true # a registry may do
	start_engine || die "no Docker engine to make the image for"
	exit 0
fi

missing=
has gcc || missing="$missing gcc libc6-dev"
has pkg-config || missing="$missing pkg-config"
has pkg-config && pkg-config --exists gtk+-3.0 webkit2gtk-4.1 || missing="$missing libgtk-3-dev libwebkit2gtk-4.1-dev"
if [ "$mode" = desktop ]; then
	# shellcheck disable=SC2086 # a list of packages
	[ -z "$missing" ] || install $missing || exit 1
	exit 0
fi
has Xvfb || missing="$missing xvfb"
has xdotool || missing="$missing xdotool"
has dockerd || engine_answers || missing="$missing docker.io iptables"
has bwrap || missing="$missing bubblewrap"
static_busybox || missing="$missing busybox-static"
has chromium || has chromium-browser || has google-chrome || missing="$missing chromium"
has git || missing="$missing git"
[ -x /usr/bin/curl ] || missing="$missing curl" # these are lent to sandboxes, from /usr
[ -x /usr/bin/pip3 ] || missing="$missing python3-pip"
has ssh && has ssh-keygen || missing="$missing openssh-client"
case ,${GLOVEBOX_TEST_REQUIRE:-}, in # Debian starts a server that is installed: not on a laptop
*,sshd,*) has sshd || missing="$missing openssh-server" ;;
esac
has podman && has runc || missing="$missing podman runc"
missing="$missing$(image_tools)"
# shellcheck disable=SC2086 # a list of packages
[ -z "$missing" ] || install $missing || true
start_engine || say "no Docker engine: its tests are skipped, or fail where they are required"
