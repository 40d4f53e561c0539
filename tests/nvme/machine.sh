# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Virtual machines of a Debian kernel and of programs of this one, for guest.sh and bench/raid_guest.sh, which source this. Packages are
# unpacked and not installed. What is made lies in the current folder: kernel (its package), root, *.deb for a moment.
# Without what it needs a function says so in a line and ends the script with 77.

need() { # PROGRAM...
	local program
	for program in "$@"; do
		[ -n "$(type -P "$program")" ] || { echo "skipped: no $program (scripts/install-deps.sh nvme)"; exit 77; }
	done
	[ "$(uname -m)" = x86_64 ] || { echo "skipped: the machine runs programs of this build, which are not x86-64's"; exit 77; }
}

download() { # SECONDS PACKAGE: the .deb
	timeout --foreground "$1" apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 download "$2" \
		>/dev/null 2>&1 || { echo "skipped: $2 can not be downloaded within $1 s"; exit 77; }
}

# fetch PACKAGE FOLDER SECONDS: what the package has, in that folder; nothing where that is there
fetch() {
	[ ! -e "$2" ] || return 0
	rm -rf unpacked "$1"_*.deb
	download "$3" "$1"
	dpkg-deb --extract "$1"_*.deb unpacked
	mv unpacked "$2" # the whole of it, or nothing
	rm -f "$1"_*.deb
}

find_kernel() { find kernel/boot -name 'vmlinuz-*' 2>/dev/null | head -1 || :; }

fetch_kernel() { # SECONDS
	local package
	[ -z "$(find_kernel)" ] || return 0
	package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1 || :)
	[ -n "$package" ] || { echo "skipped: apt knows no linux-image-cloud-amd64"; exit 77; }
	rm -rf kernel
	fetch "$package" kernel "$1"
}

# ---- the machine's root: busybox, programs with their libraries, modules ----
new_root() { # INIT
	rm -rf root
	mkdir -p root/{bin,usr/bin,dev,proc,sys,tmp,mnt,run,etc,lib/modules}
	cp "$(type -P busybox)" root/bin/busybox
	cp "$1" root/init
	chmod +x root/init
}

add_programs() { # FILE...
	local program library
	for program in "$@"; do
		cp "$program" root/usr/bin/
		ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
			mkdir -p "root$(dirname "$library")"
			cp -L "$library" "root$library"
		done
	done
	# an emulated processor takes seconds to unpack what only a debugger reads
	[ -z "$(type -P strip)" ] || find root/usr/bin root/lib* -type f ! -name '*.ko' -exec strip --strip-debug {} +
}

add_modules() { # NAME...: those that the kernel has as modules
	local module
	for module in "$@"; do
		find kernel/lib/modules -name "$module.ko" -exec cp {} root/lib/modules/ \;
	done
}

pack_root() { # FILE
	(cd root && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >initrd
	mv initrd "$1"
}

# emulate SECONDS KERNEL INITRD WORDS OPTION-OF-QEMU...: runs a machine of two processors, its console is the output. A busy host lets the
# machine wait: its kernel does not count ticks at the start (no_timer_check), nor look for processors that stand still (nowatchdog).
# cpu: an emulated processor takes five times as long for BLAKE3 with AVX2 as without. QEMU ends with this script, and with an interrupt from
# the keyboard (--foreground). No KVM needed.
cpu=max,la57=off,avx2=off
emulate() {
	local options=(-kernel "$2" -initrd "$3" -append "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog $4")
	setpriv --pdeathsig TERM timeout --foreground --kill-after 5 "$1" qemu-system-x86_64 -nodefaults -display none -no-reboot \
		-machine q35 -accel tcg,thread=multi -cpu "$cpu" -smp 2 -serial stdio "${options[@]}" "${@:5}"
}
