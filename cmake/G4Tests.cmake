# Every tests/unit/**/test_*.c and tests/engine/test_*.c is one cmocka program and one CTest test, and so are those of a
# folder of tests/files/ together. Other .c files there and in tests/support/ are shared by all of them, those of a folder of
# tests/files/ by that folder's. A program that exits with 77 counts as skipped.
pkg_check_modules(cmocka IMPORTED_TARGET cmocka)
find_package(Python3 COMPONENTS Interpreter)
if(NOT cmocka_FOUND OR NOT Python3_FOUND)
	message(STATUS "The tests are left out: they need cmocka and Python 3 (scripts/install-deps.sh check)")
	return()
endif()

# ThreadSanitizer's fixed shadow addresses and a kernel with many bits of address randomisation do not go together.
set(G4_TEST_LAUNCHER)
if(G4_SANITIZE MATCHES thread)
	execute_process(COMMAND setarch -R true RESULT_VARIABLE rc OUTPUT_QUIET ERROR_QUIET)
	if(rc EQUAL 0)
		set(G4_TEST_LAUNCHER setarch -R)
	endif()
endif()
# A test that no longer progresses is ended, however slow the machine is. CTest's own limit is for what watch.py would miss.
set(G4_WATCH ${Python3_EXECUTABLE} -S -I "${CMAKE_CURRENT_SOURCE_DIR}/tests/watch.py" --work ${G4_TEST_WORK})
list(PREPEND G4_TEST_LAUNCHER ${G4_WATCH})
set(G4_TEST_TIMEOUT 7200)
set(test_environment
	"ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:abort_on_error=1"
	"UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
	"TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/tests/tsan.supp"
	"CMOCKA_MESSAGE_OUTPUT=STDOUT"
	"G4_SOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}")

# How a test is compiled and linked: every build compiles some two hundred, which took as long as the engine, and of what tests of the
# engine run a hundredth is their own. What is tested, and what all tests share, is compiled as ever; so are, under a sanitizer, tests
# that compute what they compare with.
find_program(G4_LLD ld.lld)
function(g4_test_program target)
	if(G4_SANITIZE)
		if(target MATCHES "^test_(engine|files|standin)")
			target_compile_options(${target} PRIVATE -O0)
		endif()
	else()
		target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-Og;-g1>")
		if(G4_LLD AND CMAKE_C_COMPILER_ID STREQUAL GNU)
			target_link_options(${target} PRIVATE -fuse-ld=lld)
		endif()
	endif()
	set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endfunction()

g4_sources(test_sources tests/unit/*.c tests/unit/*/*.c tests/engine/*.c)
set(test_programs ${test_sources})
list(FILTER test_programs INCLUDE REGEX "/test_[^/]*\\.c$")
set(test_support ${test_sources})
list(FILTER test_support EXCLUDE REGEX "/test_[^/]*\\.c$")
g4_sources(more_support tests/support/*.c)
list(APPEND test_support ${more_support})
if(test_support)
	add_library(g4_test_support STATIC ${test_support})
	target_link_libraries(g4_test_support PRIVATE g4_checker)
	target_include_directories(g4_test_support PUBLIC tests tests/support)
	target_link_libraries(g4_test_support PUBLIC gpu4fs_static PkgConfig::cmocka)
	target_link_options(g4_test_support PUBLIC "LINKER:--wrap=_assert_memory_equal") # tests/engine/equal.c
endif()

# The program keeps the memory of a mount, and its mappings of devices, for the next one (tests/engine/recycled.c). A GPU's driver has
# memory pinned.
function(g4_recycle_memory program)
	if(TARGET g4_cuda)
		return()
	endif()
	target_link_options(${program} PRIVATE "LINKER:--undefined=__wrap_g4_memory_map,--wrap=g4_memory_map,--wrap=g4_memory_unmap,--wrap=mmap64,--wrap=munmap")
endfunction()

file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
# The test `name`, of `target`, once more as NAME.VARIANT, in a folder of its own, with these in its environment.
macro(g4_test_variant variant)
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/${variant}")
	add_test(NAME ${name}.${variant} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:${target}>
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/${variant}")
	set_tests_properties(${name}.${variant} PROPERTIES
		TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment};${ARGN}")
endmacro()
# Directory pages that a dozen of names fill (src/dir/leaf.h): what changes a directory's structure happens all the time, and three levels
# are soon there. The program's own copies of these sources take the place of the library's.
function(g4_tiny_program target)
	target_sources(${target} PRIVATE src/dir/dir.c src/dir/leaf.c src/dir/shrink.c)
	target_compile_definitions(${target} PRIVATE G4_DIR_TINY=1)
	if(G4_CUDA_TINY_OBJECTS) # in the place of the library's, which are in an archive
		target_link_libraries(${target} PRIVATE ${G4_CUDA_TINY_OBJECTS})
		add_dependencies(${target} gpu4fs_cuda_tiny)
	endif()
endfunction()

foreach(source ${test_programs})
	file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}/tests" "${source}")
	string(REGEX REPLACE "\\.c$" "" name "${name}")
	string(REGEX REPLACE "test_([^/]*)$" "\\1" name "${name}")
	string(REPLACE "/" "." name "${name}") # tests/engine/test_posix.c is engine.posix
	string(REPLACE "." "_" target "test_${name}")
	add_executable(${target} "${source}")
	target_include_directories(${target} PRIVATE tests tests/support)
	if(test_support)
		target_link_libraries(${target} PRIVATE g4_test_support)
	endif()
	target_link_libraries(${target} PRIVATE gpu4fs_static PkgConfig::cmocka)
	if(name MATCHES "^engine\\.")
		g4_recycle_memory(${target})
	endif()
	g4_test_program(${target})
	add_test(NAME ${name} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:${target}>
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
	set_tests_properties(${name} PROPERTIES
		TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
	if(name MATCHES "^engine\\.(model|crash|recovery|limits|read|fsck_together)$")
		# The same on an image whose pages have no sums (tests/engine/rig.h).
		g4_test_variant(no_sums G4_TEST_CHECKSUM=0)
	endif()
	if(name MATCHES "^engine\\.(model|recovery)$")
		# The same where pages that are there already are shared.
		g4_test_variant(dedup G4_TEST_CHECKSUM=1 G4_TEST_DEDUP=1)
	endif()
	if(name MATCHES "^engine\\.(model|linear|crash)$")
		# The same where names are made, looked up, removed and renamed by batches.
		g4_test_variant(batch G4_TEST_BATCH=1)
	endif()
	if(name MATCHES "^engine\\.(model|linear|makers|makers_equal|shrink|equal_hashes|listings|twin_directories)$")
		set(plain ${target})
		set(target ${plain}_tiny)
		add_executable(${target} "${source}")
		target_include_directories(${target} PRIVATE tests tests/support)
		target_link_libraries(${target} PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
		g4_tiny_program(${target})
		g4_recycle_memory(${target})
		g4_test_program(${target})
		if(name STREQUAL "engine.model") # names by batches, so that one is half done when a directory changes
			g4_test_variant(tiny G4_TEST_BATCH=1 G4_MODEL_STEPS=300)
		else()
			g4_test_variant(tiny G4_LINEAR_ROUNDS=60)
		endif()
		set(target ${plain})
	endif()
	if(name MATCHES "^engine\\.(model|linear)$")
		# The same for who keeps what it is told (tests/engine/mirrored.h).
		g4_test_variant(mirror G4_TEST_MIRROR=1)
	endif()
	if(name MATCHES "^engine\\.(lost_writes|recovery|sync|txn|writeback)$")
		# The same through the NVMe driver, on an emulated controller.
		g4_test_variant(nvme G4_TEST_NVME=1)
		set_tests_properties(${name}.nvme PROPERTIES LABELS nvme)
	endif()
	if(name MATCHES "^engine\\.(disks|disks_copies|disks_cut|disks_engine|disks_mend|disks_parity|disks_rot|disks_spare|disks_spare_faults|rebuild|rebuild_faults|rebuild_used|crash_disks)$")
		# The same behind an I/O agent, as a set of disks is with the CUDA engine.
		g4_test_variant(remote G4_TEST_ENGINE=remote)
		if(name MATCHES "^engine\\.disks(_mend|_parity)?$") # and with every case (disks_every())
			g4_test_variant(remote_all G4_TEST_ENGINE=remote G4_TEST_LONG=1)
		endif()
	endif()
	if(name STREQUAL "engine.leave_rows")
		# The same: rows that were moved before leave a disk.
		g4_test_variant(remote G4_TEST_ENGINE=remote CMOCKA_TEST_FILTER=a_disk_leaves_that_*)
	endif()
	if(name MATCHES "^engine\\.(leave_rows|rebalance_rows)$" AND G4_SANITIZE MATCHES thread AND NOT G4_LANES EQUAL 0)
		# What ThreadSanitizer is for: users who write meanwhile. All of it is in the other builds, and in its own by `make check-long`.
		g4_test_variant(users "CMOCKA_TEST_FILTER=*_write_while_*")
	endif()
	if(name STREQUAL "engine.disks_engine")
		# The same of disks in memory, without an agent and behind one.
		g4_test_variant(mapped G4_TEST_MAPPED=1 G4_TEST_LEVELS=01234)
		g4_test_variant(remote_mapped G4_TEST_MAPPED=1 G4_TEST_LEVELS=023 G4_TEST_ENGINE=remote)
	endif()
	if(name MATCHES "^engine\\.api_" AND NOT name MATCHES "mount")
		# The same calls through a server's rings, and the same file names, which two tests must not share.
		g4_test_variant(connected G4_TEST_CONNECTED=1)
	endif()
endforeach()

# The engine's cache alone, with the policies that it was not built with, beside their models.
set(number -1)
foreach(policy ${G4_CACHE_POLICIES})
	math(EXPR number "${number} + 1")
	if(policy STREQUAL G4_CACHE_POLICY)
		continue()
	endif()
	string(REPLACE "-" "" variant ${policy})
	set(name unit.trace.replay)
	set(target test_unit_trace_replay_${variant})
	add_executable(${target} tests/unit/trace/test_replay.c src/cache/cache.c src/cache/cache_host.c)
	target_compile_options(${target} PRIVATE -UG4_CACHE_POLICY -DG4_CACHE_POLICY=${number}) # behind the build's own
	target_include_directories(${target} PRIVATE tests/unit/trace)
	target_link_libraries(${target} PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
	g4_test_program(${target})
	g4_test_variant(${variant} "G4_CACHE_POLICY=${policy}")
endforeach()

g4_sources(file_tests tests/files/*/*.c)
foreach(source ${file_tests})
	get_filename_component(folder "${source}" DIRECTORY)
	get_filename_component(folder "${folder}" NAME)
	list(APPEND file_test_folders ${folder})
	list(APPEND file_tests_of_${folder} "${source}")
endforeach()
list(REMOVE_DUPLICATES file_test_folders)
foreach(folder ${file_test_folders})
	add_executable(test_files_${folder} tests/files/files.c ${file_tests_of_${folder}})
	target_include_directories(test_files_${folder} PRIVATE tests tests/support)
	target_link_libraries(test_files_${folder} PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
	g4_test_program(test_files_${folder})
	add_test(NAME files.${folder} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:test_files_${folder}>
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
	set_tests_properties(files.${folder} PROPERTIES
		TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
endforeach()

target_link_options(test_unit_polling PRIVATE "LINKER:--wrap=sched_yield") # it says how long one takes
set_target_properties(test_unit_gpu_sharing PROPERTIES ENABLE_EXPORTS ON) # it makes up a library that dlopen(3) finds

function(g4_corrupt_test name program) # what follows is its environment
	add_test(NAME ${name} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:${program}> WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
	set_tests_properties(${name} PROPERTIES LABELS corrupt TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment};${ARGN}")
endfunction()

# Damage to every structure and every field: a program of its own, with a table of fields made from format.h.
if(NOT G4_SANITIZE MATCHES thread AND G4_LANES EQUAL 0)
	set(field_table "${CMAKE_BINARY_DIR}/tests/generated/corrupt_fields.inc")
	add_custom_command(OUTPUT "${field_table}"
		COMMAND ${CMAKE_COMMAND} -E make_directory "${CMAKE_BINARY_DIR}/tests/generated"
		COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/corrupt/fields.py"
			"${field_table}" "${CMAKE_CURRENT_SOURCE_DIR}/src/format/format.h"
			"${CMAKE_CURRENT_SOURCE_DIR}/src/format/owners.h"
		DEPENDS src/format/format.h src/format/owners.h tests/corrupt/fields.py VERBATIM)
	set(corrupt_shared tests/corrupt/judge.c tests/corrupt/world.c tests/crash/clock.c)
	add_executable(corrupt tests/corrupt/corrupt.c ${corrupt_shared} "${field_table}")
	add_executable(corrupt_several tests/corrupt/several.c ${corrupt_shared}) # several structures at once
	add_executable(flips tests/corrupt/flips.c tests/crash/clock.c) # single bits
	add_executable(corrupt_tiny tests/corrupt/corrupt.c ${corrupt_shared} "${field_table}") # directories of tiny pages
	g4_tiny_program(corrupt_tiny)
	foreach(program corrupt corrupt_several corrupt_tiny flips)
		target_link_options(${program} PRIVATE "LINKER:--wrap=clock_gettime,--wrap=getrandom")
		target_include_directories(${program} PRIVATE tests tests/support "${CMAKE_BINARY_DIR}/tests/generated")
		target_link_libraries(${program} PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
		set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
	endforeach()
	g4_corrupt_test(corrupt_several corrupt_several)
	g4_corrupt_test(corrupt.flips flips)
	# One process at a time does one case at a time: the cases in four parts, side by side on more processors. Two of them are
	# in `make check` under AddressSanitizer as well, which takes a quarter of their cases: others do the rest.
	foreach(slice RANGE 3)
		set(left 0)
		if(NOT G4_SANITIZE AND slice MATCHES "0|2")
			set(left 1)
		endif()
		g4_corrupt_test(corrupt.${slice} corrupt CORRUPT_SLICES=4 CORRUPT_SLICE=${slice} CORRUPT_LEFT=${left})
	endforeach()
	g4_corrupt_test(corrupt.tiny corrupt_tiny CORRUPT_DIRECTORIES=1 CORRUPT_SLICES=4 CORRUPT_SLICE=1) # some cases
	g4_corrupt_test(corrupt.equal corrupt_tiny CORRUPT_EQUAL=1 CORRUPT_DIRECTORIES=1 CORRUPT_SLICES=4 CORRUPT_SLICE=1) # some cases
	g4_corrupt_test(corrupt.no_sums corrupt G4_TEST_CHECKSUM=0 CORRUPT_SLICES=16 CORRUPT_SLICE=3) # some cases
endif()

# Images that one engine makes and another one changes; in `make check` both are the same, in `make check-gpu` not.
add_executable(cross tests/cross/cross.c tests/corrupt/world.c)
target_include_directories(cross PRIVATE tests tests/support)
target_link_libraries(cross PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
set_target_properties(cross PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
add_test(NAME engine.cross COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:cross>
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
set_tests_properties(engine.cross PROPERTIES TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment}")

# The host's half of the CUDA engine, with threads in the place of a GPU: a test of its own, some of the API's, and images of
# both engines. cuda_host.c and io_host.c are compiled anew for that; the library's, which refuse, are then not linked.
if(NOT TARGET g4_cuda AND G4_LANES EQUAL 0)
	add_library(g4_standin OBJECT src/gpu/cuda_host.c src/gpu/io_host.c tests/standin/stand_in_gpu.c)
	target_compile_definitions(g4_standin PRIVATE G4_HAVE_CUDA)
	target_include_directories(g4_standin PRIVATE tests)
	target_link_libraries(g4_standin PUBLIC g4_flags)
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/standin/connected")

	# g4_standin_program(target source...): build/PRESET/tests/target
	function(g4_standin_program target)
		add_executable(${target} ${ARGN})
		target_include_directories(${target} PRIVATE tests tests/support)
		target_link_libraries(${target} PRIVATE g4_standin g4_test_support gpu4fs_static PkgConfig::cmocka)
		g4_test_program(${target})
	endfunction()
	# g4_standin_test(name target folder variable...): a run of it
	function(g4_standin_test name target folder)
		add_test(NAME ${name} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:${target}>
			WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/${folder}")
		set_tests_properties(${name} PROPERTIES
			TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment};${ARGN}")
	endfunction()

	g4_standin_program(test_standin tests/standin/test_standin.c)
	target_link_options(test_standin PRIVATE "LINKER:--wrap=poll")
	g4_standin_test(engine.standin test_standin standin)
	g4_standin_program(test_standin_drive tests/standin/test_drive.c)
	g4_standin_test(engine.standin.drive test_standin_drive standin)
	foreach(api async batch files meta)
		g4_standin_program(test_standin_api_${api} tests/engine/test_api_${api}.c)
		g4_standin_test(engine.standin.api_${api} test_standin_api_${api} standin G4_TEST_ENGINE=cuda)
	endforeach()
	g4_standin_test(engine.standin.api_meta.connected test_standin_api_meta standin/connected
		G4_TEST_ENGINE=cuda G4_TEST_CONNECTED=1)
	g4_standin_program(test_standin_disks_engine tests/engine/test_disks_engine.c)
	g4_standin_test(engine.standin.disks_engine test_standin_disks_engine standin G4_TEST_ENGINE=cuda)
	g4_standin_test(engine.standin.disks_engine.mapped test_standin_disks_engine standin
		G4_TEST_ENGINE=cuda G4_TEST_MAPPED=1 G4_TEST_LEVELS=0123)
	g4_standin_program(test_standin_cross tests/cross/cross.c tests/corrupt/world.c)
	g4_standin_test(engine.standin.cross test_standin_cross standin G4_TEST_ENGINE=cuda)
endif()

# The crash explorer (tests/crash/README.md): a short run here, the long one is `make crash`. It has a clock and random
# numbers of its own, so that a state can be made again.
g4_sources(explorer_sources tests/crash/*.c)
add_executable(crash_explorer ${explorer_sources})
target_include_directories(crash_explorer PRIVATE tests tests/crash)
target_link_libraries(crash_explorer PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
target_link_options(crash_explorer PRIVATE "LINKER:--wrap=clock_gettime,--wrap=getrandom,--wrap=g4_dev_open")
g4_recycle_memory(crash_explorer)
set_target_properties(crash_explorer PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
set(explorer_options)
if(G4_TEST_CRASH_SAMPLE GREATER 0)
	set(explorer_options --sample ${G4_TEST_CRASH_SAMPLE})
endif()
add_test(NAME crash.explorer COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> ${explorer_options} --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
# The same of the CUDA engine's host half, with threads in the place of a GPU.
if(TARGET g4_standin)
	g4_standin_program(test_standin_crash ${explorer_sources})
	target_include_directories(test_standin_crash PRIVATE tests/crash)
	target_link_options(test_standin_crash PRIVATE "LINKER:--wrap=clock_gettime,--wrap=getrandom,--wrap=g4_dev_open")
	add_test(NAME engine.standin.crash
		COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:test_standin_crash> --engine cuda --match dup-prune --sample 150 --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/standin")
	set_tests_properties(engine.standin.crash PROPERTIES PROCESSORS 2 TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment}")
endif()
# The same with tiny directory pages: crashes in splits, unions, new levels and levels that go, of chains and trees among them.
add_executable(crash_explorer_tiny ${explorer_sources})
target_include_directories(crash_explorer_tiny PRIVATE tests tests/crash)
target_link_libraries(crash_explorer_tiny PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
target_link_options(crash_explorer_tiny PRIVATE "LINKER:--wrap=clock_gettime,--wrap=getrandom,--wrap=g4_dev_open")
g4_tiny_program(crash_explorer_tiny)
g4_recycle_memory(crash_explorer_tiny)
set_target_properties(crash_explorer_tiny PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/tiny")
add_test(NAME crash.explorer.tiny COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer_tiny> --match wide/ --sample 60 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/tiny")
add_test(NAME crash.explorer.tiny_levels COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer_tiny> --match wide/tiny- --sample 40 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/tiny")
set_tests_properties(crash.explorer.tiny crash.explorer.tiny_levels PROPERTIES ENVIRONMENT "${test_environment}")
# The same on sets of disks, with any of them lost that may be; with disks that come and go; behind an I/O agent.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
add_test(NAME crash.explorer.sets COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --losses 2 --moments 4 --after 256 --sample 10 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
add_test(NAME crash.explorer.sets_orders COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --losses 2 --moments 2 --after 400
	--match small+nonen/ --match small+raid0n/ --match small+raid1n/ --match small+raid1x3n/ --match small+raid5n/disk-add
	--match small+raid5n/mount/disk-add --match small+raid5n/disk-rebalance --match small+raid6n/disk-exchange
	--match small+raid6n/mount/disk-exchange --sample 6 --seed 3 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
add_test(NAME crash.explorer.sets_more COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --losses 3 --sample 400 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
add_test(NAME crash.explorer.sets_remote COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --engine remote --losses 2 --moments 12 --sample 40 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
set_tests_properties(crash.explorer.sets crash.explorer.sets_orders crash.explorer.sets_more crash.explorer.sets_remote PROPERTIES ENVIRONMENT "${test_environment}")
# Stores to memory past the set, which are seen by faults of pages: nothing for sanitizers, and one thread at a time.
set(direct_tests)
if(NOT G4_SANITIZE AND G4_LANES EQUAL 0)
	set(direct_tests crash.explorer.sets_direct crash.explorer.sets_direct_more crash.explorer.sets_direct_others)
	add_test(NAME crash.explorer.sets_direct COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --engine direct --losses 1 --moments 1 --alone 4 --after 2000
		--rot 1000000 --match small+raid5/stripes/ --match small+raid6s/stripes-unlink/fsync/ --sample 3 --jobs 1 --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
	add_test(NAME crash.explorer.sets_direct_more COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --engine direct --losses 3 --moments 6 --alone 16 --rot 1000000
		--match /stripes --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
	add_test(NAME crash.explorer.sets_direct_others COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sets --engine direct --losses 3 --moments 6 --alone 16
		--rot 1000000 --sample 40 --match raid5/ --match raid6 --match raid7/ --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/sets")
	set_tests_properties(${direct_tests} PROPERTIES ENVIRONMENT "${test_environment}")
endif()
# The same of an engine behind an I/O agent, as the CUDA engine is: requests overlap, long ones are cut.
add_test(NAME crash.explorer.remote
	COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --engine remote --mixes 60 --sample 300 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
# The same with a second tier of the cache that all pages go through. Without sums, which would find a stale one and read the device.
add_test(NAME crash.explorer.tier
	COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --sample 60 --keep .
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
set_tests_properties(crash.explorer.tier PROPERTIES ENVIRONMENT "${test_environment};G4_TEST_CHECKSUM=0;G4_TEST_TIER=1")
# The same through the NVMe driver, by the host and by lanes: what an emulated controller makes of the commands. All recoveries go through it.
foreach(engine_sample "nvme 40" "lanes 8")
	separate_arguments(engine_sample)
	list(GET engine_sample 0 engine)
	list(GET engine_sample 1 sample)
	add_test(NAME crash.explorer.${engine}
		COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --engine ${engine} --mixes 20 --sample ${sample} --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
	set_tests_properties(crash.explorer.${engine} PROPERTIES ENVIRONMENT "${test_environment}")
endforeach()
# Its workloads are a sample on images with sums; all of them are tried on images without.
set_tests_properties(crash.explorer PROPERTIES ENVIRONMENT "${test_environment};G4_TEST_CHECKSUM=0")
set_tests_properties(crash.explorer.remote PROPERTIES ENVIRONMENT "${test_environment}")
set(explorer_tests crash.explorer crash.explorer.tiny crash.explorer.tiny_levels crash.explorer.remote crash.explorer.nvme
	crash.explorer.lanes crash.explorer.tier crash.explorer.sets crash.explorer.sets_orders crash.explorer.sets_more crash.explorer.sets_remote
	${direct_tests})
if(G4_TEST_CRASH_SAMPLE GREATER 0 AND NOT G4_SANITIZE)
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/all")
	add_test(NAME crash.explorer.all COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:crash_explorer> --keep .
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/all")
	set_tests_properties(crash.explorer.all PROPERTIES ENVIRONMENT "${test_environment};G4_TEST_CHECKSUM=0")
	list(APPEND explorer_tests crash.explorer.all)
endif()
set_tests_properties(${explorer_tests} PROPERTIES LABELS crash PROCESSORS 2 TIMEOUT ${G4_TEST_TIMEOUT})

# What runs out or goes away, on the explorer's operations. Every allocation of the program can be made to fail.
add_executable(faults tests/faults/faults.c tests/crash/script.c tests/crash/look.c tests/crash/memory.c)
target_include_directories(faults PRIVATE tests tests/crash)
target_link_libraries(faults PRIVATE g4_test_support gpu4fs_static PkgConfig::cmocka)
target_link_options(faults PRIVATE "LINKER:--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc,--wrap=posix_memalign")
g4_recycle_memory(faults)
set_target_properties(faults PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
add_test(NAME engine.faults COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:faults>
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
set(faults_environment "${test_environment}")
if(G4_SANITIZE MATCHES thread AND G4_LANES GREATER 0) # every second one of what it takes there: 117 s of processor time
	list(APPEND faults_environment "G4_FAULTS_EVERY=2")
endif()
set_tests_properties(engine.faults PROPERTIES TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${faults_environment}")
# The same through the NVMe driver: one of eight cases, on an emulated controller.
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/nvme")
add_test(NAME engine.faults.nvme COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:faults>
	WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/nvme")
set_tests_properties(engine.faults.nvme PROPERTIES LABELS nvme TIMEOUT ${G4_TEST_TIMEOUT}
	ENVIRONMENT "${test_environment};G4_TEST_NVME=1;G4_FAULTS_EVERY=8")
if(G4_SANITIZE MATCHES thread AND G4_LANES EQUAL 0)
	# with what has one thread
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/long")
	add_test(NAME engine.faults.all COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:faults>
		WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work/long")
	set_tests_properties(engine.faults.all PROPERTIES
		TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment};G4_TEST_LONG=1")
endif()

# The longest ones first, so that no processor waits for another one at the end.
set_tests_properties(engine.faults engine.crash engine.model engine.resize PROPERTIES COST 100)
if(TARGET corrupt)
	set_tests_properties(corrupt.0 corrupt.1 corrupt.2 corrupt.3 PROPERTIES COST 300)
endif()

# The tree's own rules, and programs on a real mount: in the builds that have the tools.
if(G4_TOOLS)
	if(NOT G4_SANITIZE)
		add_test(NAME layering COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/layering.py")
		add_test(NAME named COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/named.py")
		add_test(NAME named.self-test
			COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/named.py" --self-test)
		add_test(NAME layering.self-test
			COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/layering.py" --self-test)
		add_test(NAME junit_count.self-test
			COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/scripts/junit_count.py" --self-test)
		if(TARGET gpu4fs_tool AND G4_LANES EQUAL 0)
			# A short part of `make check-nvme`, under a minute: skipped without QEMU or a kernel for it.
			add_test(NAME nvme.guest COMMAND ${G4_WATCH} "${CMAKE_CURRENT_SOURCE_DIR}/tests/nvme/guest.sh" "${CMAKE_BINARY_DIR}" short)
			set_tests_properties(nvme.guest PROPERTIES
				LABELS nvme PROCESSORS 2 COST 200 SKIP_RETURN_CODE 77 TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment}")
		endif()
		add_test(NAME watch.self-test COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/tests/watch.py" --self-test)
	endif()

	g4_sources(fuse_tests tests/fuse/test_*.sh)
	g4_sources(cli_tests tests/cli/test_*.sh)
	if(TARGET gpu4fs_tool)
		foreach(script ${cli_tests})
			get_filename_component(name "${script}" NAME_WE)
			string(REGEX REPLACE "^test_" "cli." name "${name}")
			if(G4_SANITIZE AND name MATCHES "\\.(install|package)$")
				continue() # nobody installs such a build
			endif()
			add_test(NAME ${name} COMMAND ${G4_WATCH} bash "${script}" "$<TARGET_FILE:gpu4fs_tool>"
				WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
			set_tests_properties(${name} PROPERTIES LABELS cli TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77)
			if(name MATCHES "\\.(install|package)$") # cmake and cpack write the same list of files into the build
				set_tests_properties(${name} PROPERTIES RESOURCE_LOCK install_manifest)
			endif()
		endforeach()
		g4_sources(preload_tests tests/preload/test_*.sh)
		if(TARGET gpu4fs_preload) # a program as any other, of which some arguments are wrong
			add_executable(preload_every_call tests/preload/every_call.c)
			target_compile_options(preload_every_call PRIVATE -w -U_FORTIFY_SOURCE)
			add_executable(preload_handlers tests/preload/handlers.c)
			# a server, and programs on it
			add_executable(preload_linear tests/preload/linear.c tests/engine/linear.c ${fuse_sources})
			target_include_directories(preload_linear PRIVATE tests)
			target_link_libraries(preload_linear PRIVATE gpu4fs_static PkgConfig::fuse3)
			target_link_options(preload_linear PRIVATE "LINKER:--wrap=g4_engine_mount_device,--wrap=g4_engine_execute")
			# the engine's tests of the public API, by calls of the C library
			foreach(subject dirs files meta xattr_acl)
				add_executable(preload_api_${subject} tests/preload/api_calls.c tests/engine/api_files.c tests/engine/test_api_${subject}.c)
				target_include_directories(preload_api_${subject} PRIVATE include src tests tests/engine)
				target_compile_definitions(preload_api_${subject} PRIVATE _GNU_SOURCE _FILE_OFFSET_BITS=64)
				target_link_libraries(preload_api_${subject} PRIVATE PkgConfig::cmocka)
				set_target_properties(preload_api_${subject} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
			endforeach()
			set_target_properties(preload_every_call preload_handlers preload_linear PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
		endif()
		if(G4_SANITIZE) # whose libraries must be loaded before all others
			set(preload_tests)
		endif()
		foreach(script ${fuse_tests} ${preload_tests})
			get_filename_component(name "${script}" NAME_WE)
			get_filename_component(folder "${script}" DIRECTORY)
			get_filename_component(folder "${folder}" NAME)
			string(REGEX REPLACE "^test_" "${folder}." name "${name}")
			add_test(NAME ${name} COMMAND ${G4_WATCH} bash "${script}" WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
			set_tests_properties(${name} PROPERTIES LABELS fuse TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77
				ENVIRONMENT "${test_environment};GPU4FS=$<TARGET_FILE:gpu4fs_tool>")
		endforeach()
		if(NOT G4_SANITIZE MATCHES thread AND G4_LANES EQUAL 0) # sets of disks at random, ten of them; `make check-long`
			add_test(NAME fuse.torture_sets COMMAND ${G4_WATCH} ${Python3_EXECUTABLE}
				"${CMAKE_CURRENT_SOURCE_DIR}/tests/fuse/torture_sets.py" --seconds 120 --each 12 --seed 1 --work .
				"$<TARGET_FILE:gpu4fs_tool>" WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
			set_tests_properties(fuse.torture_sets PROPERTIES LABELS "fuse;long" TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77
				PROCESSORS 2 ENVIRONMENT "${test_environment}")
		endif()
		# Each has an image, a mount and a folder of its own. Loop devices have one number for all, and sync(2) waits for all block
		# devices, also for one whose server is stopped.
		set_tests_properties(fuse.block fuse.same_bytes fuse.umount PROPERTIES RESOURCE_LOCK block_devices COST 100)
		set_tests_properties(fuse.direct fuse.large PROPERTIES COST 100)
	endif()
endif()
