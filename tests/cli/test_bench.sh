#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs bench: what it prints, and that nothing of it stays behind.
. "$(dirname "$0")/lib.sh"

small=(--size 1M --dirs 2 --files 70 --cached-reads 100 --random-ops 16 --fsyncs 3)
endless=(--size 1M --dirs 2 --files 70 --passes 1000000)
metrics="create stat rename lookup unlink batch_create batch_stat batch_unlink deep_mkdir deep_stat seq_write seq_read cached_read_4k rand_read_4k rand_write_4k fsync_p50 fsync_p99 small_write small_read"

names() { # names IMAGE: what is in its root directory
	"$gpu4fs" dump --json "$1" dir / | python3 -c 'import json, sys; print([e["name"] for e in json.load(sys.stdin)["entries"]])'
}

# until_text FILE: until a background command has written something there, or has ended
until_text() {
	while [ ! -s "$1" ] && kill -0 "$!" 2>/dev/null; do
		sleep 0.05
	done
}

# a directory
mkdir dir
exits 0 "a directory" "$gpu4fs" bench "${small[@]}" dir
equals "... prints every metric" "$metrics" "$(awk 'NR > 1 { print $1 }' .out | xargs)"
equals "... with a value above 0" "" "$(awk 'NR > 1 && !($3 > 0)' .out)"
equals "... and leaves nothing there" "" "$(ls -A dir)"
is_json "--json" "$gpu4fs" bench "${small[@]}" --json dir
equals "... has every metric" "$metrics" "$(json_value '" ".join(r["metric"] for r in d["results"])')"
equals "... says that nobody has looked at the device" "not looked at" "$(json_value 'd["device_before"]')"
equals "... as numbers" True "$(json_value 'all(r["value"] > 0 and r["cpu_seconds"] >= 0 for r in d["results"])')"
equals "... and the options" "dir 1048576 140" "$(json_value 'd["target"], d["file_bytes"], d["dirs"] * d["files"]' | tr -d "(),'")"

# an image
exits 0 "an image to use" "$gpu4fs" mkfs -q --size 64M -U 11111111-2222-3333-4444-555555555555 a.img
before=$(names a.img)
exits 0 "an image" "$gpu4fs" bench "${small[@]}" a.img
says "... says what it held before" "^metric .*zeros at [0-9]* of 64 places, "
equals "... prints every metric" "$metrics" "$(awk 'NR > 1 { print $1 }' .out | xargs)"
exits 0 "... is clean afterwards" "$gpu4fs" fsck -n a.img
says "... and unmounted" ': unmounted cleanly, 0 files'
equals "... with the same names in it" "$before" "$(names a.img)"
exits 0 "info" "$gpu4fs" info a.img
says "... it was not formatted" 11111111-2222-3333-4444-555555555555
exits 0 "memory" "$gpu4fs" bench "${small[@]}" mem:64M
equals "... prints every metric" "$metrics" "$(awk 'NR > 1 { print $1 }' .out | xargs)"
exits 0 "a small cache" "$gpu4fs" bench "${small[@]}" --cache 8M a.img

# refusals
exits 1 "too little space on an image" "$gpu4fs" bench --size 64M a.img
one_sentence "... is refused in one sentence"
says "... that tells how much there is" 'free, and the workload takes'
equals "... leaves nothing there" "$before" "$(names a.img)"
exits 1 "too little space on a disk" "$gpu4fs" bench --size 15T dir
says "... is told" 'free, and the workload takes'
equals "... leaves nothing there" "" "$(ls -A dir)"
truncate -s 64M empty.img
cp empty.img empty.copy
exits 1 "an image without a file system" "$gpu4fs" bench "${small[@]}" empty.img
one_sentence "... is refused in one sentence"
exits 0 "... and stays as it is" cmp empty.img empty.copy
exits 1 "what does not exist" "$gpu4fs" bench "${small[@]}" missing
one_sentence "... is refused in one sentence"
exits 0 "... and is not made" test ! -e missing
exits 1 "an image in use" flock --exclusive a.img "$gpu4fs" bench "${small[@]}" a.img
one_sentence "... is refused in one sentence"
exits 2 "no target" "$gpu4fs" bench
exits 2 "two targets" "$gpu4fs" bench dir a.img
exits 2 "no number" "$gpu4fs" bench --files 0 dir
exits 2 "half a MiB" "$gpu4fs" bench --size 512K dir
exits 2 "a cache for a directory" "$gpu4fs" bench --cache 8M dir
exits 2 "a server for an image" "$gpu4fs" bench --server file a.img
exits 2 "too many files" "$gpu4fs" bench --dirs 100000 --files 100000 dir

# failures in the middle
exits 1 "a remount that fails" "$gpu4fs" bench "${small[@]}" --remount false dir
says "... is told" "'false' failed"
equals "... leaves nothing there" "" "$(ls -A dir)"
echo 99999999 >nobody
exits 1 "a server that is gone" "$gpu4fs" bench "${small[@]}" --server nobody dir
says "... is told" 'the FUSE server'
equals "... leaves nothing there" "" "$(ls -A dir)"
exits 0 "a remount that does nothing" "$gpu4fs" bench "${small[@]}" --remount true dir

# signals: 128 and the number
for signal in INT:130 TERM:143 HUP:129; do
	: >text
	env --default-signal="${signal%:*}" "$gpu4fs" bench "${endless[@]}" dir >text 2>&1 &
	until_text text
	kill -s "${signal%:*}" $!
	wait $!
	equals "stopped by SIG${signal%:*} in a directory" "${signal#*:}" $?
	equals "... it leaves nothing there" "" "$(ls -A dir)"
	: >text
	env --default-signal="${signal%:*}" "$gpu4fs" bench "${endless[@]}" a.img >text 2>&1 &
	until_text text
	kill -s "${signal%:*}" $!
	wait $!
	equals "stopped by SIG${signal%:*} on an image" "${signal#*:}" $?
	exits 0 "... it leaves a clean one" "$gpu4fs" fsck -n a.img
	says "... that was unmounted" ': unmounted cleanly, 0 files'
	equals "... with the same names" "$before" "$(names a.img)"
done
"$gpu4fs" bench "${small[@]}" dir 2>.err | true
equals "a reader that goes away: nothing is left" "" "$(ls -A dir)"
finish
