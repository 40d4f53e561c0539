#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Help, version, and the names that the program answers to.
# Of cli/main.c.
. "$(dirname "$0")/lib.sh"

exits 2 "without a command it shows what there is" "$gpu4fs"
exits 0 "help" "$gpu4fs" help
commands=$(awk '/^  [a-z]+ / && $1 != "help" && $1 != "version" {print $1}' .out | xargs)
equals "all commands are listed" "mkfs mount umount serve run fsck info df attr cp rm du find import export dedup restripe scrub status disk resize tune nvme map dump trace bench" "$commands"
exits 0 "--help" "$gpu4fs" --help
exits 0 "version" "$gpu4fs" version
says "version has a number" '^gpu4fs [0-9]'
for command in $commands; do
	exits 0 "$command --help" "$gpu4fs" "$command" --help
	says "$command --help starts with its usage" "^usage: gpu4fs $command "
	says "$command --help names itself" '\-\-help'
	exits 0 "help $command" "$gpu4fs" help "$command"
done
exits 2 "an unknown command" "$gpu4fs" frobnicate
one_sentence "... is refused in one sentence"
says "... by its name" frobnicate
exits 2 "help for an unknown command" "$gpu4fs" help frobnicate

for name in mkfs fsck mount; do
	ln -s "$gpu4fs" "$name.gpu4fs"
	exits 0 "$name.gpu4fs is gpu4fs $name" "./$name.gpu4fs" --help
	says "... and says so" "^usage: gpu4fs $name "
done
for type in fuse fuseblk; do
	for name in mount fsck; do
		ln -s "$gpu4fs" "$name.$type.gpu4fs"
		exits 0 "$name.$type.gpu4fs is gpu4fs $name" "./$name.$type.gpu4fs" --help
		says "... and says so" "^usage: gpu4fs $name "
	done
done
exits 0 "help --help shows the overview" "$gpu4fs" help --help
finish
