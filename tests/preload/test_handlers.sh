#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a signal handler may call does not allocate from the program's heap (handlers.c).
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
handlers=$(dirname "$gpu4fs")/../tests/preload_handlers
[[ -x $handlers ]] || skip "$handlers is not built"

make_image
mount_shared
mkfifo "$work/go"
run --trace "$handlers" "$mnt" <"$work/go" >"$work/lines" 2>"$work/trace" &
child=$!
exec 9>"$work/go"
until grep -q '^now$' "$work/lines" || ! kill -0 "$child" 2>/dev/null; do sleep 0.1; done
mount -t tmpfs none "$mnt/inside" || skip "nothing can be mounted here"
echo go >&9
exec 9>&-
check "the program ends" wait "$child"
umount "$mnt/inside"
same "all calls ran" 46 "$(grep -c ' passed' "$work/lines")"
same "the engine opened" 1 "$(awk '$1 == "open" { print ($2 > 0) }' "$work/trace")"
same "what allocated" "" "$(grep allocated "$work/lines")"
same "the new mount was seen" "it was seen" "$(tail -n 1 "$work/lines")"
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
