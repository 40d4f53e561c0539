#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a command of the Makefile needs; does nothing when they are there.
# Usage: install-deps.sh [build|demo|check|bench|lint|nvme|plot]...   (default: build)
set -euo pipefail

declare -A packages=(
	[build]="cmake gcc g++ libcurl4-gnutls-dev libfuse3-dev libgnutls28-dev libmicrohttpd-dev libsodium-dev liburing-dev
		libzstd-dev make ninja-build pkg-config"
	[demo]="diffutils fuse3 git python3 sqlite3"
	[check]="acl attr busybox-static clang clang-format fio fuse3 git libacl1-dev libclang-rt-14-dev libcmocka-dev lld openssl python3
		qemu-system-x86 shellcheck sqlite3 util-linux zsh"
	[bench]="borgbackup btrfs-progs casync duperemove e2fsprogs fuse3 gnuplot-nox libisal2 python3 restic time util-linux xfsprogs"
	[nvme]="busybox-static fdisk fio qemu-system-x86 util-linux"
	[plot]="gnuplot-nox"
	[lint]="clang clang-format clang-tidy cppcheck libcmocka-dev python3 shellcheck"
)

sets=(build "$@")
wanted=()
for set in "${sets[@]}"; do
	if [[ -z ${packages[$set]+known} ]]; then
		echo "install-deps.sh: unknown set '$set'; known are: ${!packages[*]}" >&2
		exit 2
	fi
	read -ra list <<<"${packages[$set]//$'\n'/ }"
	wanted+=("${list[@]}")
done

if [[ -z $(type -P dpkg-query) || -z $(type -P apt-get) ]]; then
	echo "install-deps.sh: this is not Debian; what gpu4fs needs is called there: ${wanted[*]}" >&2
	exit 0
fi

installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
missing=()
for package in "${wanted[@]}"; do
	grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
	exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
	if [[ -z $(type -P sudo) ]]; then
		echo "install-deps.sh: as root, run: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
fi
echo "Installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Another program may be installing at the moment: wait for its locks, ten minutes at most. apt-get waits for dpkg's when told
# to, for that of its own lists never.
apt=("${as_root[@]}" apt-get -o DPkg::Lock::Timeout=600 -qq)
for ((tries = 60; ; tries--)); do
	errors=$(LC_ALL=C "${apt[@]}" update 2>&1) && break
	if ((tries == 0)) || [[ $errors != *"is held by process"* ]]; then
		printf '%s\n' "$errors" >&2
		exit 1
	fi
	sleep 10
done
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
