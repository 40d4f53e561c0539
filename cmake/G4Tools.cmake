# libgpu4fs.so, the gpu4fs program with its FUSE server, and what is installed and packaged.
include(CMakePackageConfigHelpers)
file(RELATIVE_PATH pc_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")

# g4_shared_library(NAME objects description header...): libNAME.so of an object library, which shows what cmake/NAME.map
# says. Installed with its headers and what pkg-config and CMake find it by.
function(g4_shared_library name objects description)
	set(map "${CMAKE_CURRENT_SOURCE_DIR}/cmake/${name}.map")
	add_library(${name} SHARED)
	target_link_libraries(${name} PRIVATE ${objects})
	target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
		$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
	target_link_options(${name} PRIVATE "-Wl,--version-script=${map}")
	if(NOT G4_SANITIZE)
		target_link_options(${name} PRIVATE -Wl,--no-undefined)
	endif()
	set_target_properties(${name} PROPERTIES
		VERSION ${PROJECT_VERSION} SOVERSION 0 LINKER_LANGUAGE C LINK_DEPENDS "${map}")

	set(package ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
	install(TARGETS ${name} EXPORT ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${name})
	configure_file(cmake/library.pc.in "${CMAKE_BINARY_DIR}/${name}.pc" @ONLY)
	install(FILES "${CMAKE_BINARY_DIR}/${name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
	install(EXPORT ${name} NAMESPACE ${name}:: FILE ${name}Targets.cmake DESTINATION ${package})
	# A component is a file that only some builds install: gpu4fs-device.cmake.
	file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${name}Config.cmake"
		CONTENT "include(\"\${CMAKE_CURRENT_LIST_DIR}/${name}Targets.cmake\")
foreach(component IN LISTS ${name}_FIND_COMPONENTS)
	include(\"\${CMAKE_CURRENT_LIST_DIR}/${name}-\${component}.cmake\" OPTIONAL RESULT_VARIABLE ${name}_\${component}_FOUND)
	if(NOT ${name}_\${component}_FOUND AND ${name}_FIND_REQUIRED_\${component})
		set(${name}_FOUND FALSE)
		set(${name}_NOT_FOUND_MESSAGE \"this ${name} was installed without \${component}\")
	endif()
endforeach()
" @ONLY)
	write_basic_package_version_file("${CMAKE_BINARY_DIR}/${name}ConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
	install(FILES "${CMAKE_BINARY_DIR}/${name}Config.cmake" "${CMAKE_BINARY_DIR}/${name}ConfigVersion.cmake"
		DESTINATION ${package})
endfunction()

# g4_example(NAME source library): an example of the documentation builds as a user's program would: public headers and the
# shared library.
function(g4_example name source library)
	add_executable(${name} "${source}")
	target_compile_options(${name} PRIVATE -Wall -Wextra)
	if(G4_SANITIZE) # a program needs the run-time library of the sanitizer that the library was built with
		target_link_options(${name} PRIVATE -fsanitize=${G4_SANITIZE})
	endif()
	target_link_libraries(${name} PRIVATE ${library})
endfunction()

g4_sources(public_headers include/gpu4fs/*.h)
g4_shared_library(gpu4fs g4_objects "${PROJECT_DESCRIPTION}" ${public_headers})
set_target_properties(gpu4fs_static PROPERTIES LINKER_LANGUAGE C)

set(G4_HELPER_DIR /usr/sbin CACHE PATH "Where mount(8) finds helpers; install puts links there")
set(tool_names mkfs.gpu4fs fsck.gpu4fs mount.gpu4fs)
# The names that mount(8) and fsck(8) look for with the types that /proc/mounts shows.
list(APPEND tool_names mount.fuse.gpu4fs fsck.fuse.gpu4fs mount.fuseblk.gpu4fs fsck.fuseblk.gpu4fs)
g4_sources(cli_sources src/cli/*.c)
g4_sources(fuse_sources src/fuse/*.c)
if(cli_sources)
	pkg_check_modules(fuse3 REQUIRED IMPORTED_TARGET fuse3)
	list(FILTER cli_sources EXCLUDE REGEX "/cmd_run\\.c$") # which has a definition of its own
	g4_units(tool_units src/cli ${cli_sources} ${fuse_sources})
	add_executable(gpu4fs_tool ${tool_units} src/cli/cmd_run.c)
	target_link_libraries(gpu4fs_tool PRIVATE g4_checker gpu4fs_static PkgConfig::fuse3)
	set_target_properties(gpu4fs_tool PROPERTIES OUTPUT_NAME gpu4fs)
	file(RELATIVE_PATH from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/gpu4fs/libgpu4fs_preload.so")
	set_source_files_properties(src/cli/cmd_run.c PROPERTIES COMPILE_DEFINITIONS "G4_PRELOAD_FROM_BIN=\"${from_bin}\"")
	foreach(name ${tool_names})
		add_custom_command(TARGET gpu4fs_tool POST_BUILD
			COMMAND ${CMAKE_COMMAND} -E create_symlink gpu4fs "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}")
	endforeach()
	install(TARGETS gpu4fs_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	configure_file(cmake/61-gpu4fs.rules.in "${CMAKE_BINARY_DIR}/61-gpu4fs.rules" @ONLY)
	install(FILES "${CMAKE_BINARY_DIR}/61-gpu4fs.rules" DESTINATION lib/udev/rules.d)
	install(FILES cmake/gpu4fs.magic DESTINATION ${CMAKE_INSTALL_DATADIR}/gpu4fs)
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/install-links")
	file(RELATIVE_PATH from_sbin "${CMAKE_INSTALL_FULL_SBINDIR}" "${CMAKE_INSTALL_FULL_BINDIR}/gpu4fs")
	foreach(name ${tool_names})
		file(CREATE_LINK "${from_sbin}" "${CMAKE_BINARY_DIR}/install-links/${name}" SYMBOLIC)
		install(FILES "${CMAKE_BINARY_DIR}/install-links/${name}" DESTINATION ${CMAKE_INSTALL_SBINDIR})
	endforeach()
	# Making an image needs no root, and sbin is not on everybody's path.
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/install-links/bin")
	file(CREATE_LINK gpu4fs "${CMAKE_BINARY_DIR}/install-links/bin/mkfs.gpu4fs" SYMBOLIC)
	install(FILES "${CMAKE_BINARY_DIR}/install-links/bin/mkfs.gpu4fs" DESTINATION ${CMAKE_INSTALL_BINDIR})
	# mount(8) and fsck(8) look for their helpers in /sbin only, wherever the rest is installed.
	install(CODE "
		set(tools \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
		set(helpers \"\$ENV{DESTDIR}${G4_HELPER_DIR}\")
		if(NOT tools STREQUAL \"${G4_HELPER_DIR}\")
			foreach(name ${tool_names})
				file(MAKE_DIRECTORY \"\${helpers}\")
				file(CREATE_LINK \"\${tools}/\${name}\" \"\${helpers}/\${name}\" RESULT result SYMBOLIC)
				if(result EQUAL 0)
					list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"${G4_HELPER_DIR}/\${name}\")
				else()
					message(STATUS \"No \${helpers}/\${name}: mount -t fuse.gpu4fs will not work (\${result})\")
				endif()
			endforeach()
		endif()")
endif()

# The interception library. It stands in front of the C library: so it sees that without the redirections of headers. The run-time
# library of a sanitizer would have to be loaded before it: such builds have none.
if(NOT G4_SANITIZE)
	g4_sources(preload_sources src/preload/*.c)
	add_library(gpu4fs_preload SHARED ${preload_sources})
	target_link_libraries(gpu4fs_preload PRIVATE gpu4fs_static ${CMAKE_DL_LIBS})
	set_source_files_properties(${preload_sources} PROPERTIES COMPILE_OPTIONS # of a source: behind those of g4_flags
		"-U_FILE_OFFSET_BITS;-U_FORTIFY_SOURCE;-fno-builtin;-Wno-nonnull-compare")
	set_property(SOURCE src/preload/signals.c src/preload/shown.c APPEND PROPERTY COMPILE_OPTIONS "-O2;-fomit-frame-pointer") # in debug builds, too: they say why
	target_link_options(gpu4fs_preload PRIVATE "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/gpu4fs_preload.map"
		-Wl,--exclude-libs,ALL -Wl,--gc-sections)
	foreach(function malloc calloc realloc aligned_alloc posix_memalign free strdup strndup) # heap.c
		target_link_options(gpu4fs_preload PRIVATE "LINKER:--wrap=${function}")
	endforeach()
	set_target_properties(gpu4fs_preload PROPERTIES LINKER_LANGUAGE C
		LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/gpu4fs_preload.map")
	install(TARGETS gpu4fs_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gpu4fs)
endif()

# What `make` builds: all that is installed.
add_custom_target(product DEPENDS gpu4fs)
if(TARGET gpu4fs_preload)
	add_dependencies(product gpu4fs_preload)
endif()
if(TARGET gpu4fs_tool)
	add_dependencies(product gpu4fs_tool)
endif()

g4_sources(examples docs/*.c)
foreach(source ${examples})
	get_filename_component(name "${source}" NAME_WE)
	g4_example(doc_${name} "${source}" gpu4fs)
endforeach()

# What bench/gpu/run.sh compares file systems with: a user of the library, too. Both are copied to other machines.
g4_example(bench_clients bench/gpu/clients.c gpu4fs)
target_compile_definitions(bench_clients PRIVATE _GNU_SOURCE)
target_link_libraries(bench_clients PRIVATE Threads::Threads)
set_target_properties(bench_clients PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
g4_example(names_bench bench/names.c gpu4fs)
target_compile_definitions(names_bench PRIVATE _GNU_SOURCE)
g4_example(tier_bench bench/tier.c gpu4fs)
target_compile_definitions(tier_bench PRIVATE _GNU_SOURCE)
g4_example(directories_bench bench/directories.c gpu4fs)
target_compile_definitions(directories_bench PRIVATE _GNU_SOURCE)
target_link_libraries(directories_bench PRIVATE Threads::Threads)
g4_example(raid_bench bench/raid.c gpu4fs)
target_compile_definitions(raid_bench PRIVATE _GNU_SOURCE)
target_link_libraries(raid_bench PRIVATE Threads::Threads)

# ---- install
foreach(section 1 3 8)
	g4_sources(pages man/*.${section})
	if(pages)
		install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
	endif()
endforeach()
install(FILES completions/gpu4fs.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME gpu4fs)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/completion-links")
foreach(name mkfs.gpu4fs fsck.gpu4fs mount.gpu4fs) # bash loads completions by command name
	file(CREATE_LINK gpu4fs "${CMAKE_BINARY_DIR}/completion-links/${name}" SYMBOLIC)
	install(FILES "${CMAKE_BINARY_DIR}/completion-links/${name}"
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
install(FILES completions/_gpu4fs DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES README.md CHANGES.md LICENSE cmake/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

# ---- make deb
set(CPACK_GENERATOR DEB)
# Debian wants an address. Whoever hands a package to others names their own.
set(G4_CONTACT "The gpu4fs authors <maintainers@gpu4fs.example>" CACHE STRING "Maintainer of the package: Name <address>")
set(CPACK_PACKAGE_CONTACT "${G4_CONTACT}")
string(REGEX REPLACE "^(A|An|The) " "" CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "gpu4fs keeps its files in an image or on block devices with a
metadata journal and copy-on-write data. This package brings the
command line tools, the FUSE server, the C library and its headers.")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/package.cmake")
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/triggers" CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/triggers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/package")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS fuse3)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)

# What the table of contents of deduplication costs: tests/dedup/bench.c.
add_executable(ddt_bench tests/dedup/bench.c)
target_link_libraries(ddt_bench PRIVATE gpu4fs_static Threads::Threads)

# What the layers of the NVMe driver cost: tests/nvme/bench.c.
add_executable(nvme_bench tests/nvme/bench.c)
target_link_libraries(nvme_bench PRIVATE gpu4fs_static Threads::Threads)

# The driver beside the kernel's, on a drive: tests/nvme/rate.c.
add_executable(nvme_rate tests/nvme/rate.c)
target_link_libraries(nvme_rate PRIVATE gpu4fs_static Threads::Threads)

# Hit ratios of a mount that makes the accesses of a trace: tests/cache/replay.c.
add_executable(replay_bench tests/cache/replay.c)
target_link_libraries(replay_bench PRIVATE gpu4fs_static Threads::Threads)

# How long a page takes by kind of hit and miss: tests/cache/bench.c.
add_executable(cache_bench tests/cache/bench.c)
target_link_libraries(cache_bench PRIVATE gpu4fs_static Threads::Threads)
