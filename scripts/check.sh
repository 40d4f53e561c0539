#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make check` runs: every build and every test. The last line counts them: "N passed, N failed, N skipped".
# Usage: check.sh [STEP]...   (default: all of them: lint release fuse lanes asan tsan lanes-tsan fuzz cuda)
# Logs and JUnit files are in build/check/.
set -euo pipefail
cd "$(dirname "$0")/.."

all_steps=(lint release fuse lanes asan tsan lanes-tsan fuzz cuda)
steps=("$@")
[[ ${#steps[@]} -gt 0 ]] || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
	if [[ " ${all_steps[*]} " != *" $step "* ]]; then
		echo "check.sh: unknown step '$step'; known are: ${all_steps[*]}" >&2
		exit 2
	fi
done

logs=build/check
mkdir -p "$logs"
passed=0
failed=0
skipped=0

# report WORD NAME SECONDS [TEXT]
report() {
	printf '%-8s %-24s %4d s  %s\n' "$1" "$2" "$3" "${4:-}"
}

# fail NAME SECONDS LOG: counts a failure and shows why: the compiler's errors, or else the end of the log.
fail() {
	failed=$((failed + 1))
	report FAILED "$1" "$2" "see $3"
	if ! awk '/error ?:|fatal ?:|undefined reference|CMake Error/ && !seen[$0]++ { if (++shown <= 20) print "    " $0 }
		END { exit !shown }' "$3"; then
		tail -n 20 "$3" | sed 's/^/    /'
	fi
}

skip() {
	skipped=$((skipped + 1))
	report skipped "$1" 0 "$2"
}

# run NAME COMMAND...: one thing that passes or fails.
run() {
	local name=$1 log=$logs/${1// /-}.log start=$SECONDS
	shift
	if "$@" >"$log" 2>&1 </dev/null; then
		passed=$((passed + 1))
		report passed "$name" $((SECONDS - start))
	else
		fail "$name" $((SECONDS - start)) "$log"
		return 1
	fi
}

build() {
	cmake --preset "$1" && cmake --build "build/$1" --target "${@:2}" -- -k 0
}

# tests NAME PRESET CTEST-OPTIONS...: runs CTest and counts every test it names.
tests() {
	local name=$1 preset=$2 log=$logs/${1// /-}.log junit=$PWD/$logs/${1// /-}.xml start=$SECONDS rc=0 counts
	shift 2
	rm -f "$junit"
	ctest --test-dir "build/$preset" --no-tests=error --output-on-failure \
		--output-junit "$junit" "$@" >"$log" 2>&1 </dev/null || rc=$?
	if ! counts=$(python3 scripts/junit_count.py "$junit") || ! read -r p f s <<<"$counts"; then
		fail "$name" $((SECONDS - start)) "$log"
		return 0
	fi
	passed=$((passed + p))
	failed=$((failed + f))
	skipped=$((skipped + s))
	if [[ $f -gt 0 ]]; then
		report FAILED "$name" $((SECONDS - start)) "$p passed, $f failed, $s skipped; see $log"
		python3 scripts/junit_count.py --failures "$junit" | sed 's/^/    /'
	elif [[ $rc -ne 0 ]]; then
		fail "$name" $((SECONDS - start)) "$log"
	else
		report passed "$name" $((SECONDS - start)) "$p passed, $s skipped"
	fi
}

# build_and_test PRESET CTEST-OPTIONS...: CTest only runs where the build worked.
build_and_test() {
	if run "$1 build" build "$1" all; then
		tests "$1 tests" "$1" --parallel "$(nproc)" --label-exclude fuse "${@:2}"
	fi
}

step_lint() {
	run "layout and shell" scripts/lint.sh --quick || return 0
}

step_release() {
	build_and_test release
	run "headers C and C++" build release header-check || return 0
}

step_fuse() {
	if ! (exec 3<>/dev/fuse) 2>/dev/null; then
		skip "fuse tests" "/dev/fuse is missing or closed to this user"
	elif run "fuse build" build release all; then
		tests "fuse tests" release --label-regex fuse
	fi
}

step_fuzz() {
	run "fuzz ${FUZZ_S:-60} s" env FUZZ_S="${FUZZ_S:-60}" scripts/fuzz.sh || return 0
}

step_cuda() {
	if [[ -z $(PATH=$PATH:/usr/local/cuda/bin type -P nvcc) ]]; then
		skip "cuda build" "nvcc is not installed"
	else
		run "cuda build" build cuda all || return 0
		run "headers CUDA" build cuda header-check || return 0
	fi
}

scripts/install-deps.sh check
for step in "${steps[@]}"; do
	case $step in
	lint | release | fuse | fuzz | cuda) "step_$step" ;;
	*) build_and_test "$step" ;;
	esac
done

echo
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
