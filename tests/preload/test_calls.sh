#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Calls whose meaning crosses processes, descriptors and threads (calls.py), and what is about the numbers of descriptors (numbers.py),
# through the library and through the mount alone: both give the same.
# shellcheck source=tests/preload/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"
needs python3
programs=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export PYTHONDONTWRITEBYTECODE=yes

# subtests COMMAND...: its lines are ours
subtests() {
	"$@" >"$work/lines" 2>"$work/errors" || failures=$((failures + 1))
	cat "$work/lines"
	grep -q "^ok" "$work/lines" || not_ok "the program ran"
	sed 's/^/#   /' "$work/errors"
}

make_image
mount_shared
mkdir "$mnt/library" "$mnt/mount"
chmod 755 "$work"
for program in calls numbers; do
	subtests run python3 "$programs/$program.py" "$mnt/library"
	subtests python3 "$programs/$program.py" "$mnt/mount" | sed 's/^ok - /ok - without the library: /'
done
# a library is looked for where the program that loads it was told to at its linking
if command -v cc >/dev/null; then
	mkdir "$work/found"
	echo 'int found(void) { return 7; }' >"$work/found.c"
	cat >"$work/loads.c" <<-'END'
		#include <dlfcn.h>
		int main(void)
		{
			void *early = dlopen("libfound.so", RTLD_NOW | RTLD_NOLOAD), *found = dlopen("libfound.so", RTLD_NOW);
			void *again = dlopen("libfound.so", RTLD_NOW | RTLD_NOLOAD), *apart = dlmopen(LM_ID_NEWLM, "libfound.so", RTLD_NOW);

			return early || !found || !dlsym(found, "found") || again != found || !apart || apart == found || dlclose(apart);
		}
	END
	check "a library and a program that loads it" sh -c "cc -shared -fPIC -o '$work/found/libfound.so' '$work/found.c' &&
		cc -D_GNU_SOURCE -Wl,--enable-new-dtags,-rpath,'\$ORIGIN/found' -o '$work/loads' '$work/loads.c' -ldl"
	check "the program finds it" run "$work/loads"
fi
unmount_image
check "the image is clean" "$gpu4fs" fsck "$image"
finish
