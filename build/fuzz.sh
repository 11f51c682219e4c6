#!/bin/sh
# Runs every fuzz target of the tree, one after the other, for FUZZTIME each, and
# stops at the first finding. Go keeps the input of a finding in the package's
# testdata/fuzz; committed there, or as a seed, it is a test from then on.
#
#   FUZZTIME=5m build/fuzz.sh
set -eu
cd "$(dirname "$0")/.."

FUZZTIME=${FUZZTIME:-30s}
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
ran=0

# ended tells a finding from a target whose time was up while an input ran: Go
# fails both (https://go.dev/issue/75804), but only a finding has more to say.
ended() {
	grep -q '^ *context deadline exceeded$' "$tmp/log" &&
		! grep -Eq 'Failing input|panic:|fatal error:|hung or terminated|_test\.go:[0-9]+:' "$tmp/log"
}

# Only packages that have a target are compiled to be asked for their names.
for dir in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n 1 dirname | sort -u); do
	listed=$(go test -list '^Fuzz' "./$dir")
	for target in $(printf '%s\n' "$listed" | grep '^Fuzz'); do
		echo "== $dir $target"
		{
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "./$dir" && echo ok >"$tmp/result" || echo failed >"$tmp/result"
		} 2>&1 | tee "$tmp/log"
		if [ "$(cat "$tmp/result")" != ok ] && ! ended; then
			echo "fuzz: $target in $dir found something; $ran targets before it found nothing" >&2
			exit 1
		fi
		ran=$((ran + 1))
	done
done
if [ "$ran" -eq 0 ]; then
	echo "fuzz: there is no fuzz target in this tree" >&2
	exit 1
fi
echo "fuzz: $ran targets ran for $FUZZTIME each and found nothing"
