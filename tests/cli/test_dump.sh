#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dump shows a fresh image's structures, and they agree with each other.
# Of cli/show.c.
. "$(dirname "$0")/lib.sh"

run "$gpu4fs" mkfs --size 200M -L fresh a.img
run "$gpu4fs" dump --json a.img superblock
equals "the first superblock" "superblock good 4096 fresh" \
	"$(json_value '" ".join(str(d["first_superblock"][k]) for k in ("type", "condition", "address", "label"))')"
root=$(json_value 'd["first_superblock"]["root_address"]')
groups=$(json_value 'd["first_superblock"]["groups_address"]')
alloc=$(json_value 'd["first_superblock"]["alloc_address"]')
journal=$(json_value 'd["first_superblock"]["journal_address"]')
uuid=$(json_value 'd["first_superblock"]["uuid"]')
run "$gpu4fs" dump --json a.img superblock backup
equals "the second superblock lies in the last page" "$((200 * 1024 * 1024 - 4096)) $uuid" \
	"$(json_value 'd["second_superblock"]["address"], d["second_superblock"]["uuid"]' | tr -d "(),'")"

for pair in "$root:root block" "$groups:group descriptors" "$alloc:allocation map" "$journal:journal header"; do
	run "$gpu4fs" dump --json a.img block "${pair%%:*}"
	equals "block: the ${pair#*:}" "good ${pair#*:}" "$(json_value 'd["condition"] + " " + d["type"]')"
done

run "$gpu4fs" dump --json a.img root
ino=$(json_value 'd["root_inode"]')
equals "no orphans" 0 "$(json_value 'd["orphan_head"]')"
run "$gpu4fs" dump --json a.img inode 1
equals "inode 1 is the root directory" "$ino directory 2 $ino" \
	"$(json_value '" ".join(str(d[k]) for k in ("inode", "type", "nlink", "parent"))')"
run "$gpu4fs" dump --json a.img inode "$ino"
equals "an inode by its number" "$ino" "$(json_value 'd["inode"]')"
run "$gpu4fs" dump --json a.img inode "$(printf '0x%x' "$ino")"
equals "... in hexadecimal" "$ino" "$(json_value 'd["inode"]')"
run "$gpu4fs" dump --json a.img block $((ino / 4096 * 4096))
equals "it lies in a slab" "slab inodes $ino" \
	"$(json_value 'd["type"], d["kind"], d["slots"][0]["inode"]' | tr -d "(),'")"
run "$gpu4fs" dump --json a.img dir /
equals "the root directory is empty" "[]" "$(json_value 'd["entries"]')"
run "$gpu4fs" dump --json a.img journal
equals "the journal has nothing to replay" "good []" "$(json_value 'd["condition"], d["transactions"]' | tr -d "(),'")"

run "$gpu4fs" dump --json a.img groups
equals "all groups have a descriptor" 4 "$(json_value 'len(d["groups"])')"
free=$(json_value 'sum(g["free_pages"] for g in d["groups"])')
run "$gpu4fs" dump --json a.img group 0
equals "a group's map agrees with its descriptor" True \
	"$(json_value 'd["free_pages"] == 31 * 512 - sum(r["used"] for r in d["allocation_map"]["regions"])')"
run "$gpu4fs" df --json a.img
equals "df counts the same" $((free * 4096)) "$(json_value 'd["filesystems"][0]["free_bytes"]')"

# the pages of a directory
run "$gpu4fs" dump --json --dir / a.img
equals "an empty directory has no pages" "0 [] []" "$(json_value '" ".join(str(d[k]) for k in ("pages", "levels", "tree"))')"
exits 0 "... as a graph" "$gpu4fs" dump --dot --dir 1 a.img
says "... for Graphviz" '^digraph directory {$'
exits 2 "--dot without --dir" "$gpu4fs" dump --dot a.img
exits 2 "--dir beside a structure" "$gpu4fs" dump --dir / a.img inode 1
exits 1 "--dir of what is not there" "$gpu4fs" dump --dir /none a.img
one_sentence "... fails with one sentence"
# what deduplication has on the device: 300 pages, of which 60 have three owners, and a page that has eleven; owners of longer rows are not buffered
run "$gpu4fs" dump --json --ddt a.img
equals "nothing is shared" "0 0 0 [] []" \
	"$(json_value '" ".join(str(d[k]) for k in ("listed", "shared", "table_bytes", "owners", "tree"))')"
mkdir tree
head -c $((300 * 4096)) /dev/urandom >tree/a
head -c $((60 * 4096)) tree/a >tree/b
cp tree/b tree/c
for ((k = 0; k < 11; k++)); do
	cat tree/page 2>/dev/null || head -c 4096 /dev/urandom | tee tree/page
done >tree/pages
rm tree/page
run "$gpu4fs" mkfs -f --dedup --size 200M a.img
exits 0 "a tree with much of it several times" "$gpu4fs" import --image a.img tree /
exits 0 "... all of which is found" "$gpu4fs" dedup run --image a.img
is_json "pages that count owners and list contents" "$gpu4fs" dump --json --ddt a.img
equals "... of so many that are listed" 301 "$(json_value 'd["listed"]')"
equals "... and have several owners" "61 191" "$(json_value 'd["shared"], d["owners_of_shared"]' | tr -d "(),")"
equals "... how many" "[(2, 60), (8, 1)]" "$(json_value '[(o["at_least"], o["pages"]) for o in d["owners"]]')"
equals "... each of these pages" "True True" \
	"$(json_value 'sum(p.get("listed", 0) for p in d["tree"] if p["kind"] == "sums") == d["listed"], d["table_bytes"] == 4096 * len(d["tree"])' | tr -d "(),")"
equals "... of which each owner is buffered" "130 0" \
	"$(json_value 'sum(p["owners"] for p in d["tree"] if p["kind"] == "buffered"), sum(p["kind"] == "counts" for p in d["tree"])' | tr -d "(),")"
buffered=$(json_value '[p["address"] for p in d["tree"] if p["kind"] == "buffered"][0]')
run "$gpu4fs" dump --json a.img block "$buffered"
equals "... which block shows, too" "good 130" "$(json_value 'd["condition"], len(d["pages"])' | tr -d "(),'")"
# of more than 16 pages a copy by reference shares the indirect page that leads to them
mkdir few && head -c $((10 * 4096)) /dev/urandom >few/few
exits 0 "a file of few pages" "$gpu4fs" import --image a.img few /
exits 0 "a copy by reference" "$gpu4fs" cp --reflink --image a.img /few /copy
is_json "... is in pages of counts" "$gpu4fs" dump --json --ddt a.img
equals "... beside what is buffered" "71 211 130" \
	"$(json_value 'd["shared"], d["owners_of_shared"], sum(p["owners"] for p in d["tree"] if p["kind"] == "buffered")' | tr -d "(),")"
counts=$(json_value '[p["address"] for p in d["tree"] if p["kind"] == "counts"][0]')
regions=$(json_value 'sum(p["kind"] == "counts" for p in d["tree"])')
exits 0 "... as text" "$gpu4fs" dump --ddt a.img
says "... a line each" 'kind counts  address'
exits 0 "... as a graph" "$gpu4fs" dump --dot --ddt a.img
says "... for Graphviz" '^digraph ddt {$'
equals "... with an arrow to each" True "$([ "$(grep -c -e '->' .out)" -eq "$(($(grep -c 'label="[sbc]' .out)))" ] && echo True)"
run "$gpu4fs" dump --json a.img block "$counts"
equals "... which block shows, too" "good" "$(json_value 'd["condition"]')"
poke a.img $((counts + 200)) ff
exits 1 "a damaged page of counts" "$gpu4fs" dump --json --ddt a.img
equals "... is in the tree" "1 $regions" \
	"$(json_value 'd["damaged"], sum(p["kind"] == "counts" for p in d["tree"])' | tr -d "(),")"
exits 1 "... and in the graph" "$gpu4fs" dump --dot --ddt a.img
says "... in red" fillcolor=red
exits 2 "no device" "$gpu4fs" dump
says "... is told" "no device was given"
exits 2 "--ddt beside --dir" "$gpu4fs" dump --ddt --dir / a.img
exits 2 "--ddt beside a structure" "$gpu4fs" dump --ddt a.img inode 1
one_sentence "... fails with one sentence"
exits 0 "text" "$gpu4fs" dump a.img inode 1
says "... has a value a line" '^type  *directory$'
exits 0 "text of a block of data" "$gpu4fs" dump a.img block 0
says "... is hexadecimal" 'offset 0x20  bytes 0000'
finish
