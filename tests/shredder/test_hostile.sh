#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that is an attacker: it learns no contents, names or hosts from what it gets, and whatever it answers, a client writes nothing outside of its
# target, gives nothing else for what was saved, takes no more memory than it may, and says so in a sentence.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck source=tests/shredder/backup_lib.sh
. "$(case $0 in /*) dirname "$0" ;; *) echo "$OLDPWD/$(dirname "$0")" ;; esac)/backup_lib.sh"
"$shredder" snapshots -r rest:http://127.0.0.1:1/ 2>&1 | grep -q 'built without libcurl' && {
	echo "# skipped: this shredder was built without libcurl"
	exit 77
}
head -c 64 /dev/urandom >key
export SHREDDER_KEY_FILE=$work/key no_proxy=127.0.0.1 HOME=$work/home
mkdir home
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
python3 "$here/rest_server.py" "$work/site" port 9>&- &
server=$!
until [ -s port ]; do kill -0 "$server" || exit 1; sleep 0.05; done
SHREDDER_REPOSITORY=rest:http://127.0.0.1:$(cat port)
export SHREDDER_REPOSITORY

# ---- what it learns
mkdir -p tree/folderSECRETname
for i in {1..40}; do echo "contentSECRETtext $i" >"tree/folderSECRETname/file$i"; done
{ yes contentSECRETtext | head -c 3000000; } >tree/large # long repeats, and what does not compress
noise 1000000 1 >tree/noise
ln -s targetSECRETlink tree/link
setfattr -n user.attributeSECRET -v valueSECRET tree/large 2>/dev/null
exits 0 "init" "$shredder" init
exits 0 "a backup" "$shredder" backup --host hostSECRET --tag tagSECRET tree
echo "contentSECRETtext more" >tree/more
exits 0 "another one" "$shredder" backup --host hostSECRET --tag tagSECRET tree
requests() { # what it was asked and sent, headers too
	cat site.requests
}
equals "no content, name, target, attribute, host or tag is in what it has" "" "$(grep -rla SECRET site)"
equals "... nor in what it was asked" "" "$(requests | grep -a SECRET)"
equals "... nor the tree's path" "" "$(grep -rlaF "$work/tree" site; requests | grep -aF "$work/tree")"
cat >pieces.py <<'END'
"""pieces.py FOLDER: pieces of 24 bytes of what does not compress, and the digests by which chunks could be recognised."""
import hashlib
import pathlib
import sys

held = b"".join(f.read_bytes() for f in pathlib.Path(sys.argv[1]).rglob("*") if f.is_file()) + pathlib.Path("site.requests").read_bytes()
noise = pathlib.Path("tree/noise").read_bytes()
print(sum(noise[at:at + 24] in held for at in range(0, len(noise) - 24, 977)))
for file in pathlib.Path("tree").rglob("*"):
    if file.is_file():
        digest = hashlib.sha256(file.read_bytes())
        print(int(digest.digest() in held or digest.hexdigest().encode() in held))
END
equals "... nor a piece of a file, nor its digest" "0" "$(python3 pieces.py site | sort -u)"
exits 0 "in a repository without encryption" "$shredder" init -r clear --no-encryption
exits 0 "... a backup" "$shredder" backup -r clear --no-encryption tree
[ "$(python3 pieces.py clear | sort -n | tail -n 1)" -gt 1000 ]
report $? "... the same look finds them"
rm -r clear
wanted=$(find tree -type f -exec sha256sum {} + | sort)

# ---- what it answers
before=$(find . -path ./out -prune -o -path ./state -prune -o -path './site*' -prune -o -name '.out' -prune -o -name '.err' -prune -o -printf '%p %s\n' | sort)
for fault in swap names huge redirect endless older nothing; do
	refused=0
	for kind in config keys locks snapshots index data; do
		echo "$fault:$kind" >site.faults
		rm -rf out
		(
			# KiB: a size that a server tells is not believed. AddressSanitizer reserves more
			grep -qa __asan_init "$shredder" || grep -qa __tsan_init "$shredder" || ulimit -v $((4 << 20))
			run timeout -k 5 100 "$shredder" restore "latest:$work/tree" --target out
			echo "$status" >.status
		)
		status=$(cat .status)
		refused=$((refused + (status != 0)))
		rm -f site.faults
		wrong=0
		while read -r file; do # what is there is what was saved, whole or not there
			[ "$status" -ne 0 ] || cmp -s "tree/${file#out/}" "$file" || wrong=1
			[ "$(stat -c %s "$file")" -eq 0 ] || [ -e "tree/${file#out/}" ] || wrong=1
		done < <(find out -type f 2>/dev/null)
		# nobody can tell that a newer snapshot never was (FORMAT.md, section 11): then it is an older one
		[ "$wrong" -eq 0 ] && [ "$status" -ne 124 ] && [ "$status" -lt 128 ] &&
			{ [ "$status" -ne 0 ] || diff -r --no-dereference tree out >/dev/null || [ "$fault" = older ]; } && ! grep -q 'Sanitizer\|runtime error' .err
		report $? "'$fault' of $kind: no wrong restore"
	done
	[ "$refused" -gt 0 ]
	report $? "... and $refused of 6 are refused"
done
after=$(find . -path ./out -prune -o -path ./state -prune -o -path './site*' -prune -o -name '.out' -prune -o -name '.err' -prune -o -name .status -prune -o -printf '%p %s\n' | sort)
equals "nothing outside of the target was written" "$before" "$after"
equals "... and the source is as it was" "$wanted" "$(find tree -type f -exec sha256sum {} + | sort)"
# ---- what it can make a client delete
mkdir -p beside/deep
echo mine | tee beside/file beside/deep/file >/dev/null
manifest beside >beside.list
for fault in swap:data names:index older:snapshots nothing:data; do
	rm -rf out
	mkdir -p out/folderSECRETname/more out/more
	ln -s "$work/beside" out/more/beside
	ln -s ../beside out/beside
	ln -s ../../beside/deep out/folderSECRETname/more/deep
	echo "$fault" >site.faults
	run timeout -k 5 100 "$shredder" restore "latest:$work/tree" --target out --delete
	rm -f site.faults
	[ "$status" -ne 124 ] && [ "$status" -lt 128 ] && ! grep -q 'Sanitizer\|runtime error' .err
	report $? "'$fault' while it deletes: $status"
	manifest beside >beside.after
	same "... nothing outside of the target goes" beside.list beside.after
done
rm -rf beside
equals "... nor in the source" "$wanted" "$(find tree -type f -exec sha256sum {} + | sort)"
rm -rf out
exits 0 "an honest answer" "$shredder" restore "latest:$work/tree" --target out
exits 0 "... is everything" diff -r --no-dereference tree out
finish
