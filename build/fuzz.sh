#!/bin/sh
# Runs every fuzz target of the tree, one after the other, for FUZZTIME each, and
# stops at the first finding. Go keeps the input of a finding in the package's
# testdata/fuzz; committed there, it is a test from then on.
#
#   FUZZTIME=5m build/fuzz.sh
set -eu
cd "$(dirname "$0")/.."

FUZZTIME=${FUZZTIME:-30s}
ran=0
# Only packages that have a target are compiled to be asked for their names.
for dir in $(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n 1 dirname | sort -u); do
	listed=$(go test -list '^Fuzz' "./$dir")
	for target in $(printf '%s\n' "$listed" | grep '^Fuzz'); do
		echo "== $dir $target"
		if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "./$dir"; then
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
