#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package (`make deb`): what Debian's policy asks of one, with dpkg-deb; and with lintian where it is installed.
. "$(dirname "$0")/lib.sh"

build=$(dirname "$(dirname "$gpu4fs")")
for program in cpack dpkg-deb dpkg-shlibdeps gzip; do
	command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
for file in CPackConfig.cmake lib/libgpu4fs.so bin/shredder; do
	[ -e "$build/$file" ] || { echo "skipped: $file is not built"; exit 77; }
done

# A package of a build with sanitizers would not be what is shipped.
if grep -qE '^G4_SANITIZE:[A-Z]+=.' "$build/CMakeCache.txt"; then
	echo "skipped: a build with sanitizers"
	exit 77
fi
exits 0 "a package is made" cpack --config "$build/CPackConfig.cmake" -B "$work"
package=$(find . -maxdepth 1 -name '*.deb')
exits 0 "it can be unpacked" dpkg-deb --raw-extract "$package" root
find root/usr/share/man -type f ! -name '*.gz' >.out
[ ! -s .out ] && [ -n "$(find root/usr/share/man -type f)" ]
report $? "every manual page is compressed"
for name in $(cd root && find usr/sbin usr/bin ! -type d -printf '%f\n'); do
	[ -n "$(find root/usr/share/man -name "$name.[18].gz")" ] && gzip --test root/usr/share/man/man?/"$name".?.gz
	report $? "$name has a page"
done
exits 0 "there is a changelog" gzip --decompress --stdout root/usr/share/doc/gpu4fs/changelog.gz
says "... in Debian's format" "^gpu4fs ([0-9.]*) [a-z]*; urgency="
grep -qE '^Maintainer: .+ <[^ @]+@[^ @]+>$' root/DEBIAN/control
report $? "the maintainer has an address"
grep -q '^activate.* ldconfig$' root/DEBIAN/triggers
report $? "the linker's cache is renewed"
if command -v lintian >/dev/null; then
	exits 0 "lintian finds no error" lintian --allow-root --fail-on error "$package"
fi
finish
