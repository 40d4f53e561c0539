#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# File systems of several devices on the command line: made, looked at, checked; what is wrong with the devices is told in a sentence.
# Of cli/cmd_status.c and cli/layout.c.
. "$(dirname "$0")/lib.sh"

value() { # value EXPRESSION DEVICE...: of info, bound to d
	local expression=$1
	shift
	"$gpu4fs" info --json "$@" | python3 -c "import json, sys; d = json.load(sys.stdin); print($expression)"
}

exits 0 "two copies" "$gpu4fs" mkfs -q --raid 1 a b 32M
equals "... are on two disks of the size that was asked for" "33554432 33554432" "$(stat -c %s a b | xargs)"
exits 0 "... and a check finds nothing" "$gpu4fs" fsck a b
equals "info knows them in any order" "2 a b" "$(value "d['copies'], *(x['device'] for x in d['disks'])" b a)"
exits 0 "a name may stand for several" "$gpu4fs" fsck b,a
cp a old
exits 0 "one alone can be looked at" "$gpu4fs" info a
says "... and the other is missing" "missing"
exits 0 "... and be checked" "$gpu4fs" fsck b
exits 8 "... but not be repaired" "$gpu4fs" fsck -y b
says "... for a device is missing, by its UUID" "$(value "d['disks'][0]['uuid']" a b)"
one_sentence "... in one sentence"
exits 0 "with both it can" "$gpu4fs" fsck -y a b
exits 0 "a label" "$gpu4fs" tune -L both a b
equals "... is on each" "both both" "$(value "d['label']" a) $(value "d['label']" b)"
exits 1 "a size can not be changed" "$gpu4fs" resize a,b 40M
one_sentence "... is told in one sentence"
exits 0 "df knows how much fits" "$gpu4fs" df a,b

truncate -s 20M c
truncate -s 50M d
truncate -s 33000000 e
exits 0 "striped over different sizes" "$gpu4fs" mkfs -q --raid 0 --stripe 64K c d e
exits 0 "... and a check finds nothing" "$gpu4fs" fsck e c d
[ "$(value "d['size_bytes']" c d e)" -gt 90000000 ]
report $? "... with nearly all of them"
exits 0 "it is used to its end" "$gpu4fs" bench --size 60M --files 10 --dirs 1 --random-ops 10 --fsyncs 1 --cached-reads 10 c,d,e
exits 0 "... and a check finds nothing" "$gpu4fs" fsck c d e
sums=$(sha256sum a b c d e old)

exits 8 "one that is missing" "$gpu4fs" fsck c d
says "... is named by its UUID" "$(value "d['disks'][2]['uuid']" c d e)"
one_sentence "... in one sentence"
exits 8 "one that is named twice" "$gpu4fs" fsck c c d
one_sentence "... is told in one sentence"
ln -s c link
exits 8 "... or under another name" "$gpu4fs" fsck c link d
one_sentence "... is told in one sentence"
exits 8 "... or copied" "$gpu4fs" fsck a old
says "... is told" "same disk"
exits 8 "disks of two file systems" "$gpu4fs" fsck a c
says "... are told" "different file systems"
one_sentence "... in one sentence"
exits 0 "one of its own" "$gpu4fs" mkfs -q single 32M
exits 8 "... needs no other" "$gpu4fs" fsck single a
one_sentence "... is told in one sentence"
truncate -s 30M f g h
exits 0 "striped over two" "$gpu4fs" mkfs -q --raid 0 f g
before=$(value "d['size_bytes']" f g)
exits 2 "a new disk is needed" "$gpu4fs" disk add f
exits 1 "a disk of the file system is no new one" "$gpu4fs" disk add -f f g f
one_sentence "... in one sentence"
exits 1 "nor is what holds another one" "$gpu4fs" disk add f g a
says "... without force" "--force"
truncate -s 4M small
exits 1 "one that is too small" "$gpu4fs" disk add f g small
says "... is told" "too small"
one_sentence "... in one sentence"
exits 1 "a missing disk" "$gpu4fs" disk add f h
one_sentence "... is told in one sentence"
exits 0 "nothing was changed" "$gpu4fs" fsck f g
equals "... not the size" "$before" "$(value "d['size_bytes']" f g)"
exits 0 "a third" "$gpu4fs" disk add f g h
says "... is a disk of it" "is a disk of the file system; it has"
[ "$(value "d['size_bytes']" f g h)" -gt $((before + 25000000)) ]
report $? "... and all of it is used"
exits 0 "... a check finds nothing" "$gpu4fs" fsck h f g
exits 8 "... and it is needed" "$gpu4fs" fsck f g
exits 0 "it is used to its end" "$gpu4fs" bench --size 60M --files 10 --dirs 1 --random-ops 10 --fsyncs 1 --cached-reads 10 f,g,h
exits 0 "... and a check finds nothing" "$gpu4fs" fsck f g h
mkdir full && head -c 70M /dev/urandom >full/file
exits 0 "it is filled" "$gpu4fs" import --image f,g,h full /full
exits 1 "what lies on it" "$gpu4fs" disk remove f g h
says "... finds no room" "no room for what lies on it"
one_sentence "... and told in one sentence"
exits 0 "nothing was changed" "$gpu4fs" fsck --data f g h
truncate -s 40M ma mb mc md me
exits 0 "two copies on four disks" "$gpu4fs" mkfs -q --raid 1 --checksum xxh3 ma mb mc md
mkdir -p kept && head -c 9M /dev/urandom >kept/file && ln -s file kept/link
exits 0 "... with files" "$gpu4fs" import --image ma,mb,mc,md kept /kept
before=$(value "d['size_bytes']" ma mb mc md)
exits 0 "... and a spare" "$gpu4fs" disk add --spare ma mb mc md me
exits 0 "any of them goes" "$gpu4fs" disk remove mb mc md ma
says "... and is told to be gone" "is no disk of the file system any more"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data mb mc md
exits 0 "... whatever their order" "$gpu4fs" fsck --data md mb mc
exits 8 "... and it is none of them" "$gpu4fs" fsck ma mb mc md
exits 0 "... all files are there" "$gpu4fs" export --image mb,mc,md /kept back
cmp kept/file back/file && [ "$(readlink back/link)" = file ]
report $? "... with what they had"
exits 0 "what lies where can be seen" "$gpu4fs" status --layout mb mc md
says "... of each disk" '^  disk 2  layout -[-1.]\{63\}$'
is_json "... and read" "$gpu4fs" status --layout --json mb mc md
equals "... places are on all, and do not overlap" "3 True True" "$(json_value '(len(d["layout"]),
	all(len(x["places"]) > 0 for x in d["layout"]),
	all(a["disk_address"] + a["size_bytes"] <= b["disk_address"] for x in d["layout"]
		for a, b in zip(x["places"], x["places"][1:])))' | tr -d '(),')"
equals "... what is gone is not of a level" "$before" "$(json_value 'd["gone_bytes"] + sum(x["size_bytes"] for x in d["levels"])')"
exits 1 "one that is none" "$gpu4fs" disk remove mb mc md ma
one_sentence "... is told in one sentence"
exits 0 "the next one goes, too" "$gpu4fs" disk remove mc md mb
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data mc md
exits 0 "the spare is theirs still, though they have other numbers" "$gpu4fs" status mc md me
exits 1 "two stay" "$gpu4fs" disk remove mc md
exits 0 "all comes back" "$gpu4fs" disk add mc md ma
says "... and it is told what there is now" "keeps its size\|it has [0-9.]* MiB now"
exits 0 "... and a check finds nothing" "$gpu4fs" fsck --data mc md ma
truncate -s 96M q1 q2 q3
exits 0 "two copies on two disks" "$gpu4fs" mkfs -q --raid 1 --checksum xxh3 q1 q2
exits 0 "... with files" "$gpu4fs" import --image q1,q2 full /full
exits 0 "... and a third one" "$gpu4fs" disk add q1 q2 q3
says "... gives no room by itself" "it keeps its size"
before=$(value "d['size_bytes']" q1 q2 q3)
exits 1 "... nor do all of them" "$gpu4fs" disk assign --raid 1 q1 q2 q3
exits 0 "it is spread over them" "$gpu4fs" disk rebalance q3 q1 q2
says "... and told how much was moved" "MiB were moved"
says "... and what to do with the rest" "gpu4fs disk assign"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data q1 q2 q3
exits 0 "... once" "$gpu4fs" disk rebalance q1 q2 q3
says "... for it is spread then" "^nothing that lies on the disks can be moved"
exits 0 "now it has more room" "$gpu4fs" disk assign --raid 1 q1 q2 q3
[ "$(value "d['size_bytes']" q1 q2 q3)" -gt $((before + 30000000)) ]
report $? "... half of what the new disk has"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data q1 q2 q3
exits 0 "... all files are there" "$gpu4fs" export --image q1,q2,q3 /full spread
cmp full/file spread/file
report $? "... with what they had"
exits 2 "one disk is none of several" "$gpu4fs" disk rebalance q1
exits 1 "a disk that is missing" "$gpu4fs" disk rebalance q1 q2
one_sentence "... is told in one sentence"
truncate -s 30M i j k l
exits 0 "two copies" "$gpu4fs" mkfs -q --raid 1 i j
before=$(value "d['size_bytes']" i j)
exits 0 "a third disk" "$gpu4fs" disk add i j k
says "... gives no room by itself" "it keeps its size"
exits 0 "... a fourth does" "$gpu4fs" disk add i j k l
says "... with it" "it has"
[ "$(value "d['size_bytes']" i j k l)" -gt $((before + 25000000)) ]
report $? "... all of it"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data i j k l
exits 0 "... without the first and a new one" "$gpu4fs" info j l
exits 0 "the last one goes again" "$gpu4fs" disk remove i j k l
says "... and is none of it" "no disk of the file system any more"
equals "... nor is the room that it gave" "$before" "$(value "d['size_bytes']" i j k)"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data i j k
exits 8 "... and does not know it" "$gpu4fs" fsck i j k l
exits 0 "it can come back" "$gpu4fs" disk add i j k l
exits 0 "... and go" "$gpu4fs" disk remove i j k l
exits 0 "... and the one before, too" "$gpu4fs" disk remove i j k
exits 1 "two stay" "$gpu4fs" disk remove i j
one_sentence "... is told in one sentence"
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data i j
exits 0 "both come back" "$gpu4fs" disk add i j k
exits 0 "... for what follows" "$gpu4fs" disk add i j k l
exits 1 "one device of its own" "$gpu4fs" disk add single f -f
says "... stays alone" "made for one disk"
truncate -s 40M m n o
exits 2 "all of the disks can not be left" "$gpu4fs" mkfs -q --raid 1 --unassigned 100 m n o
exits 2 "nor of one device" "$gpu4fs" mkfs -q --unassigned 10% m
exits 0 "some can" "$gpu4fs" mkfs -q --raid 1 --unassigned 60% m n o
[ "$("$gpu4fs" status --json m n o | python3 -c "import json, sys; print(json.load(sys.stdin)['unassigned_bytes'])")" -gt 50000000 ]
report $? "... and status tells"
exits 1 "no file can be of a level that there is not" "$gpu4fs" attr set --image m,n,o raid=5 /
says "... is told" "disk assign"
one_sentence "... in one sentence"
exits 2 "a level is needed" "$gpu4fs" disk assign m n o
exits 2 "... that there is" "$gpu4fs" disk assign --raid 7 m n o
exits 1 "one that bears less" "$gpu4fs" disk assign --raid 0 m n o
says "... is refused" "bears the loss"
one_sentence "... in one sentence"
exits 1 "one that bears more" "$gpu4fs" disk assign --raid 6 m n o
one_sentence "... is refused in one sentence"
truncate -s 40M two1 two2
exits 0 "a set of two disks with room for another level" "$gpu4fs" mkfs -q --raid 1 --unassigned 60% two1 two2
exits 1 "... has too few for parity" "$gpu4fs" disk assign --raid 5 two1 two2
says "... and that is what is told" "needs at least 3 devices; there are 2"
one_sentence "... in one sentence"
exits 1 "as mkfs does" "$gpu4fs" mkfs -q -f --raid 5 two1 two2
says "... with the same words" "needs at least 3 devices; there are 2"
exits 0 "another one" "$gpu4fs" disk assign --raid 5 --size 20M m n o
exits 0 "... and more of it" "$gpu4fs" disk assign --raid 5 m n o
exits 1 "... until there is none" "$gpu4fs" disk assign --raid 5 m n o
one_sentence "... is told in one sentence"
equals "status has both" "1 5" "$("$gpu4fs" status --json m n o | python3 -c "import json, sys
print(*(x['level'] for x in json.load(sys.stdin)['levels']))")"
exits 0 "a directory may be of it now" "$gpu4fs" attr set --image m,n,o raid=5 /
exits 0 "... which get shows" "$gpu4fs" attr get --image m,n,o /
says "... by its name" "raid.*5"
exits 1 "what is no level" "$gpu4fs" attr set --image m,n,o raid=7 /
one_sentence "... is refused in one sentence"
mkdir data && cp "$gpu4fs" data
exits 0 "files go there" "$gpu4fs" import --image m,n,o data /new
exits 0 "... a check finds nothing" "$gpu4fs" fsck --data m n o
exits 0 "... nor without a disk" "$gpu4fs" fsck --data m o
rm -r f g h i j k l m n o small data full
exits 8 "what is none" "$gpu4fs" fsck a /dev/null
one_sentence "... is told in one sentence"
cp e short
truncate -s 20M short
exits 8 "a disk that is smaller than before" "$gpu4fs" fsck c d short
says "... is told" "smaller than before"
one_sentence "... in one sentence"
equals "nothing of that changed anything" "$sums" "$(sha256sum a b c d e old)"

# a disk that missed writes, and a new one
exits 0 "two more" "$gpu4fs" mkfs -q --raid 1 p q 32M
mv q away
exits 1 "a new disk is needed" "$gpu4fs" disk replace p q
one_sentence "... is told in one sentence"
truncate -s 20M small
exits 1 "one that is too small" "$gpu4fs" disk replace p small
one_sentence "... is told in one sentence"
truncate -s 32M q
exits 0 "a new one takes the place of what is missing" "$gpu4fs" disk replace p q
equals "... which is said once" 1 "$(cat .out .err | grep -c "is up to date")"
exits 0 "... and a check finds nothing" "$gpu4fs" fsck q p
exits 0 "large ones with nearly nothing on them" "$gpu4fs" mkfs -q --raid 1 big1 big2 400M
rm big2
truncate -s 400M big2
exits 0 "... are replaced" "$gpu4fs" disk replace big1 big2
[ "$(du -k big2 | cut -f1)" -lt 100000 ]
report $? "... by copying what is in use"
exits 0 "... and a check finds nothing" "$gpu4fs" fsck --data big1 big2
rm big1 big2
exits 8 "the old one" "$gpu4fs" fsck p away
says "... was replaced" "replaced"
exits 1 "nothing is stale" "$gpu4fs" disk rebuild p q
one_sentence "... is told in one sentence"
exits 1 "nothing is missing" "$gpu4fs" disk replace p q small
one_sentence "... is told in one sentence"
exits 1 "what holds something" "$gpu4fs" disk replace p away
says "... needs --force" "--force"
cp p alone
exits 1 "a label with a disk missing" "$gpu4fs" tune -L x alone
one_sentence "... is refused in one sentence"
exits 0 "... but when that was said" "$gpu4fs" tune --degraded -L x alone
exits 8 "... and makes the other one stale" "$gpu4fs" fsck alone q
says "... which is told" "stale"
cp p alone
exits 1 "a scrub with a disk missing" "$gpu4fs" scrub start alone
exits 0 "... but when that was said" "$gpu4fs" scrub start --degraded alone
cp p alone
exits 8 "a repair with a disk missing" "$gpu4fs" fsck -y alone
exits 0 "... but when that was said" "$gpu4fs" fsck -y --degraded alone

# a copy of everything is damaged, but for superblocks and chunks; by several threads and by one
exits 0 "two good copies" "$gpu4fs" mkfs -q --raid 1 r s 32M
python3 - <<-'END'
	with open("s", "r+b") as disk:
	    data = bytearray(disk.read())
	    for at in range(1 << 20, len(data) - 4096, 4096):
	        data[at + 100] ^= 16
	    disk.seek(0)
	    disk.write(data)
END
exits 4 "one that is damaged throughout is told" "$gpu4fs" fsck -j 8 r s
says "... as a copy" "another one is whole"
equals "... as often by one thread" "$("$gpu4fs" fsck -j 8 r s)" "$("$gpu4fs" fsck -j 1 r s)"
exits 1 "... and repaired from the other" "$gpu4fs" fsck -y -j 8 r s
says "... without loss" "0 doubtful, 0 lost"
exits 0 "... for good" "$gpu4fs" fsck r s
exits 0 "... so that it stands by itself" "$gpu4fs" fsck s

# the state of a set; what is wrong with a disk is told, not refused
state() { # state EXPRESSION DEVICE...: of status, bound to d
	local expression=$1
	shift
	"$gpu4fs" status --json "$@" | python3 -c "import json, sys; d = json.load(sys.stdin); print($expression)"
}
exits 0 "a set that is whole" "$gpu4fs" status s r
equals "... is told" "whole 2 ['active', 'active']" "$(state "d['state'], d['copies'], [x['state'] for x in d['disks']]" s,r)"
equals "... with what was mended" True "$(state "d['disks'][1]['mended_pages'] >= 0 and d['disks'][1]['device'] == 's'" s r)"
exits 0 "two copies" "$gpu4fs" mkfs -q --raid 1 --size 32M mend-1 mend-2
head -c 4M /dev/zero | tr '\0' x >mend.data
exits 0 "... of a file" "$gpu4fs" import --image mend-1,mend-2 mend.data /
dd if=/dev/zero of=mend-2 bs=1M seek=2 count=28 conv=notrunc status=none
exits 0 "... of which one is gone in part are mended" "$gpu4fs" scrub start --json mend-1,mend-2
equals "... which is told" True "$(json_value 'd["mended_pages_since_mount"] >= 1000 and d["scrub"]["damaged_pages"] == 0')"
dd if=/dev/zero of=mend-2 bs=1M seek=2 count=28 conv=notrunc status=none
exits 0 "... once more" "$gpu4fs" scrub start mend-1,mend-2
says "... in words" "pages of data and metadata were mended"
rm mend-1 mend-2 mend.data
equals "... and what could not be" "[0, 0]" "$(state "[x['damaged_pages_met'] for x in d['disks']]" s r)"
equals "... which info tells, too" "[0, 0]" \
	"$("$gpu4fs" info --json s r | python3 -c "import json, sys; print([x['damaged_pages_met'] for x in json.load(sys.stdin)['disks']])")"
exits 1 "one disk of two" "$gpu4fs" status r
says "... is degraded" "degraded"
says "... and a new one can take the other's place" "disk replace"
exits 0 "written without the other" "$gpu4fs" tune --degraded -L x r
exits 1 "... a stale disk" "$gpu4fs" status r s
equals "... is told" "degraded ['active', 'stale']" "$(state "d['state'], [x['state'] for x in d['disks']]" r s)"
says "... and how it comes back" "disk rebuild"
exits 0 "... also written by itself" "$gpu4fs" tune --degraded -L y s
exits 1 "... were both written apart" "$gpu4fs" status r s
says "... which is told" "written apart"
exits 1 "a set that lacks too much" "$gpu4fs" status c d
says "... is incomplete" "incomplete"
exits 1 "what is no disk of it" "$gpu4fs" status c d e p single
equals "... is told of each" "whole ['p', 'single']" "$(state "d['state'], [x['device'] for x in d['others']]" c d e p single)"
exits 0 "a file system of one disk" "$gpu4fs" status single
exits 1 "what holds none" "$gpu4fs" status /dev/null
one_sentence "... is told in one sentence"
equals "nothing of that changed anything" "$(sha256sum single c d e)" "$("$gpu4fs" status c d e single >/dev/null; sha256sum single c d e)"

exits 2 "no order" "$gpu4fs" disk mend p q
exits 2 "nothing to do" "$gpu4fs" disk
says "... is asked for" "say what to do"
exits 1 "one disk of a set twice" "$gpu4fs" mkfs -f --raid 1 p p
says "... is told" "named twice"
exits 2 "no disk" "$gpu4fs" disk rebuild p
exits 2 "an order for mounts" "$gpu4fs" disk offline p q
exits 2 "an option for mounts" "$gpu4fs" disk rebuild --wait p q
exits 2 "a rate that is none" "$gpu4fs" disk rebuild --rate fast p q

# parity
for n in 1 2 3 4; do truncate -s 24M "v$n"; done
exits 0 "two parities" "$gpu4fs" mkfs -q --raid 6 --stripe 16K v1 v2 v3 v4
exits 0 "... are used" "$gpu4fs" bench --size 8M --files 10 --dirs 1 --random-ops 10 --fsyncs 1 --cached-reads 10 v1,v2,v3,v4
exits 0 "... and a check finds nothing" "$gpu4fs" fsck v1 v2 v3 v4
exits 0 "status" "$gpu4fs" status v1 v2 v3 v4
says "... says in words what is lost with how many disks" '^redundancy  *raid6 2+2, survives 2 disks$'
exits 0 "info" "$gpu4fs" info v1 v2 v3 v4
says "... does" '^redundancy  *raid6 2+2, survives 2 disks$'
exits 1 "status without one of them" "$gpu4fs" status v1 v2 v4
says "... says what is left" '^redundancy  *raid6 2+2, survives 2 disks, 1 of which is lost now$'
exits 1 "status of one alone" "$gpu4fs" status v1
says "... says what was needed" '^redundancy  *survives 2 disks, 3 are lost now$'
equals "... in JSON, too" "raid6 2+2, survives 2 disks 2" "$(state "d['redundancy'], d['survives_disks']" v1 v2 v3 v4)"
exits 0 "status of copies" "$gpu4fs" status q p
says "... does" '^redundancy  *raid1, 2 copies, survives 1 disk$'
exits 0 "status of stripes" "$gpu4fs" status c d e
says "... does" '^redundancy  *raid0, survives no disk$'
exits 0 "status of one disk" "$gpu4fs" status single
says "... does" '^redundancy  *none, one disk$'

# disks that are not named, and what is none
parity_sums=$(sha256sum v1 v2 v3 v4)
for words in "info v1" "df v1" "fsck v1" "dump v1" "tune -L x v1" "scrub start v1" "find --image v1 /" "resize v1 1G"; do
	# shellcheck disable=SC2086 # they are words
	run "$gpu4fs" $words
	says "${words%% *} of one disk says how all are named" "3 of the 4 disks of its file system are missing, .*; name all of them, as DISK DISK... or DISK,DISK,...: disk 1, "
	one_sentence "... in one sentence"
done
exits 1 "a change without one of them" "$gpu4fs" tune -L x v1,v2,v4
says "... says so, and how to go on without" "1 of the 4 disks .* is missing; name all of them, as DISK DISK... or DISK,DISK,..., or go on without (mount -o degraded, elsewhere --degraded): disk 2, "
one_sentence "... in one sentence"
truncate -s 24M blank
for words in "fsck v1 v2 v3 blank" "tune --degraded -L x v1,v2,v3,blank" "find --image blank,v1,v2,v3 /"; do
	# shellcheck disable=SC2086 # they are words
	run "$gpu4fs" $words
	says "${words%% *} with an empty disk says what that is for" "^gpu4fs ${words%% *}: blank: holds no gpu4fs file system; leave it out, and let it take the place of a missing disk with 'gpu4fs disk replace', or be one more with 'gpu4fs disk add'$"
	one_sentence "... in one sentence"
done
equals "... and is not used" "$(head -c 24M /dev/zero | sha256sum)" "$(sha256sum <blank)"
head -c 24M /dev/zero | tr '\0' x >foreign
run "$gpu4fs" fsck v1 v2 v3 foreign
says "a disk that has something else on it, too" "foreign: holds no gpu4fs file system; leave it out"
equals "nothing of that changed anything" "$parity_sums" "$(sha256sum v1 v2 v3 v4)"
rm blank foreign
exits 0 "... nor with any two of four" "$gpu4fs" fsck v2 v4
exits 1 "... which are degraded" "$gpu4fs" status v2 v4
says "... and told to be" "degraded"
exits 8 "one is too few" "$gpu4fs" fsck v3
rm v1
truncate -s 24M v1
exits 0 "a new one is made of the others" "$gpu4fs" disk replace v2 v3 v4 v1
exits 0 "... and stands for two of them" "$gpu4fs" fsck v1 v3
exits 1 "parities need two disks more" "$gpu4fs" mkfs -f --raid triple v1 v2 v3 v4
one_sentence "... is told in one sentence"

# one parity: what of a row of contents is wrong is told by its sums, unless it is the parity
for n in 1 2 3; do truncate -s 24M "x$n"; done
mkdir contents
head -c 20M /dev/urandom >contents/f
exits 0 "one parity" "$gpu4fs" mkfs -q --raid 5 --stripe 16K x1 x2 x3
exits 0 "... a file over most of it" "$gpu4fs" import --image x1,x2,x3 contents /
dd if=/dev/urandom of=x2 bs=4K seek=3000 count=64 conv=notrunc status=none # sixteen stripes, a third of them parity
exits 4 "what has rotted there is found" "$gpu4fs" fsck --data x1 x2 x3
says "... in contents" "pages of contents compared, [1-9][0-9]* of them damaged\|do not fit together"
exits 0 "... a scrub mends it, and parity as well" "$gpu4fs" scrub start x1,x2,x3
exits 0 "... so that nothing is found any more" "$gpu4fs" fsck --data x1 x2 x3
for n in 1 2 3; do
	mv "x$n" away
	# shellcheck disable=SC2046 # two names
	exits 0 "... nor without disk $n" "$gpu4fs" fsck --data $(ls x[123])
	mv away "x$n"
done
exits 0 "... contents are what they were" "$gpu4fs" export --image x1,x2,x3 / contents.back
equals "... all of them" "$(sha256sum <contents/f)" "$(sha256sum <contents.back/f)"
rm -r contents contents.back
exits 0 "contents without sums" "$gpu4fs" mkfs -qf --checksum none --raid 5 --stripe 16K x1 x2 x3
mkdir contents
head -c 20M /dev/urandom >contents/f
exits 0 "... over most of it" "$gpu4fs" import --image x1,x2,x3 contents /
dd if=/dev/urandom of=x2 bs=4K seek=3000 count=64 conv=notrunc status=none
exits 1 "... of which nobody knows what has rotted" "$gpu4fs" scrub start x1,x2,x3
says "... are told as rows" "rows from 0x[0-9a-f]* on: data and parity do not fit together"
[ "$(grep -c "metadata at" "$work/.out")" -eq 0 ]
report $? "... and as nothing else"
exits 1 "... in JSON as well" "$gpu4fs" scrub start --json x1,x2,x3
says "... with nothing but that" '"what": "parity"'
rm -r contents x1 x2 x3

# spares
for n in 1 2 3 4; do truncate -s 24M "w$n"; done
truncate -s 9M tiny
exits 0 "two copies" "$gpu4fs" mkfs -q --raid 1 w1 w2
exits 2 "a spare is added" "$gpu4fs" disk replace --spare w1 w2 w3
exits 0 "one that is empty" "$gpu4fs" disk add --spare w1 w2 w3
says "... is one then" "w3 is a spare"
exits 0 "... and the file system is whole with it" "$gpu4fs" status w1 w2 w3
says "... and shows it" "spare"
equals "... by its name and size" "whole [('w3', 'spare', 25165824)] []" \
	"$(state "d['state'], [(x['device'], x['state'], x['size_bytes']) for x in d['spares']], d['others']" w3 w1 w2)"
equals "... and without it" "whole []" "$(state "d['state'], d['spares']" w1 w2)"
equals "info shows it" "2 [('w3', 25165824)]" "$(value "len(d['disks']), [(x['device'], x['size_bytes']) for x in d['spares']]" w1 w2 w3)"
says_spare=$("$gpu4fs" info w1 w2 w3 | grep -c w3)
[ "$says_spare" -gt 0 ]
report $? "... as text, too"
exits 0 "a check takes it" "$gpu4fs" fsck w1 w2 w3
exits 0 "... and finds nothing without" "$gpu4fs" fsck w1 w2
before=$(sha256sum w1 w2 w3)
exits 1 "mkfs does not" "$gpu4fs" mkfs -q w3
says "... without force" "force"
exits 8 "alone it is nothing" "$gpu4fs" fsck w3
says "... which is told" "is a spare, which holds nothing"
one_sentence "... in one sentence"
exits 1 "... by status as well" "$gpu4fs" status w3
one_sentence "... in one sentence"
exits 1 "not twice" "$gpu4fs" disk add --spare w1 w2 w3
says "... without force" "a spare of a file system already"
one_sentence "... in one sentence"
exits 1 "nor with it, of the same" "$gpu4fs" disk add --spare -f w1 w2 w3 w3
says "... file system" "is a spare of this file system already"
exits 1 "nor a disk of it" "$gpu4fs" disk add --spare -f w1 w2 w2
says "... which it is" "is disk 1 of this file system"
exits 1 "nor what is too small" "$gpu4fs" disk add --spare w1 w2 tiny
says "... is told" "too small"
one_sentence "... in one sentence"
exits 1 "nor of what can not make anything again" "$gpu4fs" disk add --spare c d e w4
says "... which is told" "no use for a spare"
exits 1 "nor of one device" "$gpu4fs" disk add --spare single w4
one_sentence "... is told in one sentence"
exits 8 "that of another file system" "$gpu4fs" fsck v1 v2 v3 v4 w3
says "... is told" "is a spare of another file system"
one_sentence "... in one sentence"
exits 1 "... and by status" "$gpu4fs" status v1 v2 v3 v4 w3
says "... is shown" "spare of another file system"
exits 1 "... and is not removed from there" "$gpu4fs" disk remove v1 v2 v3 v4 w3
one_sentence "... in one sentence"
equals "nothing of that changed anything" "$before" "$(sha256sum w1 w2 w3)"
exits 0 "a disk more" "$gpu4fs" disk add w1 w2 w3 w4
exits 0 "... leaves the spare what it is" "$gpu4fs" status w1 w2 w4 w3
exits 0 "... and goes again" "$gpu4fs" disk remove w1 w2 w3 w4
exits 0 "... a check finds nothing" "$gpu4fs" fsck w1 w2 w3
mv w2 w2.away
exits 1 "one that is missing" "$gpu4fs" status w1 w3
says "... can be replaced by it" "a spare is there"
exits 0 "... by an order without a mount" "$gpu4fs" disk replace -f w1 w3
exits 0 "... and a check finds nothing" "$gpu4fs" fsck --data w1 w3
exits 8 "the old one" "$gpu4fs" fsck w1 w2.away
says "... was replaced" "replaced"
exits 0 "... and can be a spare" "$gpu4fs" disk add --spare -f w1 w3 w2.away
exits 0 "... which goes" "$gpu4fs" disk remove w1 w3 w2.away
says "... and is none" "no spare of the file system any more"
exits 0 "... so that mkfs takes it" "$gpu4fs" mkfs -q w2.away

exits 2 "a level that is none" "$gpu4fs" mkfs --raid 7 x y 16M
exits 2 "a level of one device" "$gpu4fs" mkfs --raid 1 x 16M
exits 0 "three copies" "$gpu4fs" mkfs -q --raid 1 --copies 3 k l m n 24M
equals "... are on four disks" "3 4" "$(value "d['copies'], len(d['disks'])" k l m n)"
exits 0 "... of which two may be missing" "$gpu4fs" fsck l n
exits 2 "copies without a level" "$gpu4fs" mkfs --copies 3 x y z 16M
exits 2 "one copy" "$gpu4fs" mkfs --raid 1 --copies 1 x y 16M
exits 1 "more copies than devices" "$gpu4fs" mkfs --raid 1 --copies 3 x y 16M
one_sentence "... are told in one sentence"
exits 2 "a stripe without stripes" "$gpu4fs" mkfs --raid 1 --stripe 64K x y 16M
exits 1 "a stripe that is none" "$gpu4fs" mkfs --raid 0 --stripe 100K x y 16M
one_sentence "... is told in one sentence"
exits 1 "the same twice" "$gpu4fs" mkfs --raid 1 x x 16M
one_sentence "... is told in one sentence"
exits 1 "too small" "$gpu4fs" mkfs x y 4M
one_sentence "... is told in one sentence"
[ ! -e x ] && [ ! -e y ]
report $? "files that a failed mkfs made are gone"
exits 1 "what is there is not overwritten" "$gpu4fs" mkfs --raid 1 f a 32M
[ ! -e f ]
report $? "... and nothing else is left"
equals "... and it is as it was" "$sums" "$(sha256sum a b c d e old)"
exits 0 "... without --force" "$gpu4fs" mkfs -q -f --raid 1 f a 32M
exits 8 "what it belonged to" "$gpu4fs" fsck a b
says "... is another file system" "different file systems"
is_json "--json" "$gpu4fs" mkfs -f --json --raid 1 f a
equals "... has the devices" "['f', 'a']" "$(json_value "d['devices']")"
finish
