#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server's process, a program through the library and a program on the mount work on the same names and the same file at the same time: all
# that they are told fits one order (linear.c). Once the mount's server asks the engine each time, and once it has a mirror.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
linear=$(dirname "$gpu4fs")/../tests/preload_linear
[[ -x $linear ]] || skip "$linear is not built"
shared=$work/shared

# rounds MIRROR: all of it on an image of its own
rounds() {
	rm -f "$image"
	make_image
	"$linear" prepare "$shared" || exit 1
	"$linear" serve "$shared" "$image" "$mnt" "socket=$socket,mirror=$1" 2>"$work/server" &
	server=$!
	until is_mounted; do
		kill -0 $server 2>/dev/null || break
		sleep 0.1
	done
	check "it is mounted" is_mounted
	sed 's/^/#   /' "$work/server"
	mkdir "$mnt/d0" "$mnt/d1"
	head -c 4096 /dev/zero >"$mnt/file"
	sync "$mnt/file"
	asked=$("$linear" count "$shared" "$mnt")
	run --trace "$linear" work "$shared" 1 "$mnt" 2>"$work/trace" &
	library=$!
	"$linear" work "$shared" 2 "$mnt" 2>"$work/errors" &
	mount=$!
	check "one order explains all answers" "$linear" judge "$shared" "$mnt" "$2"
	sed 's/^/#   /' "$work/out"
	check "the program through the library ends" wait $library
	check "and the one on the mount" wait $mount
	cat "$work/errors"
	for function in openat unlinkat mkdirat renameat2 fstatat pwrite pread; do
		check "the engine did $function" grep -q "^$function  *[1-9]" "$work/trace"
	done
	unmount_image
	check "the server ends" wait $server
	check "the image is clean" "$gpu4fs" fsck "$image"
}

rounds no 500
check "each of 1000 looks was a command ($asked)" test "$asked" -ge 1000
rounds yes 500
check "with a mirror next to none was ($asked)" test "$asked" -lt 20
finish
