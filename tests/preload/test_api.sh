#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The engine's tests of the public API, made of calls of the C library (api_calls.c): what passes through the mount passes through the library. Some
# fail on any mount, for the kernel is not the API: paths from "/" begin elsewhere, a read at the last offset is refused, and the like.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
programs=$(dirname "$gpu4fs")/../tests
[[ -x $programs/preload_api_files ]] || skip "$programs/preload_api_files is not built"

# endings FILE: how each test ended, one line each. A mount's times are those of the clock's last tick, so that tests of times may end either way, and
# that of generations, for which these calls have the time of birth.
endings() {
	sed -n 's/^\[ *\(OK\|FAILED\|SKIPPED\) *\] \([a-z_0-9]*\)$/\2 \1/p' "$1" | grep -v '_times\?_\|another_generation' | sort -u
}

make_image 256M
mount_shared
ran=0
for subject in dirs files meta xattr_acl; do
	mkdir "$mnt/mount" "$mnt/library"
	(cd "$work" && G4_API_DIRECTORY=$mnt/mount "$programs/preload_api_$subject") >"$work/mount.$subject" 2>&1
	(cd "$work" && G4_API_DIRECTORY=$mnt/library run "$programs/preload_api_$subject") >"$work/library.$subject" 2>&1
	endings "$work/mount.$subject" >"$work/wanted"
	endings "$work/library.$subject" >"$work/found"
	check "$subject: the same tests" diff <(cut -d ' ' -f 1 "$work/wanted") <(cut -d ' ' -f 1 "$work/found")
	same "$subject: what passes on the mount passes through the library" "" "$(comm -23 <(grep ' OK$' "$work/wanted") <(grep ' OK$' "$work/found"))"
	echo "#   $subject: $(awk '{ n[$2]++ } END { printf "%d pass, %d fail, %d are of what such calls do not have", n["OK"], n["FAILED"], n["SKIPPED"] }' "$work/found")"
	ran=$((ran + $(grep -c ' OK$' "$work/found")))
	grep ' FAILED$' "$work/found" | sed 's/^/#   /'
	comm -13 <(grep ' OK$' "$work/wanted") <(grep ' OK$' "$work/found") | sed 's/^/#   not on the mount: /'
	rm -rf "$mnt/mount" "$mnt/library"
done
check "most of them pass" test "$ran" -ge 60
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
