#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shredder program: formats, exit codes, bad input.
# Of cli/main.c, cli/cmd_chunk.c, cli/cmd_bench.c, cli/cmd_dedup_ratio.c, cli/options.c, cli/digests.c.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
# shellcheck disable=SC2154 # lib.sh sets gpu4fs to the program's path, and status
shredder=$gpu4fs

# Bytes that look random and are always the same: make_noise BYTES SEED
make_noise() {
	awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); for (i = 0; i < n; i += 8) printf "%08d", rand() * 1e8 }' | head -c "$1"
}
chunks() {
	timeout 600 "$shredder" chunk "$@"
}
same() { # same NAME WANTED FOUND: files
	diff "$2" "$3" >difference 2>&1
	equals "$1" "" "$(head -n 5 difference)"
}

exits 2 "without a command it shows what there is" "$shredder"
exits 0 "--help" "$shredder" --help
exits 0 "version" "$shredder" version
says "version has a number" '^shredder [0-9]'
exits 2 "an unknown command" "$shredder" slice
one_sentence "... is refused in one sentence"
for command in chunk dedup-ratio bench; do
	exits 0 "$command --help" "$shredder" "$command" --help
	says "$command --help starts with its usage" "^usage: shredder $command "
	exits 0 "help $command" "$shredder" help "$command"
	exits 2 "$command --frobnicate" "$shredder" "$command" --frobnicate
	one_sentence "... is refused in one sentence"
done

# ---- chunk
make_noise 1000000 1 >noise
run chunks noise
cp .out whole
equals "lines have five columns" "offset length 64 16 ok" "$(awk '$1 != "total" {
	ok = $1 == at && length($3) == 64 && length($4) == 16 && $5 ~ /^(marker|max|end)$/; at = $1 + $2; if (!ok) bad = NR
	} END { print "offset length 64 16", bad ? "bad line " bad : "ok" }' whole)"
equals "the last line is the total" "total 1000000 $(($(wc -l <whole) - 1))" "$(tail -n 1 whole)"
same "a file as standard input" whole <(chunks - <noise)
same "a pipe" whole <(make_noise 1000000 1 | chunks -)
for engine in cpu portable avx2 avx512; do
	run chunks -e "$engine" -t 3 --buffers 2 --buffer-size 64K --no-direct noise
	[ "$status" -eq 2 ] && continue # this processor lacks it
	same "engine $engine with small buffers" whole .out
done
run chunks -e cuda noise
same "engine cuda, or what replaces it" whole .out
run chunks -e cuda --gpus=0,0 --buffer-size 128K noise
same "two GPUs, or what replaces them" whole .out
same "zero bytes instead of line ends" whole <(chunks -0 noise | tr '\0' '\n')
same "no digests" <(sed -E '/^total/!s/[0-9a-f]{64}/-/' whole) <(chunks -n noise)
is_json "JSON is JSON" "$shredder" chunk --json noise
equals "... with the same chunks" "$(awk '$1 != "total"' whole | md5sum)" "$(python3 -c '
import json
for c in json.load(open(".out"))["chunks"]:
    print(c["offset"], c["length"], c["digest"], c["fingerprint"], c["cut"])' | md5sum)"
equals "... and complete" "True 1000000" "$(json_value 'd["complete"], d["bytes"]' | tr -d '(),')"
odd=$'odd\xff"\n\x7f'
cp noise "$odd"
is_json "a name of any bytes in JSON" "$shredder" chunk --json "$odd"
equals "... is the name" True "$(json_value 'os.fsencode(d["input"]) == b"odd\xff\"\n\x7f"')"
: >nothing
equals "nothing has no chunks" "total 0 0" "$(chunks nothing)"
exits 0 "stages are told" "$shredder" chunk --stats noise
for stage in read transfer kernel store; do
	says "... $stage" "^$stage .* busy"
done

# ---- records
python3 -c 'for i in range(40000): print("record", i, "x" * (i % 50))' >lines
run chunks -a gear -b 10 -d '\n' lines
at_line_ends=$(python3 - <<'TEXT'
data = open("lines", "rb").read()
rows = [line.split() for line in open(".out")][:-1]
print(len(rows) > 100 and all(data[int(r[0]) + int(r[1]) - 1] == 10 for r in rows))
TEXT
)
equals "cuts lie at line ends" True "$at_line_ends"

# ---- bad input
refused() { # refused STATUS NAME ARGUMENT...
	local wanted=$1 name=$2
	shift 2
	exits "$wanted" "$name" "$shredder" chunk "$@"
	one_sentence "... in one sentence"
}
refused 1 "a file that is not there" absent
refused 1 "a directory" .
refused 2 "no file"
refused 2 "two files" noise lines
refused 2 "minimum over maximum" --min 2K --max 1K noise
refused 2 "a reducible polynomial" --polynomial 100000000 noise
refused 2 "a polynomial of degree 8" --polynomial 11b noise
refused 2 "a mask wider than the polynomial" --bits 33 noise
refused 2 "bits that are no number" --bits many noise
refused 2 "a size that is none" --max 1X noise
for gpus in none 0 17 "," "0,,1" "1,x" "99999999999,"; do
	refused 2 "GPUs that cannot be: $gpus" --gpus "$gpus" noise
done
refused 2 "an engine that is none" --engine abacus noise
refused 2 "an algorithm that is none" --algorithm ae noise
refused 2 "an empty delimiter" --delimiter '' noise
refused 2 "a delimiter with an unknown escape" --delimiter '\q' noise
refused 2 "a marker that is wider than the mask" --marker ffffffffffffffff noise
refused 2 "a size that stands for none" --min 18446744073709551615 noise
refused 2 "more threads than there can be" --threads 257 noise
refused 2 "a single buffer" --buffers 1 noise
refused 2 "a buffer size that no block divides" --buffer-size 1000 noise
exits 1 "an output that is full" bash -c "'$shredder' chunk noise >/dev/full"
one_sentence "... in one sentence"
chunks - <&- >.out 2>.err
equals "a closed standard input" 1 $?
one_sentence "... in one sentence"
mkfifo pipe
chunks pipe >.out &
cat noise >pipe
wait $!
same "a named pipe" whole .out

# ---- dedup-ratio
mkdir -p first/folder second
cp noise first/folder/noise
cp noise second/copy
make_noise 500000 2 >second/other
ln -s noise second/link
mkfifo second/pipe
is_json "dedup-ratio as JSON" "$shredder" dedup-ratio --json first second
equals "bytes" "1000000 1500000 2500000" "$(json_value '*[g["bytes"] for g in d["generations"]], d["total"]["bytes"]')"
equals "the copy is known" "0 1000000" "$(json_value '*[g["known_bytes"] for g in d["generations"]],')"
equals "what is new" "1000000 500000" "$(json_value '*[g["new_bytes"] for g in d["generations"]],')"
equals "links and pipes are left out" 2 "$(json_value 'd["total"]["others"]')"
equals "the histogram has every chunk" True \
	"$(json_value 'sum(h["chunks"] for h in d["histogram"]) == d["total"]["chunks"]')"
exits 0 "dedup-ratio as text" "$shredder" dedup-ratio first second
says "... with the ratio" '^ratio 1.667: 2500000 bytes, 1500000 unique'
exits 1 "something that is not there" "$shredder" dedup-ratio first absent
says "... makes it incomplete" '^INCOMPLETE: 1 '
exits 2 "dedup-ratio of nothing" "$shredder" dedup-ratio
ln -s nowhere dangling
exits 1 "a link that leads nowhere" "$shredder" dedup-ratio dangling
one_sentence "... is told in one sentence"
exits 1 "a picture of nothing" "$shredder" dedup-ratio --plot plot.png nothing
one_sentence "... is refused in one sentence"
mkdir programs # a gnuplot that keeps its script
printf '#!/bin/sh\ncat >script\n' >programs/gnuplot
chmod +x programs/gnuplot
exits 1 "an incomplete picture" env PATH="$PWD/programs:$PATH" "$shredder" dedup-ratio --plot "it's \`a\`.png" noise absent
equals "... says so" 1 "$(grep -c 'INCOMPLETE: 1 file ' script)"
equals "... under its name, which runs no commands" "set output 'it''s \`a\`.png'" "$(grep '^set output' script)"
if type -P gnuplot >/dev/null; then
	exits 0 "a plot" "$shredder" dedup-ratio --plot plot.png first second
	equals "... is a PNG" PNG "$(head -c 4 plot.png | tail -c 3)"
fi

# ---- bench
is_json "bench as JSON" "$shredder" bench --json --size 1M --rounds 1 --threads 2
equals "... has both algorithms" "gear rabin" "$(json_value '*sorted({r["algorithm"] for r in d}),')"
equals "... and the same chunks for every kernel" 2 "$(json_value 'len({(r["algorithm"], r["chunks"]) for r in d})')"
is_json "bench of one engine" "$shredder" bench --json --size 1M --rounds 1 --threads 1 --engine portable
equals "... has no other" portable "$(json_value '*{r["kernel"] for r in d},')"
exits 1 "bench of a file that is not there" "$shredder" bench absent
for options in "--engine abacus" "--buffers 1" "--min 2K --max 1K"; do
	# shellcheck disable=SC2086 # words
	exits 2 "bench $options" "$shredder" bench --size 1M $options
	one_sentence "... is refused in one sentence"
done
finish
