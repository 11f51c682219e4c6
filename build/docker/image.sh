#!/bin/sh
# image.sh PROGRAM GUEST TAG: makes the images glovebox/glovebox:TAG and
# glovebox/guest:TAG of the two static programs, on the engine that the docker
# command uses. It asks no registry.
set -eu
program=$1 guest=$2 tag=$3
here=$(cd "$(dirname "$0")" && pwd)

busybox=
for path in /bin/busybox /usr/bin/busybox /usr/lib/initramfs-tools/bin/busybox; do
	if [ -x "$path" ] && ! ldd "$path" >/dev/null 2>&1; then # which knows dynamic ones alone
		busybox=$path
		break
	fi
done
[ -n "$busybox" ] || { echo "no static busybox on this machine; install the package busybox-static" >&2; exit 1; }

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
cp "$here/Dockerfile" "$tree/"
for image in glovebox guest; do
	mkdir -p "$tree/$image/bin" "$tree/$image/usr/local/bin" "$tree/$image/etc"
	mkdir -m 1777 "$tree/$image/tmp"
	cp "$busybox" "$tree/$image/bin/busybox"
	printf 'root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n' >"$tree/$image/etc/passwd"
	printf 'root:x:0:\nsandbox:x:1000:\n' >"$tree/$image/etc/group"
done
cp "$program" "$tree/glovebox/usr/local/bin/glovebox"
mkdir -m 700 "$tree/glovebox/root" "$tree/glovebox/data"
mkdir "$tree/glovebox/work"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then # for the models' servers
	mkdir -p "$tree/glovebox/etc/ssl/certs"
	cp /etc/ssl/certs/ca-certificates.crt "$tree/glovebox/etc/ssl/certs/"
fi
cp "$guest" "$tree/guest/usr/local/bin/glovebox-guest"
mkdir -p "$tree/guest-own/workspace" "$tree/guest-own/home/sandbox"
for applet in $("$busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$tree/guest/bin/$applet"
done
for image in glovebox guest; do
	docker build --quiet --target "$image" --tag "glovebox/$image:$tag" "$tree"
done
