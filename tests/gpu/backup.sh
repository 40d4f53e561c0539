#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Backups that a GPU cuts and hashes are those of the processor: each engine finds every chunk that the other one has stored, with secret
# parameters and without, and what is restored is what was saved.
# usage: backup.sh SHREDDER [MiB of the large file]; exit status 77: there is no GPU that CUDA can use.
set -euo pipefail
shredder=$(realpath "$1")
mib=${2:-200}
work=$(mktemp -d "${TMPDIR:-/dev/shm}/gpu-backup.XXXXXX")
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state
passed=0

noise() { # noise BYTES SEED
	openssl enc -aes-128-ctr -K "$(printf %032x "$2")" -iv 0 -in /dev/zero 2>/dev/null | head -c "$1" || true
}
ok() {
	passed=$((passed + 1))
	echo "ok: $1"
}
fail() {
	echo "FAILED: $1" >&2
	exit 1
}
field() { # field NAME < JSON
	sed -E 's/.*"'"$1"'": ([0-9]+).*/\1/'
}
# save REPOSITORY ENGINE OPTION...: everything is read
save() {
	"$shredder" backup --json --force --engine="$2" -r "$1" "${@:3}" "$work/tree" 2>"$work/messages" ||
		fail "a backup by $2: $(cat "$work/messages")"
}
# A snapshot's entries with the names of their chunks, in two backups: what differs below the tree. Directories above it change.
differences() { # differences REPOSITORY OPTION...
	local ids
	mapfile -t ids < <("$shredder" snapshots --json -r "$@" | grep -oE '"id": "[0-9a-f]+"' | cut -d '"' -f 4)
	"$shredder" diff -r "$@" "${ids[0]}" "${ids[1]}" | grep -F "$work/tree" || true
}

mkdir "$work/tree" "$work/tree/small"
noise $((mib << 20)) 1 >"$work/tree/large"
{ head -c 30000000 /dev/zero && noise 3000000 2 && head -c 5000000 "$work/tree/large"; } >"$work/tree/mixed"
for i in $(seq 600); do
	head -c $((i * i * 37 % 90000 + i % 7)) "$work/tree/large" | tail -c $((i * 101 % 70000 + 1)) >"$work/tree/small/$i"
done
for i in $(seq 40); do
	noise $((i * 25000 + i)) "1$i" >"$work/tree/$i"
done
head -c 64 /dev/urandom >"$work/key"

for secret in "--key-file=$work/key" --no-encryption; do
	for engines in "cpu cuda" "cuda cpu"; do
		read -r first second <<<"$engines"
		repository=$work/repository
		"$shredder" init "$secret" -r "$repository" >/dev/null
		save "$repository" "$first" "$secret" >"$work/summary"
		save "$repository" "$second" "$secret" >"$work/summary-2"
		if grep -q "no GPU\|built without" "$work/messages"; then
			cat "$work/messages"
			exit 77
		fi
		[[ ! -s $work/messages ]] || fail "$second says: $(cat "$work/messages")"
		[[ $(field new_bytes <"$work/summary-2") -lt 100000 ]] || fail "$second made other chunks than $first: $(cat "$work/summary-2")"
		[[ -z $(differences "$repository" "$secret" | tee "$work/differences") ]] ||
			fail "$second made other chunks than $first: $(cat "$work/differences")"
		ok "$first, then $second, $secret: the same chunks"
		[[ $(cat "$work/summary" "$work/summary-2" | field gpu_bytes | sort -n | tail -n 1) -gt $((mib << 20)) ]] ||
			fail "the GPU did not do it"
		"$shredder" restore "$secret" -r "$repository" "latest:$work/tree" --target "$work/out" >/dev/null
		diff -r "$work/tree" "$work/out" || fail "what was restored is something else"
		"$shredder" check --read-data "$secret" -r "$repository" >/dev/null || fail "the repository is damaged"
		ok "restored and checked"
		rm -rf "$work/out" "$repository"
	done
done
echo "$passed passed, 0 failed"
