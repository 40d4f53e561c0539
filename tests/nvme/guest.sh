#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The NVMe driver through VFIO, in virtual machines: QEMU's controllers, QEMU's IOMMU, a Debian kernel; no KVM needed. A machine is
# made of files of this build and of the packages qemu-system-x86, busybox-static and linux-image-cloud-amd64, of which the last one is
# unpacked and not installed. docs/nvme.md says what runs in it.
# Usage: guest.sh [-a] [-j MACHINES] [-p FOLDER] BUILD [TEST...]
#   BUILD  a build with tests, or a folder that -p has made
#   TEST   what guest_init.sh calls a test, all without one; 'short' are those that take seconds, for `make check`; 'engine' are all
#          of engine_*; 'trace' shows commands
#   -a     all tests of the engine that take any device by its name (engine_tests), besides TEST...
#   -j     each test in a machine of its own, so many at a time; otherwise all of them in one machine, one after another, but 'narrow',
#          which wants another IOMMU
#   -p     makes a folder of what the machines start from, and of these scripts, and starts none: it can be taken to where there are only
#          QEMU, bash and util-linux
# Without what it needs it says so in a line and ends with 77.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/nvme/machine.sh
. "$here/machine.sh"
usage() { echo "usage: guest.sh [-a] [-j MACHINES] [-p FOLDER] BUILD [TEST...]" >&2; exit 2; }
machines="" pack="" all=""
while getopts aj:p: option; do
	case $option in
	a) all="engine_rest engine_long " ;;
	j) machines=$OPTARG ;;
	p) pack=$(realpath "$OPTARG") ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[[ $# -gt 0 && $machines =~ ^([1-9][0-9]*)?$ ]] || usage
build=$(realpath "$1")
shift
limit=${G4_GUEST_LIMIT:-3600} # seconds for a machine
packed="" work=$build/tests/nvme-guest
[ ! -e "$build/initrd.gz" ] || packed=yes work=$build
mkdir -p "$work"
cd "$work"
exec 9>lock
flock 9 # one at a time in a build

# Binding comes first: the others want it. Then those that take long, so that they begin early where there are several machines.
engine="engine_shift engine_model engine_sync engine_txn"
tests=" $* "
[[ ${tests// trace / } == *[^\ ]* ]] ||
	tests+="binding mounting strangers $engine explorer faults programs partitions data killed events reset errors limits asked unbinding removal narrow "
tests+=$all
patience=1800 # seconds for the download; in `make check` less than tests/watch.py gives a test that waits
[[ $tests != *" short "* ]] || patience=100
tests=${tests/ short / binding data killed reset errors limits unbinding }
tests=${tests/ engine / $engine }
wants() { [[ $tests == *" $1 "* ]]; } # TEST
needed=(qemu-system-x86_64 setpriv)
if [ -z "$packed" ]; then
	needed+=(busybox dpkg-deb apt-get)
	! wants partitions || needed+=(sfdisk)
	! wants programs && ! wants rates || needed+=(fio)
fi
need "${needed[@]}"
fetch_kernel "$patience"
kernel=$(find_kernel)

# ---- for noiommu: Debian's VFIO has no such mode, so that its module is made anew from the kernel's source ----
make_vfio() {
	local release version package folder
	release=$(basename kernel/lib/modules/*)
	version=$(cut -d. -f1-2 <<<"$release")
	folder=usr/src/linux-headers-$release
	rm -rf vfio
	mkdir -p vfio
	cd vfio
	for package in "linux-headers-$release" "linux-headers-${release%-cloud*}-common" "linux-kbuild-$version" "linux-source-$version"; do
		download "$patience" "$package"
		dpkg-deb --extract "$package"_*.deb .
	done
	tar --extract --file usr/src/linux-source-*.tar.xz --strip-components 1 --wildcards '*/drivers/vfio/*'
	sed -i "s|/usr/|$PWD/usr/|" "$folder/Makefile"
	rm -f "$folder"/{scripts,tools}
	ln -s "$PWD"/usr/lib/linux-kbuild-*/{scripts,tools} "$folder"
	make -s -C "$folder" M="$PWD/drivers/vfio" CONFIG_VFIO_NOIOMMU=y KCFLAGS=-DCONFIG_VFIO_NOIOMMU=1 modules
	cp drivers/vfio/vfio.ko .
	rm -rf ./*.deb usr lib drivers
	cd ..
}
! wants noiommu || [ -n "$packed" ] || [ -e vfio/vfio.ko ] || make_vfio

# ---- more tests of the engine: engine_rest, engine_long ----
list() { sed '/^#/d' "$here/engine_tests"; }
named_in_list() {
	! wants engine_rest || list | grep -v '^long ' || :
	! wants engine_long || list | sed -n 's/^long //p'
}

# ---- the machines' root: busybox, programs with their libraries, modules ----
make_root() {
	local programs=("$build/gpu4fs") program
	new_root "$here/guest_init.sh"
	list >root/etc/engine_tests
	[ -x "${programs[0]}" ] || programs=("$build/bin/gpu4fs")
	programs+=("$(type -P setpriv)")
	! wants partitions || programs+=("$(type -P sfdisk)")
	! wants programs && ! wants rates || programs+=("$(type -P fio)")
	! wants explorer || programs+=("$build/tests/crash_explorer")
	! wants faults || programs+=("$build/tests/faults")
	! wants rates || programs+=("$build/bin/nvme_rate")
	! wants noiommu || programs+=("$build/tests/test_unit_nvme_huge")
	for program in $engine; do
		! wants "$program" || programs+=("$build/tests/test_$program")
	done
	for program in $(named_in_list); do
		programs+=("$build/tests/test_engine_$program")
	done
	readarray -t programs < <(printf '%s\n' "${programs[@]}" | sort -u)
	add_programs "${programs[@]}"
	add_modules irqbypass vfio vfio_iommu_type1 vfio_virqfd vfio-pci-core vfio-pci fuse
	! wants noiommu || cp vfio/vfio.ko root/lib/modules/
	pack_root "$1"
}
initrd=$work/initrd.gz
if [ -n "$pack" ]; then
	[ -z "$packed" ] || usage
	mkdir -p "$pack/kernel/boot"
	cp "$kernel" "$pack/kernel/boot/"
	cp "$here"/{guest,machine}.sh "$pack/"
	make_root "$pack/initrd.gz"
	exit 0
fi
if [ -z "$packed" ]; then
	initrd=$work/initrd.now
	make_root "$initrd"
fi

# ---- drives: two namespaces of one controller with both formats, one with small transfers, one that fails once, one that the kernel
# keeps, one that can not be read in the middle, two functions of one card, one without a first namespace, two in slots that they can be
# pulled out of ----
make_drives() { # FOLDER
	local image
	rm -rf "$1"
	mkdir -p "$1"
	for image in a b c d e f g h i j k; do
		truncate --size 160M "$1/$image.img"
	done
	printf '[inject-error]\nevent = "%s"\nerrno = "5"\nonce = "on"\nsector = "8192"\n\n' pwritev read_aio >"$1/once.conf"
	printf '[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "163840"\n' >"$1/always.conf"
	mkfifo "$1"/monitor.{in,out}
}

# A machine asks its host for something with a line that is for QEMU's monitor.
listen() { # FOLDER
	local line
	while IFS= read -r line; do
		printf '%s\n' "$line"
		line=${line%$'\r'}
		[[ $line != "MONITOR: "* ]] || printf '%s\n' "${line#MONITOR: }" 1<>"$1/monitor.in"
	done
}

drive() { echo "-drive id=$1,file=${2:-$1.img},format=raw,if=none,cache=unsafe,discard=unmap"; }
slot() { # NAME IMAGE NUMBER: with a drive in it
	echo "-blockdev driver=raw,node-name=$1,discard=unmap,cache.no-flush=on,file.driver=file,file.filename=$2.img" \
		"-device pcie-root-port,id=port$3,chassis=$3,addr=0x$(printf %x $((9 + $3))) -device nvme,id=$1,serial=$1,bus=port$3,drive=$1"
}
# shellcheck disable=SC2046
start() { # FOLDER TEST...: in a machine with the drives there
	local tests=${*:2} bits=48 words="intel_iommu=on " iommu nodes=()
	[[ " $tests " != *" narrow "* ]] || bits=39
	iommu=(-device "intel-iommu,caching-mode=on,aw-bits=$bits")
	if [[ " $tests " == *" noiommu "* ]]; then
		iommu=() words=""
		nodes=(-object "memory-backend-ram,id=m0,size=512M" -object "memory-backend-ram,id=m1,size=512M"
			-numa "node,memdev=m0,cpus=0" -numa "node,memdev=m1,cpus=1")
	fi
	cd "$1"
	emulate "$limit" "$work/$kernel" "$initrd" "${words}tests=${tests// /,}" -m 1024 "${nodes[@]}" \
		-chardev pipe,id=monitor,path=monitor -mon chardev=monitor,mode=readline \
		-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off "${iommu[@]}" \
		$(drive a) $(drive b) $(drive c) $(drive d blkdebug:once.conf:d.img) $(drive e) $(drive f blkdebug:always.conf:f.img) \
		$(drive g) $(drive h) $(drive k) \
		-device nvme,id=one,serial=one,addr=4 \
		-device nvme-ns,bus=one,drive=a,nsid=1,logical_block_size=512 \
		-device nvme-ns,bus=one,drive=b,nsid=2,logical_block_size=4096,physical_block_size=4096 \
		-device nvme,id=two,serial=two,addr=5,drive=c,mdts=3,logical_block_size=4096,physical_block_size=4096 \
		-device nvme,id=three,serial=three,addr=6,drive=d \
		-device nvme,id=four,serial=four,addr=7,drive=e \
		-device nvme,id=five,serial=five,addr=8,drive=f \
		-device nvme,id=six,serial=six,addr=9.0,multifunction=on,drive=g -device nvme,id=seven,serial=seven,addr=9.1,drive=h \
		-device nvme,id=eight,serial=eight,addr=c -device nvme-ns,bus=eight,drive=k,nsid=3 \
		$(slot hot i 1) $(slot late j 2) </dev/null 9>&- |
		listen .
}

machine() { # FOLDER TEST...: true where all of them passed
	local sum
	make_drives "$1"
	(start "$@") | tee "$1/log"
	grep -q '^GUEST: all tests passed' "$1/log" || return 1
	# the drive that was pulled is looked at by another machine, in which it is in its slot
	sum=$(sed -n 's/^PULLED: \([0-9a-f]*\).*/\1/p' "$1/log")
	[ -n "$sum" ] || return 0
	(start "$1" "pulled:$sum") | tee "$1/log"
	grep -q '^GUEST: all tests passed' "$1/log"
}

if [ -z "$machines" ]; then
	failed=0 others=${tests/ narrow / }
	# shellcheck disable=SC2086
	[[ $others != *[^\ ]* ]] || machine one $others || failed=1
	! wants narrow || machine one narrow || failed=1
	exit "$failed"
fi

# ---- several machines: what they say is shown when they end ----
began=$SECONDS
own() { # TEST
	local since=$SECONDS status=passed wanted=$1 trace=""
	[[ " binding noiommu narrow " == *" $1 "* ]] || wanted="binding $1"
	! wants trace || trace=trace
	mkdir -p several
	# shellcheck disable=SC2086
	(machine "several/$1" $trace $wanted) >"several/$1.log" 2>&1 || status=FAILED
	flock several.lock cat "several/$1.log"
	echo "MACHINE: $1 $status ($((SECONDS - since)) s with its start)"
	[ "$status" = passed ]
}
failed=0 running=0
ended() { wait -n || failed=$((failed + 1)); }
rm -rf several
for test in $tests; do
	[ "$test" != trace ] || continue
	if [ "$running" -ge "$machines" ]; then
		ended
	else
		running=$((running + 1))
	fi
	own "$test" &
done
for ((; running > 0; running--)); do
	ended
done
echo "MACHINES: $failed failed ($((SECONDS - began)) s)"
[ "$failed" -eq 0 ]
