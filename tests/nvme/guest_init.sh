#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The first process of the machine that guest.sh makes: gives controllers to VFIO, runs the tests, and switches the machine off. A test is a
# function below.
export PATH=/usr/bin:/bin HOME=/tmp CMOCKA_MESSAGE_OUTPUT=STDOUT
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/mounts /etc/mtab
for module in irqbypass vfio vfio_iommu_type1 vfio_virqfd vfio-pci-core vfio-pci fuse; do
	[ ! -e /lib/modules/$module.ko ] || insmod /lib/modules/$module.ko
done
cd /tmp || exit 1

one=0000:00:04.0 two=0000:00:05.0 three=0000:00:06.0 four=0000:00:07.0 five=0000:00:08.0 six=0000:00:09.0 seven=0000:00:09.1
port=0000:00:0a.0 hot=0000:01:00.0 late=0000:02:00.0 eight=0000:00:0c.0
failed=

fails() { # WORDS COMMAND...: it must fail and say so
	words=$1
	shift
	if "$@" >out 2>&1; then
		echo "succeeded: $*"
		return 1
	fi
	grep -q "$words" out && return 0
	echo "'$*' says:"
	cat out
	return 1
}

awaits() { # COMMAND...: until it succeeds, for some minutes at most
	tries=2000
	until "$@"; do
		tries=$((tries - 1))
		if [ $tries -eq 0 ]; then
			echo "in vain: $*"
			return 1
		fi
		sleep 0.1
	done
}

appears() { # the kernel looks at a drive in its own time
	awaits [ -e "$1" ]
}

seconds() { cut -d. -f1 /proc/uptime; } # since the start
mounted() { grep -q ' /mnt ' /proc/mounts; }
nobody_serves() { ! pidof gpu4fs >/dev/null; }

served() { # DEVICE: mounts it
	gpu4fs mount "$1" /mnt && mounted
}

unserved() { # DEVICE: unmounts it, waits for its server, checks it
	umount /mnt && awaits nobody_serves && gpu4fs fsck "$1"
}

driver() { basename "$(readlink "/sys/bus/pci/devices/$1/driver")"; } # ADDRESS
disk() { # ADDRESS: of the kernel's driver, which looks at a drive in its own time
	appears "/sys/bus/pci/devices/$1/nvme" || return 1
	name=/dev/$(ls "/sys/bus/pci/devices/$1/nvme")n1
	appears "$name" && echo "$name"
}
# A mount that has become read-only may be busy for a moment: its server shows it in the kernel's table.
is_read_only() { ! dd if=/tmp/data of=/mnt/never bs=64k conv=fsync 2>out && grep -q "Read-only" out; }

binding() {
	gpu4fs nvme list &&
		fails "no such PCI device" gpu4fs nvme bind 0000:00:1e.7 &&
		fails "is no NVMe controller" gpu4fs nvme bind 0000:00:00.0 &&
		fails "gpu4fs nvme bind" gpu4fs info "nvme:$one" || return 1
	# what the kernel uses is not taken away
	gpu4fs mkfs -q /dev/nvme3n1 && fails "gpu4fs" gpu4fs nvme bind "$four" || return 1
	gpu4fs nvme bind --force "$four" && gpu4fs nvme unbind "$four" && appears /sys/block/nvme3n1 || return 1
	# one whose only namespace is the third one
	gpu4fs nvme bind "$eight" && gpu4fs nvme id "$eight" && gpu4fs nvme log "$eight" >out && grep -q "media errors" out &&
		fails "namespace 1 is not there" gpu4fs info "nvme:$eight" &&
		gpu4fs nvme test --destructive "$eight/3" && gpu4fs nvme unbind "$eight" || return 1
	for address in "$one" "$two" "$three" "$five"; do
		gpu4fs nvme bind "$address" || return 1
	done
	gpu4fs nvme bind "$one" && # once more does no harm
		gpu4fs nvme list && gpu4fs nvme id "$one" && gpu4fs nvme log "$one"
}

# mount takes a drive of which nothing is in use, and the kernel has it when umount returns, or when nothing can be mounted.
mounting() {
	disk=$(disk "$four") && gpu4fs mkfs -q -f "$disk" && served "nvme:$four" && [ "$(driver "$four")" = vfio-pci ] || return 1
	cp /tmp/data /mnt/data && gpu4fs umount /mnt && [ "$(driver "$four")" = nvme ] || return 1
	# queues for a GPU, where there is none: refused before the drive is taken, or when the engine is missing, or of no use
	fails "needs engine=cuda or auto" gpu4fs mount -o gpu_queues=4 "nvme:$four" /mnt && [ "$(driver "$four")" = nvme ] || return 1
	fails "CUDA" gpu4fs mount -o engine=cuda,gpu_queues=4 "nvme:$four" /mnt && [ "$(driver "$four")" = nvme ] || return 1
	gpu4fs mount -o engine=auto,gpu_queues=4 "nvme:$four" /mnt && cmp /tmp/data /mnt/data && gpu4fs umount /mnt || return 1
	[ "$(driver "$four")" = nvme ] && disk=$(disk "$four") && gpu4fs fsck "$disk" && served "$disk" && cmp /tmp/data /mnt/data || return 1
	mkdir -p other && fails "mounted on /mnt" gpu4fs mount "nvme:$four" other && [ "$(driver "$four")" = nvme ] || return 1
	umount /mnt && awaits nobody_serves && dd if=/dev/zero of="$disk" bs=64k count=64 conv=fsync 2>out || return 1
	fails "gpu4fs" gpu4fs mount "nvme:$four" /mnt && [ "$(driver "$four")" = nvme ]
}

# Two functions that could reach each other behind the IOMMU's back are one group, and one program's.
strangers() {
	gpu4fs nvme bind "$six" && fails "can not tell it from.*$seven" gpu4fs info "nvme:$six" &&
		gpu4fs nvme bind "$seven" && gpu4fs nvme test --destructive "$six" &&
		gpu4fs nvme unbind "$six" && gpu4fs nvme unbind "$seven"
}

data() {
	for device in "$one" "$one/2" "$two"; do
		fails "destructive" gpu4fs nvme test "$device" || return 1
		gpu4fs nvme test --destructive "$device" || return 1
	done
	gpu4fs nvme test --destructive "$two" >out && grep -q "by queues for a GPU: all as it was written" out || return 1
	fails "namespace 3 is not there" gpu4fs nvme test --destructive "$one/3"
}

# The kernel's driver and sfdisk make partitions in namespaces with blocks of 512 B and 4 KiB; the engine uses some of them as one file
# system, and others at the same time as another one. Then the kernel finds each file system where its own driver has the partition.
partitions() {
	for address in "$one" "$two" "$three"; do
		[ ! -e "/sys/bus/pci/drivers/vfio-pci/$address" ] || gpu4fs nvme unbind "$address" || return 1
	done
	appears "/sys/bus/pci/devices/$one/nvme" || return 1
	name=$(ls "/sys/bus/pci/devices/$one/nvme")
	appears "/dev/${name}n1" && appears "/dev/${name}n2" || return 1
	for space in 1 2; do
		printf 'label: gpt\nsize=60M\nsize=60M\n' | sfdisk -q --wipe always "/dev/${name}n$space" || return 1
		appears "/dev/${name}n${space}p2" || return 1
	done
	fails "gpu4fs" gpu4fs nvme bind "$one" # it has partitions
	gpu4fs nvme bind --force "$one" && fails "partition 3" gpu4fs info "nvme:$one/1/3" || return 1
	for partition in 1/1 2/1; do
		gpu4fs mkfs -q "nvme:$one/$partition" && gpu4fs fsck "nvme:$one/$partition" || return 1
	done
	gpu4fs mkfs -q --raid 1 "nvme:$one/1/2" "nvme:$one/2/2" || return 1
	gpu4fs mount -o "device=nvme:$one/2/2" "nvme:$one/1/2" /mnt && cp /tmp/data /mnt/data && umount /mnt || return 1
	awaits nobody_serves && gpu4fs fsck "nvme:$one/1/2" "nvme:$one/2/2" || return 1
	served "nvme:$one/2/1" && cp /tmp/data /mnt/data && unserved "nvme:$one/2/1" || return 1
	gpu4fs nvme unbind "$one" && appears "/sys/bus/pci/devices/$one/nvme" || return 1
	name=$(ls "/sys/bus/pci/devices/$one/nvme")
	appears "/dev/${name}n1p2" && appears "/dev/${name}n2p2" || return 1
	gpu4fs fsck "/dev/${name}n1p1" && gpu4fs fsck "/dev/${name}n1p2" "/dev/${name}n2p2" || return 1
	served "/dev/${name}n2p1" && cmp /tmp/data /mnt/data && unserved "/dev/${name}n2p1" || return 1
	for space in 1 2; do
		sfdisk -q --delete "/dev/${name}n$space" || return 1
	done
	for address in "$one" "$two" "$three"; do
		gpu4fs nvme bind --force "$address" || return 1
	done
}

# fio's programs through FUSE, each block verified, with blocks of both formats.
programs() {
	for device in "nvme:$one" "nvme:$two"; do
		gpu4fs mkfs -q -f "$device" && served "$device" || return 1
		fio --name=fio --directory=/mnt --rw=randrw --bsrange=4k-128k --size=12M --numjobs=2 --fsync=32 --ioengine=psync \
			--verify=crc32c --verify_fatal=1 --randrepeat=1 --minimal >out 2>&1 || { cat out; return 1; }
		fio --name=fio --directory=/mnt --rw=write --bs=1M --size=12M --numjobs=2 --end_fsync=1 --ioengine=psync \
			--verify=crc32c --verify_fatal=1 --minimal >out 2>&1 || { cat out; return 1; }
		unserved "$device" || return 1
	done
}

# The engine's tests. An emulated processor takes long for shift and model, so that one device has each of them.
engine_on() { # PROGRAM DEVICE...
	program=$1
	shift
	for device; do
		began=$(seconds)
		G4_TEST_DEVICE="nvme:$device" "test_engine_$program" >out 2>&1 || { cat out; return 1; }
		echo "$device: $program ($(($(seconds) - began)) s)"
	done
}
engine_sync() { engine_on sync "$one" "$one/2" "$two"; }
engine_txn() { engine_on txn "$one" "$one/2" "$two"; }
engine_shift() { G4_SHIFT_STRIDE=32 engine_on shift "$one/2"; }
engine_model() { G4_MODEL_STEPS=100 engine_on model "$two"; }

# All others that take a device (guest.sh): one that fails does not keep the next ones from their turn.
engine_each() { # PROGRAM...
	bad=0 count=0
	for each; do
		count=$((count + 1))
		engine_on "$each" "$two" || { echo "$each FAILED"; bad=$((bad + 1)); }
	done
	echo "$count programs, $bad failed"
	[ $bad -eq 0 ]
}
# shellcheck disable=SC2046 # names without blanks
engine_rest() { engine_each $(grep -v '^long ' /etc/engine_tests); }
# shellcheck disable=SC2046
engine_long() { engine_each $(sed -n 's/^long //p' /etc/engine_tests); }

# The crash explorer, with a drive in the place of its memory: states are written to it, recovered from it, and each read is compared.
explorer() {
	for device in "$two" "$one/2"; do
		began=$(seconds)
		crash_explorer --drive "nvme:$device" --sample 2 --mixes 20 >out 2>&1 || { cat out; return 1; }
		echo "$device: $(grep workloads out) ($(($(seconds) - began)) s)"
	done
}

# What runs out or goes away, with a drive in the place of the memory: one of so many cases.
faults() {
	for device in "$one/2" "$two"; do
		began=$(seconds)
		G4_TEST_DRIVE="nvme:$device" G4_FAULTS_EVERY=40 /usr/bin/faults >out 2>&1 || { cat out; return 1; }
		echo "$device: $(grep -c OK out) tests, $(grep cases out | awk '{ n += $1 } END { print n }') cases ($(($(seconds) - began)) s)"
	done
}

# A server that is killed leaves a controller that works; the next one resets it, and what was synchronised is there.
killed() {
	gpu4fs mkfs -q -f "nvme:$one" || return 1
	gpu4fs mount -f "nvme:$one" /mnt &
	server=$!
	awaits mounted || return 1
	dd if=/tmp/data of=/mnt/data bs=64k conv=fsync 2>/dev/null || return 1
	(while cp /tmp/data /mnt/more; do :; done) 2>/dev/null &
	awaits [ -s /mnt/more ] && fails "in use by another program" gpu4fs nvme unbind "$one" || return 1
	kill -9 $server
	wait
	umount -l /mnt
	gpu4fs fsck "nvme:$one" || return 1
	gpu4fs mount "nvme:$one" /mnt && cmp /tmp/data /mnt/data && umount /mnt || return 1
	awaits nobody_serves || return 1
	gpu4fs fsck "nvme:$one"
}

# Errors that happen once are overcome; one that stays is told.
errors() {
	gpu4fs nvme test --destructive "$three" && fails "input/output error" gpu4fs nvme test --destructive "$five"
}

# A drive that warns while it is mounted: its server says so, once, and goes on.
events() {
	gpu4fs mkfs -q -f "nvme:$two" || return 1
	gpu4fs mount -f "nvme:$two" /mnt 2>said &
	awaits mounted || return 1
	echo "MONITOR: qom-set /machine/peripheral/two smart_critical_warning 4"
	awaits grep "the drive warns that errors have made it less reliable" said || return 1
	cp /tmp/data /mnt/data && sync /mnt/data && cmp /tmp/data /mnt/data && umount /mnt || return 1
	wait
	[ "$(grep -c "the drive warns" said)" -eq 1 ] && gpu4fs fsck "nvme:$two" && gpu4fs nvme log "$two" >out && grep "warnings.*4" out
}

# Somebody resets a drive that is mounted: the server resets it again and goes on, or, if that may have lost something, fails soon. What
# was synchronised is there in any case.
reset() {
	gpu4fs mkfs -q -f "nvme:$two" && gpu4fs mount "nvme:$two" /mnt && cp /tmp/data /mnt/data && sync /mnt/data || return 1
	echo 1 >"/sys/bus/pci/devices/$two/reset" || return 1
	went_on=
	dd if=/tmp/data of=/mnt/more bs=64k conv=fsync && went_on=yes
	awaits umount /mnt && awaits nobody_serves || return 1
	gpu4fs fsck -y "nvme:$two" || [ $? -eq 1 ] || return 1
	gpu4fs mount "nvme:$two" /mnt && cmp /tmp/data /mnt/data || return 1
	[ -z "$went_on" ] || cmp /tmp/data /mnt/more || return 1
	cp /tmp/data /mnt/again && umount /mnt || return 1
	awaits nobody_serves && gpu4fs fsck "nvme:$two"
}

# The kernel wants a drive back that is mounted: its server writes what is in memory, and lets go of it. Once as root does it, and once as
# a slot does whose button somebody has pressed.
asked() {
	disk=$(disk "$four") && gpu4fs mkfs -q -f "$disk" && served "nvme:$four" && cp /tmp/data /mnt/data || return 1
	echo 1 >"/sys/bus/pci/devices/$four/remove" & # it waits for the server
	awaits [ ! -e "/sys/bus/pci/devices/$four" ] && awaits is_read_only && awaits umount /mnt && awaits nobody_serves || return 1
	echo 1 >/sys/bus/pci/rescan
	disk=$(disk "$four") && gpu4fs fsck "$disk" && served "$disk" && cmp /tmp/data /mnt/data && umount /mnt || return 1
	awaits nobody_serves && disk=$(disk "$late") && gpu4fs mkfs -q -f "$disk" || return 1
	gpu4fs mount -f "nvme:$late" /mnt 2>said &
	awaits mounted && cp /tmp/data /mnt/data || return 1
	(while cp /tmp/data /mnt/more && sync /mnt/more; do :; done) 2>/dev/null &
	writer=$!
	echo "MONITOR: device_del late"
	wait $writer # it ends when it gets an error
	awaits [ ! -e "/sys/bus/pci/devices/$late" ] && grep "it is to be removed" said && awaits is_read_only && awaits umount /mnt || return 1
	awaits nobody_serves || return 1
	echo "MONITOR: device_add nvme,id=again,serial=late,bus=port2,drive=late"
	disk=$(disk "$late") && gpu4fs fsck "$disk" && served "$disk" && cmp /tmp/data /mnt/data && umount /mnt
}

# A drive is tested, which says what is expected, and keeps a file.
keeps() { # WORDS DEVICE
	gpu4fs nvme test --destructive "$2" >out 2>&1 || { cat out; return 1; }
	grep "$1" out || return 1
	gpu4fs mkfs -q -f "nvme:$2" && served "nvme:$2" && cp /tmp/data /mnt/data || return 1
	unserved "nvme:$2" && served "nvme:$2" && cmp /tmp/data /mnt/data && unserved "nvme:$2"
}

# An IOMMU of 39 bits, as in many a desktop, which has none of the addresses of a process. In a machine of its own (guest.sh).
narrow() {
	gpu4fs nvme bind "$one" && gpu4fs nvme bind "$two" || return 1
	for device in "$one/2" "$two"; do
		keeps . "$device" || return 1
		! grep "data is copied" out || return 1
	done
	gpu4fs nvme unbind "$one" && gpu4fs nvme unbind "$two" && served "$(disk "$two")" && cmp /tmp/data /mnt/data
}

# Without an IOMMU, in a machine of its own (guest.sh): the kernel is told that it is to be so, and needs a huge page for the driver.
noiommu() {
	fails "vfio-pci does not take it" gpu4fs nvme bind "$one" || return 1
	[ "$(driver "$one")" = nvme ] && echo 1 >/sys/module/vfio/parameters/enable_unsafe_noiommu_mode || return 1
	gpu4fs nvme bind "$one" && gpu4fs nvme bind "$two" && gpu4fs nvme list || return 1
	fails "no huge page of 2 MiB" gpu4fs info "nvme:$one" && echo 4 >/proc/sys/vm/nr_hugepages || return 1
	fails "no permission" as_nobody gpu4fs info "nvme:$one" || return 1
	test_unit_nvme_huge || return 1
	for device in "$one" "$one/2" "$two"; do
		keeps "there is no IOMMU" "$device" || return 1
	done
	gpu4fs nvme unbind "$one" && gpu4fs nvme unbind "$two" && served "$(disk "$two")" && cmp /tmp/data /mnt/data
}

# A drive is pulled while it is written to: its slot loses its power without a word to the kernel. Writers get errors, unmounting ends,
# other drives go on. Whether what was synchronised is on it, another machine sees (pulled). The last test, for the server does not end
# here: Linux 6.1 waits for minutes for a drive that is gone when its user lets go of it.
removal() {
	gpu4fs nvme bind "$hot" && gpu4fs mkfs -q -f "nvme:$hot" && served "nvme:$hot" || return 1
	cp /tmp/data /mnt/data && sync /mnt/data || return 1
	(while cp /tmp/data /mnt/more && sync /mnt/more; do :; done) 2>/dev/null &
	writer=$!
	awaits [ -s /mnt/more ] || return 1
	# Slot Control: power off, power indicator off
	slot=$(($(capability "$port" 10) + 24))
	printf '\007' | dd of="/sys/bus/pci/devices/$port/config" bs=1 seek=$((slot + 1)) conv=notrunc 2>/dev/null || return 1
	wait $writer # it ends when it gets an error
	fails "Read-only" dd if=/tmp/data of=/mnt/never bs=64k conv=fsync || return 1
	gpu4fs nvme bind --force "$two" && gpu4fs nvme test --destructive --force "$two" || return 1
	awaits umount /mnt || return 1
	echo "PULLED: $(sha256sum </tmp/data | cut -c1-64)"
}
config() { od -An -tu1 -j "$2" -N 1 "/sys/bus/pci/devices/$1/config" | tr -d ' '; } # ADDRESS OFFSET: a byte of it
capability() { # ADDRESS ID: where its configuration has that one, PCI Express for example
	at=$(config "$1" 52) # 0x34
	while [ "$at" -ne 0 ] && [ "$(config "$1" "$at")" -ne $((0x$2)) ]; do
		at=$(config "$1" $((at + 1)))
	done
	echo "$at"
}

# The machine after that one, with the drive in its slot.
pulled() { # SUM
	gpu4fs nvme bind --force "$hot" && { gpu4fs fsck -y "nvme:$hot" || [ $? -eq 1 ]; } && served "nvme:$hot" || return 1
	[ "$(sha256sum </mnt/data | cut -c1-64)" = "$1" ] && unserved "nvme:$hot"
}

# No test: figures of the driver beside the kernel's with io_uring, by the same program and by fio. Only where it is asked for. The drive is
# filled first, for QEMU's images are sparse: reads of holes are none of a drive.
rates() {
	name=$(ls "/sys/bus/pci/devices/$four/nvme")
	nvme_rate -w fill "/dev/${name}n1" || return 1
	for depth in 1 8 32; do
		nvme_rate -d $depth "/dev/${name}n1" || return 1
		fio --name=rate --filename="/dev/${name}n1" --readonly --direct=1 --rw=randread --bs=4k --iodepth=$depth \
			--ioengine=io_uring --runtime=2 --time_based >out 2>&1 || { cat out; return 1; }
		grep -E 'IOPS=|cpu ' out
	done
	gpu4fs nvme bind --force "$four" || return 1
	for depth in 1 8 32; do
		nvme_rate -d $depth "nvme:$four" || return 1
	done
	gpu4fs nvme unbind "$four" && starts
}

# What a user waits for: of a mount that takes the drive from the kernel until a first answer, and of an unmount until the kernel has it
# again, beside mounts of the same image by the kernel's driver. Centiseconds.
hundredths() { tr -d . </proc/uptime | cut -d' ' -f1; }
starts() {
	disk=$(disk "$four") && gpu4fs mkfs -q -f "$disk" || return 1
	for round in 1 2 3 4 5; do
		for device in "nvme:$four" "$disk"; do
			began=$(hundredths)
			served "$device" && [ -e /mnt/. ] || return 1
			answered=$(hundredths)
			gpu4fs umount /mnt && appears "$disk" || return 1
			echo "round $round: $device answers after $((answered - began)) hundredths of a second, is given back after $(($(hundredths) - answered))"
		done
	done
}

as_nobody() { /usr/bin/setpriv --reuid 65534 "$@"; }
with_little_memory() { (ulimit -l 64 && as_nobody "$@"); }
limits() {
	fails "no permission" as_nobody gpu4fs info "nvme:$one" &&
		chmod 666 /dev/vfio/* &&
		fails "limit for locked memory is too small" with_little_memory gpu4fs info "nvme:$one" &&
		as_nobody gpu4fs nvme id "$one" >out &&
		chmod 600 /dev/vfio/*
}

unbinding() {
	for address in "$one" "$two" "$three" "$five"; do
		gpu4fs nvme unbind "$address" || return 1
	done
	appears /sys/block/nvme0n1 && gpu4fs nvme list
}

dd if=/dev/urandom of=/tmp/data bs=64k count=64 2>/dev/null
trace=
[ -n "$tests" ] || failed=everything
# the host says it on the kernel's command line, which is the environment here: TEST,TEST:ARGUMENT
for test in $(echo "$tests" | tr , ' '); do
	if [ "$test" = trace ]; then
		trace=yes
		continue
	fi
	echo "GUEST: $test"
	[ -z "$trace" ] || set -x
	since=$(seconds)
	argument=${test#*:}
	test=${test%%:*}
	if $test "$argument"; then
		echo "GUEST: $test passed ($(($(seconds) - since)) s)"
	else
		failed="$failed $test"
		echo "GUEST: $test FAILED"
	fi
done
[ -n "$failed" ] || echo "GUEST: all tests passed"
sleep 1 # the console's last lines
echo b >/proc/sysrq-trigger # at once, and QEMU ends: switching off would wait for a drive that was pulled
