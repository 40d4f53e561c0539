#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of the interception library share: those of mounts, and a mount that serves a socket. `run COMMAND...` runs
# a command through the library.
# shellcheck source=tests/fuse/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../fuse/lib.sh" "$@"

[[ -e $(dirname "$gpu4fs")/../lib/libgpu4fs_preload.so ]] || skip "libgpu4fs_preload.so is not built"
on_gpu && skip "a mount with socket= needs the engine cpu"
socket=$work/socket

# mount_shared [OPTIONS]: the image at $mnt and at $socket.
mount_shared() {
	mount_image "socket=$socket${1:+,$1}"
}

run() {
	"$gpu4fs" run -m "$socket=$mnt" "$@"
}

# traced FUNCTION ANSWER COMMAND...: how often the function had this answer; the command's output is in $work/out.
traced() {
	local function=$1 answer=$2
	shift 2
	run --trace "$@" >"$work/out" 2>"$work/trace"
	awk -v f="$function" -v a="$answer" '
		$1 == "function" {
			n = split("engine outside leaves unsupported handed none", names, " ")
			for (i = 1; i <= n; i++) column[names[i]] = i + 1
		}
		$1 == f { found = $column[a] }
		END { print found + 0 }' "$work/trace"
}
