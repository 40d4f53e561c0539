# Fuzz targets, tests/fuzz/fuzz_*.c (tests/fuzz/README.md): with libFuzzer in builds whose sanitizers include it (preset
# "fuzz", clang); in others with a main program that runs the inputs in tests/fuzz/regressions, and looks for more where
# coverage is compiled in (preset "fuzz-gcc").
if(NOT TARGET g4_test_support OR G4_SANITIZE MATCHES thread OR G4_LANES GREATER 0)
	return() # nothing here has threads
endif()
add_custom_target(fuzz-programs)

# g4_fuzz_regressions(TEST TARGET [ENVIRONMENT...])
function(g4_fuzz_regressions test target)
	add_test(NAME ${test} COMMAND ${G4_WATCH} bash "${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/regressions.sh" $<TARGET_FILE:${target}>
		"${CMAKE_CURRENT_SOURCE_DIR}/tests/fuzz/regressions/${target}" WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
	set_tests_properties(${test} PROPERTIES TIMEOUT ${G4_TEST_TIMEOUT} ENVIRONMENT "${test_environment};${ARGN}")
endfunction()

# g4_fuzz_target(NAME SOURCES... LIBRARIES...)
function(g4_fuzz_target name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
	if(G4_SANITIZE MATCHES fuzzer)
		add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
		target_link_options(${name} PRIVATE -fsanitize=fuzzer)
	else()
		add_executable(${name} ${arg_SOURCES} tests/fuzz/replay.c tests/fuzz/mutate.c)
		string(REPLACE "fuzz_" "fuzz.regressions." test "${name}")
		g4_fuzz_regressions(${test} ${name})
		if(name MATCHES "image|journal")
			# The same inputs, on an image whose pages have no sums, and on one that lists them (tests/engine/rig.c).
			g4_fuzz_regressions(${test}.no_sums ${name} G4_TEST_CHECKSUM=0)
			g4_fuzz_regressions(${test}.dedup ${name} G4_TEST_DEDUP=1)
		endif()
	endif()
	add_dependencies(fuzz-programs ${name})
	target_include_directories(${name} PRIVATE tests tests/fuzz)
	target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
	set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
endfunction()

set(fuzz_shared tests/fuzz/fuzz.c tests/corrupt/world.c tests/crash/clock.c)
g4_fuzz_target(fuzz_image LIBRARIES g4_test_support
	SOURCES tests/fuzz/fuzz_image.c tests/fuzz/edits.c ${fuzz_shared})
g4_fuzz_target(fuzz_journal LIBRARIES g4_test_support
	SOURCES tests/fuzz/fuzz_journal.c tests/fuzz/edits.c ${fuzz_shared})
g4_fuzz_target(fuzz_ring LIBRARIES g4_test_support
	SOURCES tests/fuzz/fuzz_ring.c tests/fuzz/ring_hooked.c ${fuzz_shared})
foreach(target fuzz_image fuzz_journal fuzz_ring) # the same time and random numbers in every run
	target_link_options(${target} PRIVATE "LINKER:--wrap=clock_gettime,--wrap=getrandom")
endforeach()
g4_fuzz_target(fuzz_trace LIBRARIES g4_test_support SOURCES tests/fuzz/fuzz_trace.c)
if(TARGET shredder_test_support)
	g4_fuzz_target(fuzz_shredder LIBRARIES shredder_test_support SOURCES tests/fuzz/fuzz_shredder.c)
	g4_fuzz_target(fuzz_store LIBRARIES $<IF:$<BOOL:${G4_REMOTE}>,shredder_site,shredder_store>
		SOURCES tests/fuzz/fuzz_store.c)
	if(G4_REMOTE)
		target_compile_definitions(fuzz_store PRIVATE SHREDDER_REMOTE)
	endif()
endif()
