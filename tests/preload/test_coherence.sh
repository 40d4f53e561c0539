#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs through the library and programs on the mount work on the same files at the same time, and see each other's changes at once.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
program=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/coherence.py
rounds=40

make_image
mount_shared
mkdir "$mnt/d"
pids=()
for number in 1 2; do
	run python3 "$program" "$mnt/d" $number $rounds >"$work/claims.$number" 2>"$work/errors.$number" &
	pids+=($!)
	python3 "$program" "$mnt/d" $((number + 2)) $rounds >"$work/claims.$((number + 2))" 2>"$work/errors.$((number + 2))" &
	pids+=($!)
done
for i in "${!pids[@]}"; do
	check "process $i saw nothing old" wait "${pids[i]}"
done
cat "$work"/errors.*
same "no increment is lost" $((4 * rounds)) "$(cat "$mnt/d/counter")"
same "each name was made once" $rounds "$(cat "$work"/claims.* | awk '{sum += $1} END {print sum}')"
same "no line of the log is lost" $((4 * rounds)) "$(run sort -u "$mnt/d/log" | wc -l)"

# what one way removes, the other way's knowledge does not keep
head -c 50000000 /dev/zero >"$mnt/large"
free_of() {
	sync -f "$mnt"
	df --output=avail -B1 "$mnt" | tail -1
}
before=$(free_of)
cat "$mnt/large" >"$work/copy"
check "a file that the kernel knows is removed through the library" run rm "$mnt/large"
check "its space comes back" python3 - "$mnt" "$before" <<'PYTHON'
import os, sys
while True:  # the kernel lets go of the inode in its own time
    os.sync()
    st = os.statvfs(sys.argv[1])
    if st.f_bavail * st.f_frsize >= int(sys.argv[2]) + 49000000:
        break
PYTHON
check "a file is made and removed through the library alone" run sh -c "cat '$work/copy' >'$mnt/large' && rm '$mnt/large'"
check "its space comes back, too" python3 - "$mnt" "$before" <<'PYTHON'
import os, sys
while True:
    os.sync()
    st = os.statvfs(sys.argv[1])
    if st.f_bavail * st.f_frsize >= int(sys.argv[2]) + 49000000:
        break
PYTHON
exec 3>"$mnt/open"
echo kept >&3
check "a file that is open on the mount is removed through the library" run rm "$mnt/open"
same "it can still be read there" kept "$(cat "/proc/$$/fd/3")"
exec 3>&-
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
