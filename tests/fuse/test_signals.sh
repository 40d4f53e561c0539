#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM and SIGINT end a mount as umount does; SIGHUP does not end a daemon; errors reach the caller.
# shellcheck disable=SC2119,SC2317 # arguments are optional; functions are called through check
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3

make_image

for signal in TERM INT; do
	mount_image
	echo "written before SIG$signal" >"$mnt/$signal"
	pid=$(server_pid)
	kill -"$signal" "$pid"
	check "SIG$signal ends the server" wait_pid "$pid"
	check_not "SIG$signal unmounts" is_mounted
	fsck_image "fsck finds nothing after SIG$signal"
done

mount_image
same "data written before SIGTERM is there" "written before SIGTERM" "$(cat "$mnt/TERM" 2>/dev/null)"
same "data written before SIGINT is there" "written before SIGINT" "$(cat "$mnt/INT" 2>/dev/null)"
pid=$(server_pid)
kill -HUP "$pid"
sleep 0.5
check "SIGHUP does not end a daemon" test -e "$mnt/TERM"

# Data that only the kernel has, in a file that stays open.
cat >"$work/hold.py" <<'PYTHON'
import sys, time
f = open(sys.argv[1], "wb", buffering=0)
f.write(b"x" * 3000000)
print("ready", flush=True)
time.sleep(3600)
PYTHON
coproc holder { exec python3 "$work/hold.py" "$mnt/open"; }
# shellcheck disable=SC2154 # coproc sets it
holder_process=$holder_PID
read -r _ <&"${holder[0]}"
kill -TERM "$pid"
check "SIGTERM ends a mount in use" wait_pid "$pid"
kill "$holder_process" 2>/dev/null
wait "$holder_process" 2>/dev/null
check_not "a mount in use is taken away" is_mounted
fsck_image
mount_image
same "pages of an open file were written back" 3000000 "$(tr -cd x <"$mnt/open" | wc -c)"
exec 8<"$mnt/open"
refuses "umount of a mount in use says so" "in use" "$gpu4fs" umount "$mnt"
exec 8<&-
unmount_image

"$gpu4fs" mount -f "$image" "$mnt" &
foreground=$!
deadline=$((SECONDS + 600))
until is_mounted || ((SECONDS > deadline)); do sleep 0.1; done
check "-f stays in the foreground" kill -0 "$foreground"
kill -TERM "$foreground"
wait "$foreground"
same "and gives the status of the unmount" 0 $?

refuses "a missing image is named" "no-such-image" "$gpu4fs" mount "$work/no-such-image" "$mnt"
refuses "a missing directory is named" "no-such-dir" "$gpu4fs" mount "$image" "$work/no-such-dir"
refuses "an unknown option is named" "'frobnicate'" "$gpu4fs" mount -o ro,frobnicate "$image" "$mnt"
refuses "a wrong value is named" "'cache=much'" "$gpu4fs" mount -o cache=much "$image" "$mnt"
check_not "nothing is left mounted" is_mounted
finish
