#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make check` runs: every build and every test. The last line counts them: "N passed, N failed, N skipped".
# Usage: check.sh [STEP]...   (default: lint release fuse asan tsan lanes-tsan fuzz cuda)
# The steps long are for `make check-long`: lanes runs the tests of lanes-tsan without ThreadSanitizer, which finds nothing else;
# asan-gcc those of asan compiled by the other compiler, whose sanitizers look for much the same;
# release-long, asan-long, tsan-long and lanes-tsan-long what release, asan, tsan and lanes-tsan leave out
# (cmake/G4LongTests.cmake); fuzz-long fuzzes for FUZZ_LONG_S seconds, 600 by default.
# The step gpu (`make check-gpu`) is for a machine with an NVIDIA GPU: the engine's tests with the engine on it, in less than
# nine minutes. Its parts are steps, too: gpu-device gpu-file gpu-shredder gpu-api gpu-names gpu-disks gpu-images gpu-crash gpu-fuse
# gpu-sanitizer. Where they can not be compiled, GPU_BUILT names a copy of another machine's build/cuda.
# Logs and JUnit files are in build/check/.
set -euo pipefail
cd "$(dirname "$0")/.."
# A version manager's python3 is a script that looks for the right one at each of a thousand starts.
python=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))')
PATH=$python:$PATH

all_steps=(lint release fuse asan tsan lanes-tsan fuzz cuda)
long_steps=(lanes asan-gcc release-long asan-long tsan-long lanes-tsan-long fuzz-long)
gpu_steps=(gpu-device gpu-file gpu-api gpu-names gpu-disks gpu-images gpu-crash gpu-fuse gpu-shredder gpu-sanitizer)
[[ $# -gt 0 ]] || set -- "${all_steps[@]}"
steps=()
for step in "$@"; do
	if [[ $step == gpu ]]; then
		steps+=("${gpu_steps[@]}")
	elif [[ $step == long ]]; then
		steps+=("${long_steps[@]}")
	elif [[ " ${all_steps[*]} ${long_steps[*]} ${gpu_steps[*]} " == *" $step "* ]]; then
		steps+=("$step")
	else
		echo "check.sh: unknown step '$step'; known are: ${all_steps[*]} long ${long_steps[*]} gpu ${gpu_steps[*]}" >&2
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

# tests NAME PRESET CTEST-OPTIONS...: runs CTest and counts every test it names. Two tests more at a time than there are processors:
# some wait for a disk, for a process, for each other.
tests() {
	local name=$1 preset=$2 log=$logs/${1// /-}.log junit=$PWD/$logs/${1// /-}.xml start=$SECONDS rc=0 counts
	shift 2
	rm -f "$junit"
	ctest --test-dir "build/$preset" --parallel "$(($(nproc) + 2))" --no-tests=error --output-on-failure \
		--test-output-truncation head --output-junit "$junit" "$@" >"$log" 2>&1 </dev/null || rc=$?
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

# build_and_test STEP PRESET CTEST-OPTIONS...: CTest only runs where the build worked. Programs of which only long tests run are
# for the long steps; release, where every source is compiled by itself, has them all.
build_and_test() {
	local target=all
	[[ $1 == *-long || $1 == release ]] || target=check-programs
	if run "$1 build" build "$2" "$target"; then
		tests "$1 tests" "$2" "${@:3}"
	fi
}

step_lint() {
	run "layout and shell" scripts/lint.sh --quick || return 0
}

step_release() {
	build_and_test release release --label-exclude 'fuse|long'
	run "headers C and C++" build release header-check || return 0
}

step_fuse() {
	if ! (exec 3<>/dev/fuse) 2>/dev/null; then
		skip "fuse tests" "/dev/fuse is missing or closed to this user"
	elif run "fuse build" build release all; then
		tests "fuse tests" release --label-regex fuse --label-exclude long
	fi
}

step_fuzz() { # step_fuzz SECONDS
	run "fuzz $1 s" env FUZZ_S="$1" scripts/fuzz.sh || return 0
}

# ---- on a machine with a GPU

# Names in directories: against a model, in one order, by many makers and in listings; where pages are tiny leaves are divided and united all
# the while.
gpu_names=(model linear listings model_tiny linear_tiny listings_tiny makers_tiny makers_equal_tiny)

build_gpu() {
	local tests
	cmake --preset cuda -D G4_TESTS=ON || return
	mapfile -t tests < <(cd tests/engine && printf '%s\n' test_api_*.c test_disks_engine.c |
		sed 's/^test_/test_engine_/; s/\.c$//')
	tests+=("${gpu_names[@]/#/test_engine_}")
	cmake --build build/cuda --target product gpu-programs crash_explorer cross "${tests[@]}" -- -k 0
}

# Once, before the first of these steps: the programs, and whether there is a GPU. False: there is nothing to run.
gpu_ready=
prepare_gpu() {
	if [[ -z $gpu_ready ]]; then
		gpu_ready=yes
		gpu_built=$(realpath -m "${GPU_BUILT:-build/cuda}")
		gpu_work=$(mktemp -d "${TMPDIR:-/tmp}/gpu4fs-check.XXXXXX")
		trap 'rm -rf "$gpu_work"' EXIT
		if [[ ! -e /dev/nvidiactl ]]; then
			skip "gpu tests" "there is no NVIDIA GPU here"
			gpu_ready=no
		elif [[ -z ${GPU_BUILT:-} ]] && ! run "gpu build" build_gpu; then
			gpu_ready=no
		fi
		gpu_until=$((SECONDS + ${GPU_S:-520}))
	fi
	[[ $gpu_ready == yes ]]
}

# gpu_test NAME COMMAND...: exit status 77 is a test that has nothing to test here. All of them have GPU_S seconds.
gpu_test() {
	local name=$1 log=$PWD/$logs/gpu-${1// /-}.log start=$SECONDS rc=0 left=$((gpu_until - SECONDS))
	shift
	if ((left <= 0)); then
		echo "GPU_S=${GPU_S:-520} seconds are over" >"$log"
		rc=1
	else
		(cd "$gpu_work" && timeout -k 5 $((left < 360 ? left : 360)) "$@") >"$log" 2>&1 </dev/null || rc=$?
	fi
	if [[ $rc -eq 77 ]]; then
		skip "gpu $name" "$(tail -n 1 "$log")"
	elif [[ $rc -ne 0 ]]; then
		fail "gpu $name" $((SECONDS - start)) "$log"
	else
		passed=$((passed + 1))
		report passed "gpu $name" $((SECONDS - start)) \
			"$(grep -aoE '[0-9]+ test\(s\) run|^[0-9]+ workloads, .*|^[0-9]+ passed, .*' "$log" | tail -n 1)"
	fi
}

# Programs that were made for a GPU.
step_gpu-device() {
	gpu_test "smoke" "$gpu_built/tests/gpu/smoke"
	gpu_test "device API" "$gpu_built/tests/gpu/device"
	gpu_test "sharing" "$gpu_built/tests/gpu/share" -t 0.5 -s 8,0
}

# Many threads, kills, a device that vanishes.
step_gpu-file() {
	gpu_test "image file" "$gpu_built/tests/gpu/file" -m 8192 -g 1 "$gpu_work/image"
	gpu_test "emulated controller" "$gpu_built/tests/gpu/file" -m 4096 -r 2 "emu:$gpu_work/image" tree kill
	gpu_test "drive's queues" "$gpu_built/tests/gpu/file" -m 4096 -r 1 -q 8 "emu:drive:$gpu_work/image" tree kill
}

step_gpu-shredder() {
	gpu_test "BLAKE3" "$gpu_built/tests/gpu/blake3"
	gpu_test "sums" "$gpu_built/tests/gpu/sums" -g 2 -r 1
	gpu_test "fsck --data" "$gpu_built/tests/gpu/fsck_data" -g 2 "$gpu_work/fsck-data"
	gpu_test "parity" "$gpu_built/tests/gpu/parity" -g 2 -r 1
	gpu_test "NVMe queues" "$gpu_built/tests/gpu/nvme" -c -s 0.2
	gpu_test "Shredder" "$gpu_built/tests/gpu/shredder" 4 # MiB; more takes minutes
	gpu_test "Shredder's backup" bash "$PWD/tests/gpu/backup.sh" "$gpu_built/bin/shredder"
}

# The tests of the public API: in this process, and through a server.
step_gpu-api() {
	local test name
	for test in "$gpu_built"/tests/test_engine_api_*; do
		name=${test##*/test_engine_}
		gpu_test "$name" env G4_TEST_ENGINE=cuda "$test"
		gpu_test "$name connected" env G4_TEST_ENGINE=cuda G4_TEST_CONNECTED=1 "$test"
	done
}

step_gpu-names() {
	local name
	for name in "${gpu_names[@]}"; do
		gpu_test "names $name" env G4_TEST_ENGINE=cuda G4_TEST_BATCH=1 G4_MODEL_STEPS=100 G4_LINEAR_ROUNDS=30 \
			G4_LISTINGS_ROUNDS=10 G4_MAKERS_STEPS=1000 "$gpu_built/tests/test_engine_$name"
	done
}

step_gpu-disks() {
	gpu_test "sets of disks" env G4_TEST_ENGINE=cuda G4_TEST_LEVELS=014 "$gpu_built/tests/test_engine_disks_engine"
	gpu_test "sets in memory" env G4_TEST_ENGINE=cuda G4_TEST_MAPPED=1 G4_TEST_LEVELS=0123 "$gpu_built/tests/test_engine_disks_engine"
}

step_gpu-images() {
	gpu_test "images of both engines" env G4_TEST_ENGINE=cuda "$gpu_built/tests/cross"
}

# GPU_CRASH has other options for it: --sample 1000 --seconds 400, for example.
step_gpu-crash() {
	local options
	read -ra options <<<"${GPU_CRASH:---sample 200 --seconds 75}"
	gpu_test "crash explorer" "$gpu_built/tests/crash_explorer" --engine cuda --mixes 60 --jobs 4 --keep "$PWD/$logs" \
		"${options[@]}"
}

# GPU_FUSE names some of them: "basic kill".
step_gpu-fuse() {
	local test name
	for test in tests/fuse/test_*.sh; do
		name=${test##*/test_}
		name=${name%.sh}
		[[ -z ${GPU_FUSE:-} || " $GPU_FUSE " == *" $name "* ]] || continue
		gpu_test "fuse $name" env GPU4FS="$gpu_built/bin/gpu4fs" GPU4FS_MOUNT=engine=cuda bash "$PWD/$test"
	done
}

step_gpu-sanitizer() {
	local tool
	if [[ -z $(PATH=$PATH:/usr/local/cuda/bin type -P compute-sanitizer) ]]; then
		skip "gpu memcheck, racecheck" "compute-sanitizer is not installed"
		return
	fi
	for tool in memcheck racecheck; do
		gpu_test "$tool" env PATH="$PATH:/usr/local/cuda/bin" compute-sanitizer --tool "$tool" --error-exitcode 1 \
			"$gpu_built/tests/gpu/smoke" 16 10
	done
}

step_cuda() {
	if [[ -z $(PATH=$PATH:/usr/local/cuda/bin type -P nvcc) ]]; then
		skip "cuda build" "nvcc is not installed"
	else
		run "cuda build" build cuda-check all || return 0
		run "headers CUDA" build cuda-check header-check || return 0
	fi
}

[[ -n ${GPU_BUILT:-} ]] || scripts/install-deps.sh check
for step in "${steps[@]}"; do
	case $step in
	gpu-*) if prepare_gpu; then "step_$step"; fi ;;
	lint | release | fuse | cuda) "step_$step" ;;
	fuzz) step_fuzz "${FUZZ_S:-60}" ;;
	fuzz-long) step_fuzz "${FUZZ_LONG_S:-600}" ;;
	*-long) build_and_test "$step" "${step%-long}" --label-regex long ;;
	*) build_and_test "$step" "$step" --label-exclude 'fuse|long' ;;
	esac
done

echo
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
