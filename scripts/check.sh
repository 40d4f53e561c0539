#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make check` runs: every build and every test. The last line counts them: "N passed, N failed, N skipped".
# Usage: check.sh [STEP]...   (default: lint release fuse lanes asan tsan lanes-tsan fuzz cuda)
# The step gpu (`make check-gpu`) is for a machine with an NVIDIA GPU: the engine's tests with the engine on it. Where it
# can not be compiled, GPU_BUILT names a copy of another machine's build/cuda.
# Logs and JUnit files are in build/check/.
set -euo pipefail
cd "$(dirname "$0")/.."

all_steps=(lint release fuse lanes asan tsan lanes-tsan fuzz cuda)
steps=("$@")
[[ ${#steps[@]} -gt 0 ]] || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
	if [[ " ${all_steps[*]} gpu " != *" $step "* ]]; then
		echo "check.sh: unknown step '$step'; known are: ${all_steps[*]} gpu" >&2
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
	run "fuzz ${FUZZ_S:-300} s" env FUZZ_S="${FUZZ_S:-300}" scripts/fuzz.sh || return 0
}

build_gpu() {
	local tests
	cmake --preset cuda -D G4_TESTS=ON || return
	mapfile -t tests < <(cd tests/engine && printf '%s\n' test_api_*.c | sed 's/^test_/test_engine_/; s/\.c$//')
	cmake --build build/cuda --target product gpu-programs "${tests[@]}" -- -k 0
}

# gpu_test NAME COMMAND...: exit status 77 is a test that has nothing to test here.
gpu_test() {
	local name=$1 log=$PWD/$logs/gpu-${1// /-}.log start=$SECONDS rc=0
	shift
	(cd "$gpu_work" && timeout -k 5 300 "$@") >"$log" 2>&1 </dev/null || rc=$?
	if [[ $rc -eq 77 ]]; then
		skip "gpu $name" "$(tail -n 1 "$log")"
	elif [[ $rc -ne 0 ]]; then
		fail "gpu $name" $((SECONDS - start)) "$log"
	else
		passed=$((passed + 1))
		report passed "gpu $name" $((SECONDS - start))
	fi
}

step_gpu() {
	local built=${GPU_BUILT:-build/cuda} test name
	built=$(realpath -m "$built")
	if [[ -z ${GPU_BUILT:-} ]]; then
		run "gpu build" build_gpu || return 0
	fi
	if [[ ! -e /dev/nvidiactl ]]; then
		skip "gpu tests" "there is no NVIDIA GPU here"
		return
	fi
	gpu_work=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-check.XXXXXX")
	gpu_test "smoke" "$built/tests/gpu/smoke"
	gpu_test "device API" "$built/tests/gpu/device"
	gpu_test "image file" "$built/tests/gpu/file" -m 8192 -g 1 "$gpu_work/image"
	gpu_test "BLAKE3" "$built/tests/gpu/blake3"
	gpu_test "Shredder" "$built/tests/gpu/shredder" 4 # MiB; more takes minutes
	for test in "$built"/tests/test_engine_api_*; do
		name=${test##*/test_engine_}
		gpu_test "$name" env G4_TEST_ENGINE=cuda "$test"
		gpu_test "$name connected" env G4_TEST_ENGINE=cuda G4_TEST_CONNECTED=1 "$test"
	done
	for test in tests/fuse/test_*.sh; do
		name=${test##*/test_}
		gpu_test "fuse ${name%.sh}" env GPU4FS="$built/bin/gpu4fs" GPU4FS_MOUNT=engine=cuda bash "$PWD/$test"
	done
	if [[ -n $(PATH=$PATH:/usr/local/cuda/bin type -P compute-sanitizer) ]]; then
		for test in memcheck racecheck; do
			gpu_test "$test" env PATH="$PATH:/usr/local/cuda/bin" compute-sanitizer --tool "$test" --error-exitcode 1 \
				"$built/tests/gpu/smoke" 16 10
		done
	else
		skip "gpu memcheck, racecheck" "compute-sanitizer is not installed"
	fi
	rm -rf "$gpu_work"
}

step_cuda() {
	if [[ -z $(PATH=$PATH:/usr/local/cuda/bin type -P nvcc) ]]; then
		skip "cuda build" "nvcc is not installed"
	else
		run "cuda build" build cuda all || return 0
		run "headers CUDA" build cuda header-check || return 0
	fi
}

[[ -n ${GPU_BUILT:-} ]] || scripts/install-deps.sh check
for step in "${steps[@]}"; do
	case $step in
	lint | release | fuse | fuzz | cuda | gpu) "step_$step" ;;
	*) build_and_test "$step" ;;
	esac
done

echo
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
