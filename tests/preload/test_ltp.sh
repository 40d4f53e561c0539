#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Linux Test Project's file calls and calls for signals through the library (ltp.py). $LTP is a checkout that is built there: make autotools &&
# ./configure && make -C lib && make -C testcases/lib && make -C testcases/kernel/syscalls. $LTP_TESTS: some of its tests or folders, by name.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
[[ -n ${LTP-} ]] || skip "\$LTP names no checkout of the Linux Test Project"
[[ -e $LTP/lib/libltp.a ]] || skip "$LTP is not built"
[[ $(id -u) -eq 0 ]] || skip "LTP changes users: it is for root"
needs python3
ltp=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/ltp.py

make_image 2G
mount_shared allow_other
chmod 755 "$work"
mkdir -m 755 "$mnt/d" "$work/other"
# shellcheck disable=SC2086 # names
python3 "$ltp" "$(realpath "$LTP")" "$gpu4fs" "$socket" "$mnt" "$work/other" ${LTP_TESTS-} || failures=$((failures + 1))
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
