#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu4fs nvme where there may be no drive: lists, and what is refused. With drives: tests/nvme.
. "$(dirname "$0")/lib.sh"

exits 0 "a list" "$gpu4fs" nvme list
is_json "... as JSON" "$gpu4fs" nvme list -j
equals "... which says why it is empty, if it is" True "$(json_value '(d["drives"] == []) == ("reason" in d)')"
for command in bind unbind id log; do
	exits 1 "$command of no drive" "$gpu4fs" nvme "$command" ffff:ff:1f.7
	one_sentence "... is refused in one sentence"
	exits 2 "$command without an address" "$gpu4fs" nvme "$command"
done
truncate -s 16M medium
exits 0 "what an emulated controller says of itself" "$gpu4fs" nvme id emu:medium
says "... its model" "model.*gpu4fs emulated controller"
says "... and the formats of its namespace" "formats.*2^9+0 best 2^12+0 best"
is_json "... as JSON" "$gpu4fs" nvme id -j emu:medium
equals "... with what commands are cut by" "1 0 []" \
	"$(json_value 'd["namespaces"][0]["atomic_blocks"], d["namespaces"][0]["format"], d["namespaces"][0]["not_gone_by"]')"
exits 0 "logs of an emulated controller" "$gpu4fs" nvme log emu:medium
says "... its health" "media errors  *0"
says "... and its firmware" "slot 1  revision 1"
is_json "... as JSON" "$gpu4fs" nvme log -j emu:medium
equals "... without an error" "[] 1 100" "$(json_value 'd["errors"], d["firmware_slot"], d["spare_percent"]')"
exits 1 "no format is changed" "$gpu4fs" nvme format 0000:03:00.0
one_sentence "... in one sentence"
says "... that names the tool" "'nvme format' of nvme-cli"
exits 2 "no test of an emulated drive by accident" "$gpu4fs" nvme test emu:medium
exits 0 "a test of an emulated drive" "$gpu4fs" nvme test --destructive emu:medium
says "... that was never written before" "emu:medium held zeros at 64 of 64 places, as if trimmed"
says "... and keeps what is written" "all as it was written"
says "... also by queues for a GPU" "by queues for a GPU: all as it was written"
exits 0 "a test of one that behaves as a drive" "$gpu4fs" nvme test --destructive --force emu:drive:medium
says "... by queues for a GPU as well" "by queues for a GPU: all as it was written"
head -c 16M /dev/zero | tr '\0' x >medium
exits 0 "... and another one" "$gpu4fs" nvme test --destructive emu:medium
says "... that was filled" "held zeros at 0 of 64 places, as if filled"
for name in emu: emu:nothing emu:emu:medium; do
	exits 1 "an emulated controller without a medium ($name)" "$gpu4fs" nvme id "$name"
	one_sentence "... is refused in one sentence"
done
exits 2 "no test by accident" "$gpu4fs" nvme test ffff:ff:1f.7
says "... which is said" destructive
exits 1 "no test of no drive" "$gpu4fs" nvme test --destructive ffff:ff:1f.7
exits 2 "an unknown command" "$gpu4fs" nvme frobnicate
exits 2 "no command" "$gpu4fs" nvme
says "... is asked for" "say what to do"
finish
