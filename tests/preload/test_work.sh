#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Work of some minutes through the library: git with the sources of this project, cmake and ninja building them, and what copies trees with all
# attributes.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs git tar python3 cmake ninja cc getfattr setfattr setfacl
source=$(realpath "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../..")

# all_of DIRECTORY: everything but times of directories, which tar and cp set last, and inode numbers
all_of() {
	(cd "$1" && find . -printf '%p %y %m %U %G %s %l %n %Ts\n' | sed 's/^\(.* d [0-7]* [0-9]* [0-9]*\) [0-9]* /\1 /' | sort &&
		find . -type f -print0 | sort -z | xargs -0 cat | cksum && getfattr -d -m - README.md)
}

make_image 8G
mount_shared
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=$work

# ---- git, cmake and ninja: this project
head=$(git -C "$source" rev-parse HEAD)
check "git clone" run git clone -q --no-local "$source" "$mnt/clone"
same "it is what was cloned" "$head" "$(run git -C "$mnt/clone" rev-parse HEAD)"
check "git gc" run git -C "$mnt/clone" gc -q --prune=now
check "git fsck" run git -C "$mnt/clone" fsck --strict --full
check "git fsck on the mount" git -C "$mnt/clone" fsck --strict --full
same "git status" "" "$(run git -C "$mnt/clone" status --short)"
same "git status on the mount" "" "$(git -C "$mnt/clone" status --short)"
check "cmake configures it" run cmake -S "$mnt/clone" -B "$mnt/clone/build" -G Ninja -D G4_TESTS=OFF
check "ninja builds it" run ninja -C "$mnt/clone/build" -j "$(($(nproc) + 2))" gpu4fs
check "which has no more to do" grep -q 'no work to do' <(run ninja -C "$mnt/clone/build" gpu4fs)
check "and on the mount neither" grep -q 'no work to do' <(ninja -C "$mnt/clone/build" gpu4fs)
version=$(run find "$mnt/clone/build" -name 'libgpu4fs.so.*' -type f | head -n 1)
same "what it built is a library" 0 "$(python3 -c "import ctypes, sys; print(int(not ctypes.CDLL(sys.argv[1])))" "$version"; )"

# ---- trees with all that a file has
tree=$work/tree
git -C "$source" archive --prefix=tree/ HEAD | tar -x -C "$work"
ln "$tree/README.md" "$tree/again"
ln -s nowhere "$tree/dangling"
mkfifo "$tree/pipe"
truncate -s 100M "$tree/sparse"
echo end >>"$tree/sparse"
setfattr -n user.word -v value "$tree/README.md"
setfacl -m u:12345:r "$tree/README.md"
chmod 1777 "$tree/docs"
wanted=$(all_of "$tree")
check "tar packs" run tar --acls --xattrs -cSf "$mnt/tree.tar" -C "$work" tree
check "tar unpacks" run sh -c "mkdir '$mnt/tar' && tar --acls --xattrs -xf '$mnt/tree.tar' -C '$mnt/tar'"
same "the same" "$wanted" "$(all_of "$mnt/tar/tree")"
check "cp -a" run cp -a "$tree" "$mnt/copied"
same "the same as well" "$wanted" "$(all_of "$mnt/copied")"
if command -v rsync >/dev/null; then
	check "rsync -aHAX" run rsync -aHAX --sparse "$tree/" "$mnt/rsynced/"
	same "the same, too" "$wanted" "$(all_of "$mnt/rsynced")"
	same "a second one has nothing to do" "" "$(run rsync -aHAXi --sparse "$tree/" "$mnt/rsynced/")"
else
	echo "skipped - rsync -aHAX: it is not installed"
fi
same "find sees what find on the mount sees" "$(cd "$mnt" && find . -type f | sort | cksum)" "$(cd "$mnt" && run find . -type f | sort | cksum)"
check "rm -rf" run rm -rf "$mnt/copied" "$mnt/tar" "$mnt/rsynced" "$mnt/clone" "$mnt/tree.tar"
same "leaves nothing" "" "$(ls -A "$mnt")"

unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
