#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/raid.c and .py: every figure is there for a set of disks and for a directory, and what is collected has all of it; bench/raid.sh says
# what it does not take before it does anything.
. "$(dirname "$0")/lib.sh"

bench=$(dirname "$gpu4fs")/raid_bench
folder=$(realpath "$(dirname "$0")/../../bench")
small=(--size=2 "--calls=64,1024" "--files=1,2" --ops=16 --fsyncs=4)
figures="calls read 1048576|calls read 65536|calls write 1048576|calls write 65536|files 1 file 2097152|files 1 file 262144|files 1 file 32768"
figures+="|files 2 files 2097152|files 2 files 262144|files 2 files 32768|memory copy 0|small fsync p50 4096|small fsync p99 4096"
figures+="|small random read 4096|small random write 4096"

figures_of() { # of what was printed
	cut -f1-3 .out | tr '\t' ' ' | LC_ALL=C sort | paste -sd '|'
}

mkdir dir results results/{levels,stripes,sizes,guest}
exits 0 "a directory" "$bench" "${small[@]}" dir
equals "... has every figure" "$figures" "$(figures_of)"
equals "... with values above 0, and seconds" "" "$(awk -F '\t' '!($4 > 0 && $5 >= 0 && $6 >= 0)' .out)"
equals "... and nothing stays there" "" "$(ls -A dir)"
for peer in sizes/btrfs-5 guest/md-5; do
	cp .out results/$peer.1
done
awk '$1 == "calls"' .out >results/stripes/btrfs-5.1
exits 0 "a set to use" "$gpu4fs" mkfs -q --size 64M --raid 5 --stripe 64K --checksum none a b c d
exits 0 "a set" "$bench" "${small[@]}" a,b,c,d
equals "... has every figure" "$figures" "$(figures_of)"
for peer in sizes/gpu4fs-5 guest/gpu4fs-5; do
	cp .out results/$peer.1
done
awk '$1 == "calls"' .out >results/stripes/gpu4fs-5-64K.1
exits 0 "... is clean" "$gpu4fs" fsck -n a,b,c,d
exits 0 "one figure" "$bench" "${small[@]}" --parts=calls a,b,c,d
equals "... is alone" calls "$(cut -f1 .out | sort -u)"
exits 2 "no target" "$bench"
exits 2 "what is no list" "$bench" --calls=4,x dir
exits 1 "what is no device" "$bench" missing

for peer in gpu4fs-5 btrfs-5; do # what gpu4fs bench prints
	echo '{"results": [{"metric": "seq_write", "unit": "MB/s", "value": 200, "cpu_seconds": 1}]}' >results/levels/$peer.1
done
exits 0 "results" "$folder/raid.py" collect results size=2
cp .out all.json
equals "... have every part" "guest levels sizes stripes" "$(json_value '" ".join(sorted({r["part"] for r in d}))')"
exits 0 "tables" "$folder/raid.py" table all.json
says "... by stripe length" '^5 *64K .*([0-9.]*x)'
says "... with Btrfs's" '^5 *Btrfs '
says "... by the size of a call" '^5 *read .*([0-9.]*x)'
says "... of files written at once" '^5 *2 files .*([0-9.]*x)'
says "... of the virtual machine" '^5 *overwrite + fsync, p50 *us '
exits 2 "a part that it does not have" "$folder/raid.sh" --parts=levels,more
exits 2 "a level that it does not have" "$folder/raid.sh" --levels=7
exits 0 "help" "$folder/raid.sh" --help
says "... names the parts" 'levels,stripes,sizes,guest'
finish
