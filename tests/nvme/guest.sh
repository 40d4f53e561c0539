#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The NVMe driver through VFIO, in a virtual machine: QEMU's controllers, QEMU's IOMMU, a Debian kernel; no KVM needed. The machine is
# made of files of this build and of the packages qemu-system-x86, busybox-static and linux-image-cloud-amd64, of which the last one is
# unpacked and not installed. docs/nvme.md says what runs in it.
# Usage: guest.sh BUILD [TEST...]: a build with tests; what guest_init.sh calls a test, all without one; 'short' are those that take
# seconds, for `make check`; 'trace' shows commands. Without what it needs it says so in a line and ends with 77.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
build=$(realpath "$1")
shift
limit=${G4_GUEST_LIMIT:-3600} # seconds
work=$build/tests/nvme-guest
mkdir -p "$work"
cd "$work"
exec 9>lock
flock 9 # one at a time in a build

tests=" $* "
[[ ${tests// trace / } == *[^\ ]* ]] ||
	tests+="binding strangers data partitions programs engine explorer killed reset errors limits unbinding removal "
patience=1800 # seconds for the download; in `make check` less than tests/watch.py gives a test that waits
[[ $tests != *" short "* ]] || patience=100
tests=${tests/ short / binding data killed reset errors limits unbinding }
wants() { [[ $tests == *" $1 "* ]]; } # TEST
needed=(qemu-system-x86_64 busybox dpkg-deb apt-get setpriv)
! wants partitions || needed+=(sfdisk)
! wants programs && ! wants rates || needed+=(fio)
for program in "${needed[@]}"; do
	[ -n "$(type -P "$program")" ] || { echo "skipped: no $program (scripts/install-deps.sh nvme)"; exit 77; }
done
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the machine runs programs of this build, which are not x86-64's"; exit 77; }

# ---- the kernel ----
kernel=$(find kernel/boot -name 'vmlinuz-*' 2>/dev/null | head -1 || :)
if [ -z "$kernel" ]; then
	package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1 || :)
	[ -n "$package" ] || { echo "skipped: apt knows no linux-image-cloud-amd64"; exit 77; }
	rm -rf kernel unpacked ./*.deb
	timeout --foreground "$patience" apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 download "$package" \
		>/dev/null 2>&1 || { echo "skipped: $package can not be downloaded within $patience s"; exit 77; }
	dpkg-deb --extract "$package"_*.deb unpacked
	mv unpacked kernel # the whole of it, or nothing
	rm -f ./*.deb
	kernel=$(find kernel/boot -name 'vmlinuz-*' | head -1)
fi

# ---- its root: busybox, programs with their libraries, modules ----
rm -rf root
mkdir -p root/{bin,usr/bin,dev,proc,sys,tmp,mnt,run,etc,lib/modules}
cp "$(type -P busybox)" root/bin/busybox
cp "$here/guest_init.sh" root/init
chmod +x root/init
programs=("$build/gpu4fs")
[ -x "${programs[0]}" ] || programs=("$build/bin/gpu4fs")
programs+=("$(type -P setpriv)")
! wants partitions || programs+=("$(type -P sfdisk)")
! wants programs && ! wants rates || programs+=("$(type -P fio)")
! wants explorer || programs+=("$build/tests/crash_explorer")
! wants rates || programs+=("$build/bin/nvme_rate")
if wants engine; then
	programs+=("$build"/tests/test_engine_{sync,txn,shift,model})
fi
for program in "${programs[@]}"; do
	cp "$program" root/usr/bin/
	ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "root$(dirname "$library")"
		cp -L "$library" "root$library"
	done
done
for module in irqbypass vfio vfio_iommu_type1 vfio_virqfd vfio-pci-core vfio-pci fuse; do
	find kernel/lib/modules -name "$module.ko" -exec cp {} root/lib/modules/ \;
done
echo "$tests" >root/etc/tests
(cd root && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >initrd.gz

# ---- drives: two namespaces of one controller with both formats, one with small transfers, one that fails once, one that the kernel
# keeps, one that can not be read in the middle, two functions of one card, one in a slot that it can be pulled out of ----
for image in a b c d e f g h i; do
	rm -f $image.img
	truncate --size 160M $image.img
done
printf '[inject-error]\nevent = "%s"\nerrno = "5"\nonce = "on"\nsector = "8192"\n\n' pwritev read_aio >once.conf
printf '[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "163840"\n' >always.conf
# A busy host lets the machine wait: its kernel does not count ticks at the start (no_timer_check), nor look for processors that stand
# still (nowatchdog). QEMU ends with this script, and with an interrupt from the keyboard (--foreground).
drive() { echo "-drive id=$1,file=${2:-$1.img},format=raw,if=none,cache=writeback,discard=unmap"; }
# shellcheck disable=SC2046
setpriv --pdeathsig TERM timeout --foreground --kill-after 5 "$limit" qemu-system-x86_64 -nodefaults -display none -no-reboot \
	-machine q35 -accel tcg,thread=multi -cpu max,la57=off -smp 2 -m 1024 -serial stdio \
	-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off -device intel-iommu,caching-mode=on,aw-bits=48 \
	$(drive a) $(drive b) $(drive c) $(drive d blkdebug:once.conf:d.img) $(drive e) $(drive f blkdebug:always.conf:f.img) \
	$(drive g) $(drive h) \
	-device nvme,id=one,serial=one,addr=4 \
	-device nvme-ns,bus=one,drive=a,nsid=1,logical_block_size=512 \
	-device nvme-ns,bus=one,drive=b,nsid=2,logical_block_size=4096,physical_block_size=4096 \
	-device nvme,id=two,serial=two,addr=5,drive=c,mdts=3,logical_block_size=4096,physical_block_size=4096 \
	-device nvme,id=three,serial=three,addr=6,drive=d \
	-device nvme,id=four,serial=four,addr=7,drive=e \
	-device nvme,id=five,serial=five,addr=8,drive=f \
	-device nvme,id=six,serial=six,addr=9.0,multifunction=on,drive=g -device nvme,id=seven,serial=seven,addr=9.1,drive=h \
	-blockdev driver=raw,node-name=hot,discard=unmap,file.driver=file,file.filename=i.img \
	-device pcie-root-port,id=root1,chassis=1,addr=a -device nvme,id=hot,serial=hot,bus=root1,drive=hot \
	-kernel "$kernel" -initrd initrd.gz -append "console=ttyS0 quiet intel_iommu=on panic=-1 no_timer_check nowatchdog" </dev/null 9>&- | tee log || :
grep -q '^GUEST: all tests passed' log

# ---- the drive that was pulled ----
sum=$(sed -n 's/^PULLED: \([0-9a-f]*\).*/\1/p' log)
if [ -n "$sum" ]; then
	"${programs[0]}" fsck -y i.img || [ $? -eq 1 ]
	rm -rf pulled
	"${programs[0]}" export --image i.img / pulled
	[ "$(sha256sum <pulled/data | cut -c1-64)" = "$sum" ]
	rm -rf pulled
fi
