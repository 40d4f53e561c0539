#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static checks. Usage: lint.sh [--quick]   (--quick: layout and shell scripts only, seconds)
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
[[ ${1:-} == --quick ]] && quick=true
$quick || scripts/install-deps.sh lint

mapfile -t c_files < <(find src include shredder tests bench \( -name '*.[ch]' -o -name '*.cu' \) | sort)
mapfile -t shell_files < <(find .ci scripts tests bench \( -name '*.sh' -o -path .ci/run \) | sort)
status=0

echo "clang-format: ${#c_files[@]} files"
clang-format --dry-run --Werror "${c_files[@]}" || status=1
echo "shellcheck: ${#shell_files[@]} files"
shellcheck "${shell_files[@]}" || status=1
$quick && exit "$status"

cmake --preset debug >/dev/null
mapfile -t sources < <(find src shredder -name '*.c' -not -path 'src/simt/lanes/*' -not -path 'src/simt/cuda/*' | sort)
echo "cppcheck: ${#sources[@]} files"
cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	-j "$(nproc)" -Isrc -Iinclude -Ishredder -D_GNU_SOURCE -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
	--suppressions-list=scripts/cppcheck.txt "${sources[@]}" || status=1
echo "clang-tidy: ${#sources[@]} files"
printf '%s\0' "${sources[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy --quiet -p build/debug || status=1
exit "$status"
