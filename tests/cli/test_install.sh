#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is installed works from there, and make uninstall leaves nothing of it.
top=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/lib.sh"

build=$(dirname "$(dirname "$gpu4fs")")
for program in cmake make; do
	command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }
done
for file in lib/libgpu4fs.so bin/shredder; do
	[ -e "$build/$file" ] || { echo "skipped: $file is not built"; exit 77; }
done

files() { # files FOLDER: its files and links, as names from its root
	(cd "$1" && find . ! -type d | sed 's/^\.//' | sort)
}

exits 0 "install" env DESTDIR="$work/root" cmake --install "$build"
mv "$build/install_manifest.txt" installed
equals "the list of files has all of them" "$(files root)" "$(sort installed)"
prefix=$work/root$(sed -n 's,/bin/gpu4fs$,,p' installed)
exits 0 "the installed program" "$prefix/bin/gpu4fs" mkfs -q --size 64M a.img
exits 0 "... as mkfs.gpu4fs, which is on everybody's path" "$prefix/bin/mkfs.gpu4fs" -q --size 64M b.img
exits 0 "... as fsck.gpu4fs" "$prefix/sbin/fsck.gpu4fs" a.img
grep -q "Apache-2.0" "$prefix/share/doc/gpu4fs/copyright"
report $? "the licence is there"
for helper in mkfs fsck mount mount.fuse fsck.fuse; do
	[ -L "$work/root/usr/sbin/$helper.gpu4fs" ]
	report $? "mount(8) and fsck(8) find $helper"
done
units=$prefix/lib/systemd/system
equals "units for systemd name the installed program" "${prefix#"$work/root"}/bin/shredder" \
	"$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$units"/shredder-*.service | sort -u)"
for timer in "$units"/shredder-*.timer; do
	[ -e "${timer%.timer}.service" ]
	report $? "$(basename "$timer") has a service"
done
if command -v systemd-analyze >/dev/null; then
	mkdir units
	for unit in "$units"/shredder-*; do # where it is installed in a folder of its own
		sed "s,^ExecStart=,&$work/root," "$unit" >"units/${unit##*/}"
	done
	exits 0 "systemd takes them" systemd-analyze verify --man=no units/*
	equals "... without a word" "" "$(cat .out .err)"
fi

touch "$prefix/bin/other" "$prefix/include/gpu4fs/other.h"
exits 0 "uninstall" make -C "$top" uninstall DESTDIR="$work/root" INSTALLED="$work/installed"
equals "only what is not ours stays" "$prefix/bin/other $prefix/include/gpu4fs/other.h" \
	"$(find "$work/root" ! -type d | sort | paste -sd ' ')"
equals "... in folders that are not ours alone" "$prefix/include/gpu4fs" \
	"$(find "$work/root" -name '*gpu4fs*' -o -name '*shredder*')"
exits 2 "uninstall once more" make -C "$top" uninstall DESTDIR="$work/root" INSTALLED="$work/installed"
says "... finds nothing" 'nothing was installed'
finish
