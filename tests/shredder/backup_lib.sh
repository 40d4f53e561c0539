# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154,SC2034 # lib.sh sets gpu4fs to the program's path, status, and work
# What the tests of backups share; lib.sh of the command line is sourced before.
shredder=$gpu4fs
case $0 in /*) here=$(dirname "$0") ;; *) here=$(cd "$OLDPWD" && cd "$(dirname "$0")" && pwd) ;; esac
export XDG_STATE_HOME=$work/state
unset SHREDDER_PASSWORD SHREDDER_PASSWORD_FILE SHREDDER_PASSWORD_COMMAND
manifest() { # manifest DIRECTORY: everything about every entry
	python3 "$here/manifest.py" "$1"
}
same() { # same NAME WANTED FOUND: files
	diff "$2" "$3" >difference 2>&1
	equals "$1" "" "$(head -n 5 difference)"
}
turned_away() { # turned_away PORT PID: until that process has asked a server that is not there, or has ended
	python3 -c '
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(0.1)
while True:
    try:
        listener.accept()[0].close()
        break
    except TimeoutError:
        with open(f"/proc/{sys.argv[2]}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "Z":
                break
' "$1" "$2"
}
noise() { # noise BYTES SEED: bytes that do not compress and are always the same
	openssl enc -aes-128-ctr -K "$(printf %032x "$2")" -iv 0 -in /dev/zero 2>/dev/null | head -c "$1"
}
snapshot_ids() { # snapshot_ids OPTION...: the oldest first
	"$shredder" snapshots --json "$@" | python3 -c 'import json, sys; print(*[s["id"] for s in json.load(sys.stdin)])'
}
