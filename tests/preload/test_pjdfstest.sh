#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pjdfstest (https://github.com/pjd/pjdfstest), through the mount and through the library. $PJDFSTEST is a checkout that is built: autoreconf
# -ifs && ./configure && make pjdfstest.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
[[ -n ${PJDFSTEST-} ]] || skip "\$PJDFSTEST names no checkout of pjdfstest"
[[ -x $PJDFSTEST/pjdfstest ]] || skip "$PJDFSTEST/pjdfstest is not built"
[[ $(id -u) -eq 0 ]] || skip "pjdfstest changes users: it is for root"
needs prove
suite=$(realpath "$PJDFSTEST")/tests

# judge NAME COMMAND...: all files of tests run in a directory of that name
judge() {
	local name=$1
	shift
	mkdir "$mnt/$name"
	(cd "$mnt/$name" && "$@" prove --quiet --recurse "$suite") >"$work/out" 2>"$work/errors"
	same "$name: all pass" "Result: PASS" "$(tail -n 1 "$work/out")"
	grep '^Files=' "$work/out" | sed "s/^/#   $name: /"
	grep -A 2 'Failed test' "$work/out" | sed 's/^/#   /'
}

make_image 2G
mount_shared allow_other
judge mount
judge library run --trace
# those of another user are the mount's
sed 's/^/#   /' "$work/errors"
# shellcheck disable=SC2016 # awk expands it
check "the engine has done some of it" awk '$1 == "stat" || $1 == "unlink" { sum += $2 } END { exit !sum }' "$work/errors"
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
