#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/nvme.py and the programs that it runs: every way and size is there, and tables and pictures come from what was written before.
. "$(dirname "$0")/lib.sh"

build=$(dirname "$(dirname "$gpu4fs")")
bench=$build/bin/nvme_bench
nvme_py=$(dirname "$0")/../../bench/nvme.py
small=(--build="$build" --mib=1 --seconds=0.001 --threads=3)

exits 0 "rows of chosen ways" "$bench" -j -i -s 0.001 -m 1 -w raw,pair,driver -b 512,8192,12288,1048576 -d 1,32 -o write
equals "... have all of them" 24 "$(grep -c '"op": "write"' .out)"
exits 1 "lanes with many requests" "$bench" -w lanes -d 32
exits 1 "a way of files without a file" "$bench" -w uring
exits 1 "a size that is too large" "$bench" -w raw -b 2097152
exits 0 "a table as ever" "$bench" -l -s 0.001 -m 1
equals "... has three ways" 3 "$(grep -cE '^(lanes|mapped|met) ' .out)"

exits 0 "figures" python3 "$nvme_py" "${small[@]}" --parts=memory,load --sizes=512,16384 --out=out
says "... by size" '^16 KiB '
says "... beside the document" 'at most raw queue 3.75, virtual queues 3.25 GiB/s'
says "... under load" '^lanes, mapper, 16 KiB, '
cat >rows.py <<'END'
import json
records = json.load(open("out/nvme.json"))
print(len(records), all(r["requests_s"] > 0 and r["ns"] == sorted(r["ns"]) for r in records))
box = [40, 50, 60, 70, 80, 90]
kinds = [{"figure": "cache", "level": level, "kind": kind, "ns": box, "of_kind": 1, "asked": 1} for level, kind in
         (("cache", "hit"), ("pread", "tier hit"), ("pwrite", "dirty"))]
json.dump(records + [records[0] | row for row in kinds], open("all.json", "w"))
END
exits 0 "... can be read" python3 rows.py
equals "... and are of each way, size, order and depth" "60 True" "$(cat .out)" # 2 x 2 x 2 x 2 x 3, and 2 x 2 x 3
exits 0 "a table of a file" python3 "$nvme_py" table all.json
says "... has kinds of hits" '^pread: tier hit  *0.04  *0.05  *0.06 '
says "... beside the document's" '^document, 8 192 lanes: dirty  *1,000'
exits 0 "pictures of it" python3 "$nvme_py" plot all.json pictures
if command -v gnuplot >/dev/null; then
	equals "... are there" "cache load-read load-write read-bandwidth read-latency read-requests write-bandwidth write-latency write-requests" \
		"$(cd pictures && find . -size +1k -name 'nvme-*.png' | sed 's|./nvme-||; s|.png||' | sort | xargs)"
fi

cat >queues.json <<'END'
[{"way": "check", "controllers": 1, "queues": 1, "lanes": 1, "lanes_per_warp": 1, "depth": 1, "op": "read", "bytes": 4096, "requests_s": 9, "wrong": 0, "ns": [0, 0, 0, 0, 0, 0, 0]},
{"way": "raw", "controllers": 1, "queues": 1, "lanes": 1, "lanes_per_warp": 1, "depth": 1, "op": "read", "bytes": 4096, "requests_s": 2000, "wrong": 0, "ns": [1, 2, 3, 4, 5, 6, 7]},
{"way": "lanes", "controllers": 1, "queues": 1, "lanes": 32, "lanes_per_warp": 1, "depth": 1, "op": "read", "bytes": 4096, "requests_s": 1048576, "wrong": 0, "ns": [1, 2, 3, 4, 5, 6, 7]},
{"way": "lanes", "controllers": 8, "queues": 64, "lanes": 8192, "lanes_per_warp": 32, "depth": 1, "op": "read", "bytes": 4096, "requests_s": 4000, "wrong": 0, "ns": [1000, 2000, 3000, 4000, 5000, 6000, 7000]}]
END
cat >acquire.json <<'END'
[{"metric": "cached pages, a lane alone, 256 warps", "unit": "M/s", "ours": 1000},
{"metric": "a cached page, a lane alone, 256 warps, p50", "unit": "us", "ours": 2.5},
{"metric": "a cached page, a lane alone, 256 warps, 25 %", "unit": "us", "ours": 2.25},
{"metric": "a cached page, a lane alone, 256 warps, 75 %", "unit": "us", "ours": 2.75},
{"metric": "a cached page, a lane alone, 256 warps, minimum", "unit": "us", "ours": 2},
{"metric": "a cached page, a lane alone, 256 warps, p99.9", "unit": "us", "ours": 3},
{"metric": "a cached page, a lane alone, 256 warps, maximum", "unit": "us", "ours": 4}]
END
exits 0 "a GPU's rows" python3 "$nvme_py" --gpu=queues.json,acquire.json --out=gpu
says "... of one lane" '^4 KiB  *0.00 (0.01)'
says "... of many under way" '^4 KiB  *4.00 (1,049)'
says "... of 8 192 lanes" '^lanes, 4 KiB, 4.00 thousand/s  *1.00  *2.00  *3.00  *4.00  *6.00  *7.00'
says "... of cached pages" '^a lane alone, 256 warps: hit  *2.00  *2.25  *2.50  *2.75  *3.00  *4.00'
finish
