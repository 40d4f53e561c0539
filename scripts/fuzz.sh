#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make fuzz` runs: libFuzzer for FUZZ_S seconds (default 300), the sum of what its targets get, as many of them at a
# time as there are processors. Inputs that reach something new stay in build/fuzz/corpus, what breaks a promise goes to
# build/fuzz/crashes; "build/fuzz/tests/TARGET FILE" runs one input again. The last line counts the inputs tried.
# Usage: fuzz.sh [TARGET]...   (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(fuzz_image fuzz_journal fuzz_ring fuzz_shredder fuzz_store fuzz_trace)
seconds=$((${FUZZ_S:-300} / ${#targets[@]}))
[[ $seconds -gt 0 ]] || seconds=1 # 0 would be no limit
build=build/fuzz
cmake --preset fuzz >/dev/null
cmake --build "$build" --target fuzz-programs
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=8
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
mkdir -p "$build/crashes"

inputs=0
failed=0
declare -A running=() # process: target

stop() {
	[[ ${#running[@]} -eq 0 ]] || kill "${!running[@]}"
	wait
}
trap stop EXIT
trap 'exit 130' INT TERM

start() {
	local target=$1 bytes=512
	[[ $target != fuzz_ring ]] || bytes=4096
	python3 tests/fuzz/seeds.py "$target" "$build/seeds/$target"
	mkdir -p "$build/corpus/$target"
	"$build/tests/$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len="$bytes" \
		-print_final_stats=1 -artifact_prefix="$build/crashes/$target-" \
		"$build/corpus/$target" "$build/seeds/$target" "tests/fuzz/regressions/$target" \
		>"$build/$target.log" 2>&1 </dev/null &
	running[$!]=$target
}

# Waits for one that ends.
finish() {
	local pid='' rc=0 target log tried
	wait -n -p pid || rc=$?
	target=${running[$pid]}
	unset "running[$pid]"
	log=$build/$target.log
	if [[ $rc -ne 0 ]]; then
		echo "FAILED $target, see $log"
		grep -E "broken:|ERROR:|SUMMARY:|runtime error|Test unit written" "$log" || tail -n 20 "$log"
		failed=$((failed + 1))
	fi
	tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "$target: ${tried:-0} inputs in $seconds s, $(find "$build/corpus/$target" -type f | wc -l) of them kept"
	inputs=$((inputs + ${tried:-0}))
}

for target in "${targets[@]}"; do
	[[ ${#running[@]} -lt $(nproc) ]] || finish
	start "$target"
done
while [[ ${#running[@]} -gt 0 ]]; do
	finish
done
echo "$inputs inputs, $failed of ${#targets[@]} targets failed"
[[ $failed -eq 0 ]]
