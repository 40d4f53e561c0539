# The commands of gpu4fs. Each does its own set-up; CMakeLists.txt and CMakePresets.json hold the build itself.
.PHONY: all demo check check-long check-gpu check-nvme check-flips crash fuzz bench bench-gpu install uninstall deb clean format lint
.DEFAULT_GOAL := all

PREFIX ?= /usr/local
# What `make install` has installed, without DESTDIR. CMake's own list is overwritten by cpack.
INSTALLED = build/release/installed
export DESTDIR
C_FILES = $(shell find src include shredder tests bench -name '*.[ch]' -o -name '*.cu')

all: ## build the library and the tools in build/release
	scripts/install-deps.sh build
	cmake --preset release
	cmake --build --preset release --target product

demo: ## format, mount, use, check and compare a file system
	scripts/install-deps.sh demo
	scripts/demo.sh

check: ## build everything and run all tests
	scripts/check.sh

check-long: ## what `make check` leaves out: tests that sanitizers and lanes have little to see in
	scripts/check.sh long

check-gpu: ## the tests of the engine on a GPU, on a machine that has one
	scripts/install-deps.sh check
	scripts/check.sh gpu

check-nvme: ## the NVMe driver through VFIO, in virtual machines (docs/nvme.md; NVME_ARGS="-j 8", for example; -a: all tests of the engine that take a device)
	scripts/install-deps.sh check nvme
	cmake --preset release
	cmake --build --preset release --target gpu4fs_tool test_engine_sync test_engine_txn test_engine_shift test_engine_model \
		crash_explorer faults test_unit_nvme_huge \
		$(if $(filter -a,$(NVME_ARGS)),$(shell sed -n '/^#/!s/^\(long \)*/test_engine_/p' tests/nvme/engine_tests))
	tests/nvme/guest.sh $(NVME_ARGS) build/release

crash: ## explore millions of crash states (tests/crash/README.md; CRASH_ARGS="--slice 1/8", for example)
	scripts/install-deps.sh check
	cmake --preset release
	cmake --build --preset release --target crash_explorer
	build/release/tests/crash_explorer --long --keep build/release/tests $(CRASH_ARGS)

check-flips: ## flip every bit of an image's metadata and every 64th of its contents (FLIPS_ARGS="--slice 1/4" for a part)
	scripts/install-deps.sh check
	cmake --preset release
	cmake --build --preset release --target flips
	scripts/flips.sh $(FLIPS_ARGS)

fuzz: ## libFuzzer for FUZZ_S seconds (default 300) in all on images, journals, rings, Shredder and traces
	scripts/install-deps.sh check
	scripts/fuzz.sh

bench: all ## compare with other file systems on this machine
	scripts/install-deps.sh bench nvme
	cmake --build --preset release --target sums_bench directories_bench raid_bench
	bench/run.sh --sums=blake3,xxh3
	bench/directories.sh
	bench/raid.sh
	bench/dedup.sh
	bench/nvme.py
	bench/shredder.py
	bench/backup.py

bench-gpu: ## the CUDA engine beside other file systems, on a machine that has a GPU
	scripts/install-deps.sh bench
	bench/gpu/run.sh

install: all ## install under PREFIX, /usr/local by default, and links for mount(8) in /usr/sbin
	cmake -S . -B build/release -D CMAKE_INSTALL_PREFIX="$(PREFIX)"
	cmake --install build/release
	mv build/release/install_manifest.txt $(INSTALLED)
	[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

uninstall: ## remove what the last install from this folder has installed, and its folders where they are empty
	@[ -e $(INSTALLED) ] || { echo "make uninstall: nothing was installed from this folder"; exit 1; }
	sed 's|^|$(DESTDIR)|' $(INSTALLED) | xargs -d '\n' rm -fv
	sed 's|^|$(DESTDIR)|; s|/[^/]*$$||' $(INSTALLED) | grep -E '/(gpu4fs|shredder)$$' | sort -u | \
		xargs -d '\n' rmdir -v --ignore-fail-on-non-empty
	[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	rm $(INSTALLED)

deb: all ## build/release/package/gpu4fs_*.deb
	cd build/release && cpack

format: ## lay out every C file
	clang-format -i $(C_FILES)

lint: ## clang-format, shellcheck, cppcheck, clang-tidy
	scripts/lint.sh

clean:
	rm -rf build
