#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What other programs learn about an image: udev's rules from info --udev, file(1) from the magic entry.
top=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/lib.sh"

uuid=01234567-89ab-cdef-0123-456789abcdef
exits 0 "an image with a label" "$gpu4fs" mkfs -q -L 'my "data"/ü' -U $uuid a.img 64M
exits 0 "info --udev" "$gpu4fs" info --udev a.img
equals "... is what udev imports" "ID_FS_TYPE=gpu4fs ID_FS_USAGE=filesystem ID_FS_VERSION=1 ID_FS_UUID=$uuid \
ID_FS_UUID_ENC=$uuid ID_FS_LABEL_ENC=my\\x20\\x22data\\x22\\x2fü ID_FS_LABEL=my_\"data\"/ü" "$(paste -sd ' ' .out)"
truncate -s 64M empty.img
exits 1 "... of what is no gpu4fs" "$gpu4fs" info --udev empty.img
equals "... says nothing" "0 0" "$(stat -c %s .out .err | paste -sd ' ')"
exits 0 "an image without a label" "$gpu4fs" mkfs -q b.img 64M
run "$gpu4fs" info --udev b.img
equals "... has no name for one" 5 "$(wc -l <.out)"
exits 2 "df has no --udev" "$gpu4fs" df --udev a.img
grep -q "bin/gpu4fs info --udev \$devnode" "$(dirname "$(dirname "$gpu4fs")")/61-gpu4fs.rules"
report $? "the rules call the program where it is installed"

if command -v file >/dev/null; then
	exits 0 "file knows an image" file -m "$top/cmake/gpu4fs.magic" a.img
	says "... its label and UUID" "gpu4fs file system version 1, label \"my .data.*UUID=$uuid, 67108864 bytes"
	exits 0 "file and what is none" file -m "$top/cmake/gpu4fs.magic" empty.img
	! grep -q gpu4fs <(sed 's/.*://' .out)
	report $? "... is not told to be one"
else
	echo "# skipped: file(1) is not installed"
fi
finish
