# Shredder (DESIGN.md "Shredder"): libshredder, the shredder program, their tests and what is installed of them. A library of its
# own, usable without gpu4fs: of the engine it takes what lies under src/base, src/simt and src/hash, and its backup src/parity.
g4_sources(shredder_sources shredder/chunk/*.c)
g4_objects_of(shredder_base_objects g4_objects base hash simt)
g4_objects_of(shredder_print_objects g4_checker print)
if(G4_LANES GREATER 0)
	return() # workgroups of threads are for the engine's tests; Shredder's host code has none
endif()
set_source_files_properties(${shredder_sources} PROPERTIES COMPILE_OPTIONS "$<$<C_COMPILER_ID:GNU>:-Wc++-compat>")

add_library(shredder_objects OBJECT ${shredder_sources})
target_compile_options(shredder_objects PRIVATE -fvisibility=hidden)
target_include_directories(shredder_objects PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/shredder")
target_link_libraries(shredder_objects PUBLIC g4_flags PkgConfig::uring Threads::Threads)
if(G4_CUDA)
	include(G4ShredderCuda)
endif()
add_library(shredder_static STATIC EXCLUDE_FROM_ALL ${shredder_base_objects} ${shredder_print_objects})
target_link_libraries(shredder_static PUBLIC shredder_objects)
set_target_properties(shredder_static PROPERTIES OUTPUT_NAME shredder_internal LINKER_LANGUAGE C)

# ---- the backup: what libshredder must not need
g4_sources(shredder_store_sources shredder/store/*.c)
g4_objects_of(shredder_parity_objects g4_objects parity)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd>=1.4)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium>=1.0.18)
set_source_files_properties(${shredder_store_sources} PROPERTIES COMPILE_OPTIONS "$<$<C_COMPILER_ID:GNU>:-Wc++-compat>")
add_library(shredder_store STATIC EXCLUDE_FROM_ALL ${shredder_store_sources} ${shredder_parity_objects})
target_link_libraries(shredder_store PUBLIC shredder_static PkgConfig::zstd PkgConfig::sodium)
if(G4_REMOTE)
	pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl>=7.85)
	target_link_libraries(shredder_store PUBLIC PkgConfig::curl)
	target_compile_definitions(shredder_store PRIVATE SHREDDER_REMOTE)
endif()

# ---- the agent at a site
if(G4_REMOTE)
	g4_sources(shredder_site_sources shredder/site/*.c)
	pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.70)
	pkg_check_modules(gnutls REQUIRED IMPORTED_TARGET gnutls>=3.6.5)
	set_source_files_properties(${shredder_site_sources} PROPERTIES
		COMPILE_OPTIONS "$<$<C_COMPILER_ID:GNU>:-Wc++-compat>")
	add_library(shredder_site STATIC EXCLUDE_FROM_ALL ${shredder_site_sources})
	target_link_libraries(shredder_site PUBLIC shredder_store PkgConfig::microhttpd PkgConfig::gnutls)
endif()

# ---- libshredder.so and the program
if(G4_TOOLS)
	# bench/sums.py's program: of libshredder it takes src/hash
	add_executable(sums_bench bench/sums.c)
	target_link_libraries(sums_bench PRIVATE shredder_static ${CMAKE_DL_LIBS})
	add_executable(similarity_bench bench/similarity.c)
	target_link_libraries(similarity_bench PRIVATE shredder_store ${CMAKE_DL_LIBS})
	target_link_options(similarity_bench PRIVATE "LINKER:--as-needed") # of the backup it takes the index alone

	g4_shared_library(shredder shredder_objects "Content-defined chunking at memory speed" include/shredder/shredder.h)
	target_sources(shredder PRIVATE ${shredder_base_objects} ${shredder_print_objects})
	g4_sources(shredder_cli_sources shredder/cli/*.c)
	g4_units(shredder_cli_units shredder/cli ${shredder_cli_sources})
	add_executable(shredder_tool ${shredder_cli_units})
	pkg_check_modules(fuse3 REQUIRED IMPORTED_TARGET fuse3)
	target_link_libraries(shredder_tool PRIVATE shredder_store PkgConfig::fuse3)
	if(G4_REMOTE)
		target_link_libraries(shredder_tool PRIVATE shredder_site)
		target_compile_definitions(shredder_tool PRIVATE SHREDDER_REMOTE)
	endif()
	set_target_properties(shredder_tool PROPERTIES OUTPUT_NAME shredder)
	add_dependencies(product shredder shredder_tool)
	if(TARGET gpu4fs_tool) # dedup --chunks; what Shredder takes of the engine is there already
		target_link_libraries(gpu4fs_tool PRIVATE shredder_objects)
	endif()

	g4_example(doc_shredder_example docs/shredder/example.c shredder)
	install(TARGETS shredder_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	install(FILES completions/shredder.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
		RENAME shredder)
	install(FILES completions/_shredder DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
	install(FILES docs/shredder.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
	# units that name the installed program; systemd looks below /usr/local and /usr
	foreach(unit backup.service backup.timer check.service check.timer forget.service forget.timer serve.service)
		if(unit STREQUAL "serve.service" AND NOT G4_REMOTE)
			continue()
		endif()
		set(unit_file "docs/shredder/systemd/shredder-${unit}")
		if(unit MATCHES "service$")
			configure_file("${unit_file}.in" "${CMAKE_BINARY_DIR}/shredder-${unit}" @ONLY)
			set(unit_file "${CMAKE_BINARY_DIR}/shredder-${unit}")
		endif()
		install(FILES "${unit_file}" DESTINATION lib/systemd/system)
	endforeach()
endif()

# ---- tests/shredder/test_*.c: one cmocka program and one CTest test each; the other .c files there are shared.
if(G4_TESTS AND TARGET PkgConfig::cmocka)
	g4_sources(shredder_test_sources tests/shredder/*.c)
	set(shredder_test_support ${shredder_test_sources})
	list(FILTER shredder_test_sources INCLUDE REGEX "/test_[^/]*\\.c$")
	list(FILTER shredder_test_support EXCLUDE REGEX "/test_[^/]*\\.c$")
	add_library(shredder_test_support STATIC ${shredder_test_support})
	target_include_directories(shredder_test_support PUBLIC tests/shredder)
	target_link_libraries(shredder_test_support PUBLIC shredder_static PkgConfig::cmocka)
	foreach(source ${shredder_test_sources})
		get_filename_component(name "${source}" NAME_WE)
		string(REGEX REPLACE "^test_" "" name "${name}")
		add_executable(test_shredder_${name} "${source}")
		target_link_libraries(test_shredder_${name} PRIVATE shredder_test_support)
		if(name MATCHES "^store")
			target_link_libraries(test_shredder_${name} PRIVATE shredder_store)
		endif()
		if(name STREQUAL "store_crash") # it writes down what backend_local.c calls
			target_link_options(test_shredder_${name} PRIVATE
				"LINKER:--wrap=openat64,--wrap=write,--wrap=fsync,--wrap=close"
				"LINKER:--wrap=renameat,--wrap=unlinkat,--wrap=mkdirat")
		endif()
		if(name STREQUAL "store_ahead") # a file that fails while it is read
			target_link_options(test_shredder_${name} PRIVATE "LINKER:--wrap=pread64")
		endif()
		if(name STREQUAL "store_kill") # it ends, or its disk is full, at each of them
			target_link_options(test_shredder_${name} PRIVATE
				"LINKER:--wrap=openat64,--wrap=write,--wrap=fsync,--wrap=renameat,--wrap=unlinkat")
		endif()
		if(name STREQUAL "store_restore") # names of its directories fold, and files are exchanged
			target_link_options(test_shredder_${name} PRIVATE
				"LINKER:--wrap=openat64,--wrap=fstatat64,--wrap=unlinkat,--wrap=mkdirat")
		endif()
		if(name STREQUAL "store_clock") # its clock jumps
			target_link_options(test_shredder_${name} PRIVATE "LINKER:--wrap=store_now,--wrap=store_host")
		endif()
		if(name STREQUAL "store_lock") # on which host it is, and what that shows of processes
			target_link_options(test_shredder_${name} PRIVATE
				"LINKER:--wrap=store_host,--wrap=store_process_space,--wrap=store_now,--wrap=fopen64")
		endif()
		if(name STREQUAL "store_gpu") # its files are settled
			target_link_options(test_shredder_${name} PRIVATE "LINKER:--wrap=store_now")
		endif()
		if(name STREQUAL "store_owners") # who has which name
			target_link_options(test_shredder_${name} PRIVATE
				"LINKER:--wrap=getpwuid,--wrap=getgrgid,--wrap=getpwnam,--wrap=getgrnam")
		endif()
		g4_test_program(test_shredder_${name})
		add_test(NAME shredder.${name} COMMAND ${G4_TEST_LAUNCHER} $<TARGET_FILE:test_shredder_${name}>
			WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
		set_tests_properties(shredder.${name} PROPERTIES
			TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ENVIRONMENT "${test_environment}")
	endforeach()

	add_executable(index_bench tests/shredder/bench/index.c)
	target_link_libraries(index_bench PRIVATE shredder_store)
	target_link_options(index_bench PRIVATE "LINKER:--as-needed")

	if(TARGET shredder_tool)
		g4_sources(shredder_cli_tests tests/shredder/test_*.sh)
		foreach(script ${shredder_cli_tests})
			get_filename_component(name "${script}" NAME_WE)
			string(REGEX REPLACE "^test_" "shredder." name "${name}")
			add_test(NAME ${name} COMMAND ${G4_WATCH} bash "${script}" "$<TARGET_FILE:shredder_tool>"
				WORKING_DIRECTORY "${CMAKE_BINARY_DIR}/tests/work")
			set_tests_properties(${name} PROPERTIES LABELS cli TIMEOUT ${G4_TEST_TIMEOUT} SKIP_RETURN_CODE 77
				ENVIRONMENT "${test_environment}")
		endforeach()
		if(NOT G4_SANITIZE) # an interpreter without the sanitizer cannot load a library with it
			add_test(NAME shredder.python COMMAND ${G4_WATCH} ${Python3_EXECUTABLE}
				"${CMAKE_CURRENT_SOURCE_DIR}/tests/shredder/test_python.py" "$<TARGET_FILE:shredder>")
			set_tests_properties(shredder.python PROPERTIES TIMEOUT ${G4_TEST_TIMEOUT}
				ENVIRONMENT "${test_environment};PYTHONDONTWRITEBYTECODE=1")
		endif()
	endif()
endif()
