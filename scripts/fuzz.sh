#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make fuzz` runs: each libFuzzer target for its share of FUZZ_S seconds (default 300). Inputs that reach something
# new stay in build/fuzz/corpus, what breaks a promise goes to build/fuzz/crashes; "build/fuzz/tests/TARGET FILE" runs one
# input again. The last line counts the inputs tried.
# Usage: fuzz.sh [TARGET]...   (default: all)
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(fuzz_image fuzz_journal fuzz_shredder)
seconds=$((${FUZZ_S:-300} / ${#targets[@]}))
build=build/fuzz
cmake --preset fuzz >/dev/null
cmake --build "$build" --target fuzz-programs
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=8
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
mkdir -p "$build/crashes"

inputs=0
failed=0
for target in "${targets[@]}"; do
	corpus=$build/corpus/$target
	log=$build/$target.log
	python3 tests/fuzz/seeds.py "$build/seeds/$target"
	mkdir -p "$corpus"
	if ! "$build/tests/$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -max_len=512 -print_final_stats=1 \
		-artifact_prefix="$build/crashes/$target-" "$corpus" "$build/seeds/$target" >"$log" 2>&1 </dev/null; then
		echo "FAILED $target, see $log"
		grep -E "broken:|ERROR:|SUMMARY:|runtime error|Test unit written" "$log" || tail -n 20 "$log"
		failed=$((failed + 1))
	fi
	done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "$target: ${done:-0} inputs in $seconds s, $(find "$corpus" -type f | wc -l) of them kept"
	inputs=$((inputs + ${done:-0}))
done
echo "$inputs inputs, $failed of ${#targets[@]} targets failed"
[[ $failed -eq 0 ]]
