#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/directories.c and .py: every figure is there for a device and for a directory, and what is collected has all of it.
. "$(dirname "$0")/lib.sh"

bench=$(dirname "$gpu4fs")/directories_bench
report_py=$(dirname "$0")/../../bench/directories.py
figures="base chain deep list make makers own wide"
small=(--levels=16 --names=8)

figures_of() { # figures_of: of what was printed, each once
	cut -f1 .out | sort -u | xargs
}

mkdir dir results
exits 0 "a directory" "$bench" "${small[@]}" dir
equals "... has every figure that needs no mount" "$figures" "$(figures_of)"
equals "... with values above 0" "" "$(awk -F '\t' '!($4 > 0)' .out)"
equals "... made in both ways" "create_directories mkdirat" "$(awk -F '\t' '$1 == "chain" { print $2 }' .out | sort -u | xargs)"
equals "... by 1, 2, 4 and 8 threads" "1 2 4 8" "$(awk -F '\t' '$1 == "makers" { print $3 }' .out | xargs)"
cp .out results/ext4.1
exits 0 "memory" "$bench" "${small[@]}" mem:64M
equals "... has every figure that needs no mount" "$figures" "$(figures_of)"
cp .out results/inprocess.1
exits 0 "an image to use" "$gpu4fs" mkfs -q --size 64M a.img
exits 0 "a tree of files" "$bench" --tree=2500 a.img
exits 0 "... can be walked" "$gpu4fs" find --image a.img -t f /tree
equals "... and has all of them" 2500 "$(wc -l <.out)"
exits 0 "... and is clean" "$gpu4fs" fsck -f -n a.img
exits 2 "no target" "$bench"
exits 1 "what is no device" "$bench" missing

for peer in inprocess ext4; do # what bench/directories.sh adds of trees
	printf 'tree\t%s\t2500\t0.5\n' find du export "cp -a" "rm -r" import >>results/$peer.1
done
exits 0 "results" python3 "$report_py" collect results names=8
cp .out all.json
equals "... have every line" "$(cat results/* | wc -l)" "$(python3 -c 'import json; print(sum(len(r["rounds"]) for r in json.load(open("all.json"))))')"
exits 0 "a table" python3 "$report_py" table all.json
says "... has the target" 'target at 16: 2.0x ext4: '
equals "... and each thing that is done with trees" "cp -a,du,export,find,import,rm -r" \
	"$(awk '/^A tree of files/ { on = 1; getline } on && /0.5.*0.5.*1.00/ { sub(/ +0.5.*/, ""); print }' .out | paste -sd,)"
finish
