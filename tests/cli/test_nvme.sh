#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs nvme where there may be no drive: lists, and what is refused. With drives: tests/nvme.
. "$(dirname "$0")/lib.sh"

exits 0 "a list" "$gpu4fs" nvme list
is_json "... as JSON" "$gpu4fs" nvme list -j
for command in bind unbind id log; do
	exits 1 "$command of no drive" "$gpu4fs" nvme "$command" ffff:ff:1f.7
	one_sentence "... is refused in one sentence"
	exits 2 "$command without an address" "$gpu4fs" nvme "$command"
done
exits 2 "no test by accident" "$gpu4fs" nvme test ffff:ff:1f.7
says "... which is said" destructive
exits 1 "no test of no drive" "$gpu4fs" nvme test --destructive ffff:ff:1f.7
exits 2 "an unknown command" "$gpu4fs" nvme frobnicate
exits 2 "no command" "$gpu4fs" nvme
finish
