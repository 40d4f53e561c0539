# The CUDA engine: every engine file that is not host only, compiled by nvcc as CUDA C++20 and device-linked, and linked
# to the host programs (g4_cuda). Custom commands rather than CMake's CUDA language, which does not take .c files.
# Nothing here needs a GPU or a driver.
set(G4_CUDA_ARCH sm_90 CACHE STRING "GPU architecture to compile for")
find_program(G4_NVCC nvcc PATHS /usr/local/cuda/bin REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(G4_READELF readelf REQUIRED)

# A warp's leader waits for memory most of the time: more warps help more than more registers.
set(G4_CUDA_REGISTERS 80 CACHE STRING "Registers of a GPU thread")
set(G4_CUDA_OPTIMIZE -O2 CACHE STRING "How nvcc optimises; a unit of many sources takes a minute with -O2")
set(cuda_flags -std=c++20 -rdc=true -arch=${G4_CUDA_ARCH} ${G4_CUDA_OPTIMIZE}
	-maxrregcount=${G4_CUDA_REGISTERS} -Werror all-warnings
	-diag-suppress 177 # unused static functions: gcc and clang judge them
	-Xcompiler -fPIC,-Wall,-Wextra,-Wno-unused-function
	"-I${CMAKE_CURRENT_SOURCE_DIR}/src" "-I${CMAKE_CURRENT_SOURCE_DIR}/include")
list(APPEND cuda_flags -DG4_CACHE_POLICY=${G4_CACHE_POLICY_NUMBER}) # as in g4_flags: the host and the GPU share what is in memory

if(NOT G4_QUEUE_PAD EQUAL 128)
	list(APPEND cuda_flags -DG4_QUEUE_PAD=${G4_QUEUE_PAD})
endif()

g4_gpu_subset(engine_sources)
g4_units(sources src/cuda ${engine_sources})
g4_sources(cuda_sources src/simt/cuda/*.c src/gpu/*.cu)
list(APPEND sources ${cuda_sources})

# g4_cuda_name(OUT path): its path in the tree that it is in, which is its object's in the build.
function(g4_cuda_name out path)
	string(REPLACE "${CMAKE_BINARY_DIR}/" "" name "${path}")
	string(REPLACE "${CMAKE_CURRENT_SOURCE_DIR}/" "" name "${name}")
	set(${out} "${name}" PARENT_SCOPE)
endfunction()

# g4_cuda_object(OUT source flag...): compiles one file of the source tree or, by its whole path, one that was made.
function(g4_cuda_object out source)
	cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE path)
	g4_cuda_name(name "${path}")
	set(object "${CMAKE_BINARY_DIR}/${name}.o")
	get_filename_component(folder "${object}" DIRECTORY)
	file(MAKE_DIRECTORY "${folder}")
	add_custom_command(
		OUTPUT "${object}"
		COMMAND ${G4_NVCC} -x cu ${ARGN} -MD -MT "${object}" -MF "${object}.d" -c "${path}" -o "${object}"
		DEPENDS "${path}"
		DEPFILE "${object}.d"
		COMMENT "nvcc ${name}"
		VERBATIM)
	set(${out} "${object}" PARENT_SCOPE)
endfunction()

set(objects)
set(keeps)
foreach(source ${sources})
	g4_cuda_name(name "${source}")
	set(keep "${CMAKE_BINARY_DIR}/${name}.keep") # holds the .cubin, whose symbols are checked below
	file(MAKE_DIRECTORY "${keep}")
	g4_cuda_object(object "${source}" ${cuda_flags} --keep --keep-dir "${keep}")
	list(APPEND objects "${object}")
	list(APPEND keeps "${keep}")
endforeach()

if(objects)
	# Without a kernel to start from, nvlink drops everything before it resolves anything. So the symbols are
	# checked by themselves first: every device symbol that is used has a definition.
	add_custom_command(
		OUTPUT "${CMAKE_BINARY_DIR}/engine.dlink.o"
		COMMAND ${Python3_EXECUTABLE} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/device_symbols.py" --readelf ${G4_READELF}
			${keeps}
		COMMAND ${G4_NVCC} -dlink -maxrregcount=${G4_CUDA_REGISTERS} -arch=${G4_CUDA_ARCH} ${objects} -o "${CMAKE_BINARY_DIR}/engine.dlink.o"
		DEPENDS ${objects} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/device_symbols.py"
		COMMENT "Device-linking the engine"
		VERBATIM)
	# What the host programs link to have both engines.
	set(archive "${CMAKE_BINARY_DIR}/lib/libg4cuda.a")
	file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
	add_custom_command(
		OUTPUT "${archive}"
		COMMAND ${CMAKE_COMMAND} -E rm -f "${archive}"
		COMMAND ${CMAKE_AR} crs "${archive}" ${objects} "${CMAKE_BINARY_DIR}/engine.dlink.o"
		DEPENDS ${objects} "${CMAKE_BINARY_DIR}/engine.dlink.o"
		VERBATIM)
	add_custom_target(gpu4fs_cuda ALL DEPENDS "${archive}")
	# nvcc on the PATH may be a script or a link: only nvcc itself knows where its libraries are.
	execute_process(COMMAND "${G4_NVCC}" --dryrun -c -x cu /dev/null -o /dev/null ERROR_VARIABLE dryrun OUTPUT_QUIET)
	string(REGEX MATCH "TOP=([^\n]+)" top "${dryrun}")
	string(STRIP "${CMAKE_MATCH_1}" cuda_top)
	find_library(G4_CUDART NAMES libcudart_static.a PATHS "${cuda_top}/lib64" "${cuda_top}/lib"
		"${cuda_top}/targets/x86_64-linux/lib" REQUIRED)
	add_library(g4_cuda INTERFACE)
	add_dependencies(g4_cuda gpu4fs_cuda)
	target_compile_definitions(g4_cuda INTERFACE G4_HAVE_CUDA)
	target_link_libraries(g4_cuda INTERFACE "${archive}" "${G4_CUDART}" dl rt stdc++)
endif()

# The same once more for tests of directories: pages that a dozen of names fill (src/dir/leaf.h), and names that begin with '=' of one hash
# (tests/engine/equal_names.h). Of all objects these few are others, so a second link is all that it takes. A build with units has no
# such objects, and nothing that runs on a GPU.
set(G4_CUDA_TINY_OBJECTS)
if(objects AND G4_UNIT EQUAL 1)
	foreach(source object IN ZIP_LISTS sources objects)
		g4_cuda_name(name "${source}")
		if(name MATCHES "^src/dir/(dir|leaf|shrink)\\.c$")
			set(text "#define G4_DIR_TINY 1\n#include \"${CMAKE_CURRENT_SOURCE_DIR}/${name}\"\n")
		elseif(name STREQUAL "src/hash/siphash.c")
			set(text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/tests/engine/equal_names.h\"\n")
		else()
			list(APPEND G4_CUDA_TINY_OBJECTS "${object}")
			continue()
		endif()
		string(REPLACE "src/" "tiny/" wrapper "${name}")
		file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${wrapper}" CONTENT "${text}" @ONLY)
		g4_cuda_object(object "${CMAKE_BINARY_DIR}/${wrapper}" ${cuda_flags})
		list(APPEND G4_CUDA_TINY_OBJECTS "${object}")
	endforeach()
	add_custom_command(
		OUTPUT "${CMAKE_BINARY_DIR}/tiny.dlink.o"
		COMMAND ${G4_NVCC} -dlink -maxrregcount=${G4_CUDA_REGISTERS} -arch=${G4_CUDA_ARCH} ${G4_CUDA_TINY_OBJECTS}
			-o "${CMAKE_BINARY_DIR}/tiny.dlink.o"
		DEPENDS ${G4_CUDA_TINY_OBJECTS}
		COMMENT "Device-linking the engine with tiny directory pages"
		VERBATIM)
	list(APPEND G4_CUDA_TINY_OBJECTS "${CMAKE_BINARY_DIR}/tiny.dlink.o")
	add_custom_target(gpu4fs_cuda_tiny DEPENDS ${G4_CUDA_TINY_OBJECTS})
endif()

# Every header that engine code may include also compiles as CUDA, to PTX: a third of the time of an object. Release's check has
# compiled each alone, as C and as C++; alone once more are those that have lines of their own for CUDA, all others are one unit.
set(header_flags ${cuda_flags})
list(FILTER header_flags EXCLUDE REGEX "maxrregcount")
g4_sources(headers src/*/*.h src/*/cuda/*.h)
list(FILTER headers EXCLUDE REGEX "_host\\.h$")
list(FILTER headers EXCLUDE REGEX "/src/(client|fuse|cli|fsck|print|trace)/")
list(FILTER headers EXCLUDE REGEX "/src/engine/engine\\.h$")
set(stamps)
# g4_cuda_headers(UNIT header...): one unit of these.
function(g4_cuda_headers name)
	set(unit "${CMAKE_BINARY_DIR}/headers/${name}.cu")
	set(text)
	foreach(header ${ARGN})
		string(APPEND text "#include \"${header}\"\n")
	endforeach()
	file(CONFIGURE OUTPUT "${unit}" CONTENT "${text}")
	add_custom_command(
		OUTPUT "${unit}.ptx"
		COMMAND ${G4_NVCC} ${header_flags} -MD -MT "${unit}.ptx" -MF "${unit}.d" -ptx "${unit}" -o "${unit}.ptx"
		DEPENDS "${unit}" ${ARGN}
		DEPFILE "${unit}.d"
		COMMENT "nvcc header ${name}"
		VERBATIM)
	set(stamps ${stamps} "${unit}.ptx" PARENT_SCOPE)
endfunction()
set(shared)
foreach(header ${headers})
	file(STRINGS "${header}" lines REGEX "^#.*CUDA")
	file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}/src" "${header}")
	if(lines OR name MATCHES "/cuda/")
		g4_cuda_headers(${name} "${header}")
	else()
		list(APPEND shared "${header}")
	endif()
endforeach()
g4_cuda_headers(all ${shared})
add_custom_target(header-check DEPENDS ${stamps})

# Programs for a machine with a GPU. They are not part of `all` and CTest does not run them: CI has no GPU. They take CUDA's
# run-time library and liburing along, so that they can be built on one machine and run on another. Some link the objects of some
# folders: they need a build without units (G4_UNIT).
find_library(G4_URING NAMES liburing.a uring REQUIRED)

# g4_gpu_program(TARGET NAME HOST file... LIBRARY target [FLAGS flag...] LINK file...): tests/gpu/NAME, of host files that use a
# library of ours and, with FLAGS to compile it with, of NAME.cu. That both compile is part of `all`; to link them is not.
add_custom_target(gpu-programs COMMENT "Every program of tests/gpu")
function(g4_gpu_program target name)
	cmake_parse_arguments(PARSE_ARGV 2 arg "" "LIBRARY" "HOST;FLAGS;LINK")
	set(object)
	if(arg_FLAGS)
		g4_cuda_object(object tests/gpu/${name}.cu ${arg_FLAGS} "-I${CMAKE_CURRENT_SOURCE_DIR}/tests")
		add_custom_target(${target}-compiles ALL DEPENDS "${object}")
	endif()
	add_library(${target}-host STATIC ${arg_HOST})
	target_include_directories(${target}-host PRIVATE tests)
	target_link_libraries(${target}-host PRIVATE ${arg_LIBRARY})
	set(link ${object} $<TARGET_FILE:${target}-host> $<TARGET_FILE:${arg_LIBRARY}> ${arg_LINK})
	set(program "${CMAKE_BINARY_DIR}/tests/gpu/${name}")
	add_custom_command(
		OUTPUT "${program}"
		COMMAND ${G4_NVCC} -maxrregcount=${G4_CUDA_REGISTERS} -arch=${G4_CUDA_ARCH} ${link} "${G4_URING}" -lpthread
			-o "${program}"
		DEPENDS ${link}
		COMMENT "Linking tests/gpu/${name}"
		VERBATIM)
	add_custom_target(${target} DEPENDS "${program}")
	add_dependencies(gpu-programs ${target})
endfunction()

# gpu-bench: what the CUDA engine costs and gives.
g4_gpu_program(gpu-bench gpu_bench HOST tests/gpu/gpu_bench_host.c LIBRARY gpu4fs_static
	FLAGS ${cuda_flags} LINK ${objects})
target_include_directories(gpu-bench-host PRIVATE bench)

# gpu-hash-crossover: from which batch on the GPU hashes faster than the CPU.
g4_gpu_program(gpu-hash-crossover hash_crossover HOST tests/gpu/hash_crossover_host.c LIBRARY gpu4fs_static
	FLAGS ${cuda_flags} LINK ${objects})

# gpu-sums: sums of pages on the GPU against the CPU's, and how fast they are. It needs src/hash alone.
set(hash_objects ${objects})
list(FILTER hash_objects INCLUDE REGEX "/src/(hash|simt)/")
g4_gpu_program(gpu-sums sums HOST tests/gpu/sums_host.c LIBRARY shredder_static FLAGS ${cuda_flags} LINK ${hash_objects})

# gpu-parity: parity in the GPU's memory against the CPU's, and how fast it is. It needs src/parity alone.
set(parity_objects ${objects})
list(FILTER parity_objects INCLUDE REGEX "/src/(parity|simt)/")
g4_gpu_program(gpu-parity parity HOST tests/gpu/parity_host.c LIBRARY parity_static FLAGS ${cuda_flags} LINK ${parity_objects})

# gpu-nvme: queues of NVMe controllers that lanes fill and poll, on emulated controllers.
set(nvme_objects ${objects})
list(FILTER nvme_objects INCLUDE REGEX "/src/(dev/nvme/|dev/slots|simt/)")
g4_gpu_program(gpu-nvme nvme HOST tests/gpu/nvme_host.c LIBRARY gpu4fs_static FLAGS ${cuda_flags} LINK ${nvme_objects})

# gpu-share: the GPU shared with another process, with MPS and without.
g4_gpu_program(gpu-share share HOST tests/gpu/share_host.c LIBRARY gpu4fs_static FLAGS ${cuda_flags} LINK ${objects})

# The programs below check images with fsck, which waits for a server that ends and so wants the headers of libfuse.
find_package(PkgConfig REQUIRED)
pkg_check_modules(fuse3 QUIET IMPORTED_TARGET fuse3)
if(NOT TARGET PkgConfig::fuse3)
	return()
endif()

# gpu-smoke: the GPU smoke test, one program with the engine twice: compiled for the GPU, and for the CPU to make images
# and to check what the GPU did to them.
g4_sources(smoke_fsck src/cli/cmd_fsck.c src/cli/disks.c src/fsck/*.c src/print/*.c src/fuse/state.c)
g4_gpu_program(gpu-smoke smoke HOST tests/gpu/smoke_host.c ${smoke_fsck} LIBRARY gpu4fs_static
	FLAGS ${cuda_flags} LINK ${objects})
target_link_libraries(gpu-smoke-host PRIVATE PkgConfig::fuse3)

# gpu-fsck-data: contents of files compared with sums that the GPU makes.
g4_gpu_program(gpu-fsck-data fsck_data HOST tests/gpu/fsck_data_host.c ${smoke_fsck} LIBRARY gpu4fs_static LINK "${archive}")
target_link_libraries(gpu-fsck-data-host PRIVATE PkgConfig::fuse3)

# gpu-file: the CUDA engine on a file or a block device. It has no kernels of its own.
g4_gpu_program(gpu-file file HOST tests/gpu/file_host.c ${smoke_fsck} LIBRARY gpu4fs_static LINK "${archive}")
target_link_libraries(gpu-file-host PRIVATE PkgConfig::fuse3)
