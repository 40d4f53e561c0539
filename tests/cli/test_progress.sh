#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Progress bars: on a terminal, after a second, gone at the end; nowhere else.
. "$(dirname "$0")/lib.sh"

# on_terminal COMMAND...: standard error is a terminal; what comes there goes to .err, standard output to .out
on_terminal() {
	python3 - "$@" >"$work/.out" 2>"$work/.err" <<'PYTHON'
import os, pty, subprocess, sys
outer, inner = pty.openpty()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=inner)
os.close(inner)
while True:
    try:
        text = os.read(outer, 65536)
    except OSError:  # the last writer is gone
        break
    if not text:
        break
    sys.stderr.buffer.write(text)
sys.exit(process.wait())
PYTHON
	status=$?
}

# 4 KiB reads from memory: how many take two seconds or more here
reads=200000
took=0
while [ "$took" -lt 2000 ]; do
	reads=$((reads * 4))
	started=$(date +%s%N)
	run "$gpu4fs" bench --size 1M --dirs 1 --files 1 --fsyncs 1 --random-ops 1 --cached-reads "$reads" mem:32M
	took=$((($(date +%s%N) - started) / 1000000))
	equals "$reads reads" 0 "$status"
done
equals "without a terminal there is no bar" "" "$(cat .err)"
on_terminal "$gpu4fs" bench --size 1M --dirs 1 --files 1 --fsyncs 1 --random-ops 1 --cached-reads "$reads" mem:32M
equals "on a terminal" 0 "$status"
says "... there is one" 'measuring \[[#.]\{40\}\] *[0-9]* %'
equals "... it never shrinks" True "$(python3 -c 'import re, sys
shares = [int(s) for s in re.findall(rb"(\d+) %", open(".err", "rb").read())]
print(shares == sorted(shares) and 0 < len(shares) and shares[-1] <= 100)')"
equals "... and is cleared at the end" True "$(python3 -c 'print(open(".err", "rb").read().endswith(b"\r\x1b[K"))')"
equals "... apart from the table" 20 "$(wc -l <.out)"
on_terminal "$gpu4fs" mkfs -q --size 64M quick.img
equals "what is done at once" 0 "$status"
equals "... shows none" "" "$(cat .err)"
finish
