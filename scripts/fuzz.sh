#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make fuzz` runs: fuzzing for FUZZ_S seconds of processor time (default 300), the sum of what its targets get, as many
# processes at a time as there are processors. A target has FUZZ_JOBS processes (default 1) that share what they find. Inputs that
# reach something new stay in build/fuzz/corpus, what breaks a promise goes to build/fuzz/crashes;
# "build/fuzz/tests/TARGET FILE" runs one input again. The last line counts the inputs tried.
# With libFuzzer where there is clang; FUZZ_WITH=gcc: by the small fuzzer in tests/fuzz/mutate.c, in build/fuzz-gcc.
# Usage: fuzz.sh [TARGET]...   (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(fuzz_image fuzz_journal fuzz_ring fuzz_shredder fuzz_store fuzz_trace)
jobs=${FUZZ_JOBS:-1}
with=${FUZZ_WITH:-$(command -v clang >/dev/null && echo clang || echo gcc)}
seconds=$((${FUZZ_S:-300} / ${#targets[@]} / jobs))
[[ $seconds -gt 0 ]] || seconds=1 # 0 would be no limit
preset=fuzz
[[ $with != gcc ]] || preset=fuzz-gcc
build=build/$preset
cmake --preset "$preset" >/dev/null
cmake --build "$build" --target "${targets[@]}"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=8:hard_rss_limit_mb=4096
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
mkdir -p "$build/crashes"

inputs=0
failed=0
declare -A running=() # process: target and number

stop() {
	[[ ${#running[@]} -eq 0 ]] || kill "${!running[@]}"
	wait
}
trap stop EXIT
trap 'exit 130' INT TERM

start() { # start TARGET NUMBER
	local target=$1 number=$2 bytes=512
	local log=$build/$target.$number.log corpus=$build/corpus/$target seeds=$build/seeds/$target
	[[ $target != fuzz_ring ]] || bytes=4096
	if [[ $number -eq 1 ]]; then
		python3 tests/fuzz/seeds.py "$target" "$seeds"
		mkdir -p "$corpus"
	fi
	if [[ $with == gcc ]]; then
		"$build/tests/$target" --seconds "$seconds" --seed "$((RANDOM * 1000 + number))" --max-bytes "$bytes" --corpus "$corpus" \
			--current "$build/$target.$number.current" "$corpus" "$seeds" "tests/fuzz/regressions/$target" \
			>"$log" 2>&1 </dev/null &
	else
		"$build/tests/$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len="$bytes" \
			-reload=1 -print_final_stats=1 -artifact_prefix="$build/crashes/$target-" \
			"$corpus" "$seeds" "tests/fuzz/regressions/$target" \
			>"$log" 2>&1 </dev/null &
	fi
	running[$!]="$target $number"
}

# Waits for one that ends.
finish() {
	local pid='' rc=0 target number log tried current
	wait -n -p pid || rc=$?
	read -r target number <<<"${running[$pid]}"
	unset "running[$pid]"
	log=$build/$target.$number.log
	current=$build/$target.$number.current
	if [[ $rc -ne 0 ]]; then
		echo "FAILED $target, see $log"
		grep -E "broken:|ERROR:|SUMMARY:|runtime error|Test unit written" "$log" || tail -n 20 "$log"
		if [[ -e $current ]]; then
			"$build/tests/$target" --cut "$current" "$build/crashes/$target-$number-$pid"
			echo "input: $build/crashes/$target-$number-$pid"
		fi
		failed=$((failed + 1))
	fi
	tried=$(sed -n 's/^stat::number_of_executed_units: *//p; s/^inputs: \([0-9]*\),.*/\1/p' "$log")
	echo "$target $number: ${tried:-0} inputs in $seconds s, $(find "$build/corpus/$target" -type f | wc -l) of them kept"
	inputs=$((inputs + ${tried:-0}))
}

for target in "${targets[@]}"; do
	for ((number = 1; number <= jobs; number++)); do
		[[ ${#running[@]} -lt $(nproc) ]] || finish
		start "$target" "$number"
	done
done
while [[ ${#running[@]} -gt 0 ]]; do
	finish
done
echo "$inputs inputs, $failed of $((jobs * ${#targets[@]})) processes failed"
[[ $failed -eq 0 ]]
