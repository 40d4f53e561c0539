# The CUDA engine: every engine file that is not host only, compiled by nvcc as CUDA C++20 and device-linked, and linked
# to the host programs (g4_cuda). Custom commands rather than CMake's CUDA language, which does not take .c files.
# Nothing here needs a GPU or a driver.
set(G4_CUDA_ARCH sm_90 CACHE STRING "GPU architecture to compile for")
find_program(G4_NVCC nvcc PATHS /usr/local/cuda/bin REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(G4_READELF readelf REQUIRED)

# A warp's leader waits for memory most of the time: more warps help more than more registers.
set(G4_CUDA_REGISTERS 80 CACHE STRING "Registers of a GPU thread")
set(cuda_flags -std=c++20 -rdc=true -arch=${G4_CUDA_ARCH} -O2 -maxrregcount=${G4_CUDA_REGISTERS} -Werror all-warnings
	-diag-suppress 177 # unused static functions: gcc and clang judge them
	-Xcompiler -Wall,-Wextra,-Wno-unused-function
	"-I${CMAKE_CURRENT_SOURCE_DIR}/src" "-I${CMAKE_CURRENT_SOURCE_DIR}/include")

g4_gpu_subset(sources)
g4_sources(cuda_sources src/simt/cuda/*.c src/engine/cuda/*.cu)
list(APPEND sources ${cuda_sources})

set(objects)
set(keeps)
foreach(source ${sources})
	file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}" "${source}")
	set(object "${CMAKE_BINARY_DIR}/${name}.o")
	set(keep "${CMAKE_BINARY_DIR}/${name}.keep") # holds the .cubin, whose symbols are checked below
	file(MAKE_DIRECTORY "${keep}")
	add_custom_command(
		OUTPUT "${object}"
		COMMAND ${G4_NVCC} -x cu ${cuda_flags} --keep --keep-dir "${keep}"
			-MD -MT "${object}" -MF "${object}.d" -c "${source}" -o "${object}"
		DEPENDS "${source}"
		DEPFILE "${object}.d"
		COMMENT "nvcc ${name}"
		VERBATIM)
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

# Every header that engine code may include also compiles alone.
g4_sources(headers src/*/*.h src/simt/cuda/*.h src/engine/cuda/*.h)
list(FILTER headers EXCLUDE REGEX "_host\\.h$")
list(FILTER headers EXCLUDE REGEX "/src/(client|fuse|cli)/")
list(FILTER headers EXCLUDE REGEX "/src/engine/engine\\.h$")
set(stamps)
foreach(header ${headers})
	file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}/src" "${header}")
	set(unit "${CMAKE_BINARY_DIR}/headers/${name}.cu")
	file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${name}\"\n")
	add_custom_command(
		OUTPUT "${unit}.o"
		COMMAND ${G4_NVCC} ${cuda_flags} -MD -MT "${unit}.o" -MF "${unit}.d" -c "${unit}" -o "${unit}.o"
		DEPENDS "${unit}" "${header}"
		DEPFILE "${unit}.d"
		COMMENT "nvcc header ${name}"
		VERBATIM)
	list(APPEND stamps "${unit}.o")
endforeach()
add_custom_target(header-check DEPENDS ${stamps})

# gpu-smoke: the GPU smoke test, one program with the engine twice: compiled for the GPU, and for the CPU to make images
# and to check what the GPU did to them. It is not part of `all` and CTest does not run it: CI has no GPU. The program
# takes CUDA's run-time library and liburing along, so that it can be built on one machine and run on another.
set(smoke_object "${CMAKE_BINARY_DIR}/tests/gpu/smoke.cu.o")
set(smoke_source "${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/smoke.cu")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/tests/gpu")
add_custom_command(
	OUTPUT "${smoke_object}"
	COMMAND ${G4_NVCC} ${cuda_flags} "-I${CMAKE_CURRENT_SOURCE_DIR}/tests"
		-MD -MT "${smoke_object}" -MF "${smoke_object}.d" -c "${smoke_source}" -o "${smoke_object}"
	DEPENDS "${smoke_source}"
	DEPFILE "${smoke_object}.d"
	COMMENT "nvcc tests/gpu/smoke.cu"
	VERBATIM)
add_custom_target(gpu-smoke-compiles ALL DEPENDS "${smoke_object}")

find_library(G4_URING NAMES liburing.a uring)
if(NOT G4_URING)
	message(STATUS "The GPU smoke test is left out: it needs liburing")
	return()
endif()
g4_engine_sources(smoke_sources)
g4_sources(smoke_fsck src/cli/*fsck*_host.c src/cli/image_host.c src/cli/map_host.c src/cli/journal_host.c
	src/cli/report_host.c src/cli/message_host.c)
add_library(gpu_smoke_cpu STATIC EXCLUDE_FROM_ALL ${smoke_sources} ${smoke_fsck} tests/gpu/smoke_host.c)
target_include_directories(gpu_smoke_cpu PRIVATE src include tests)
target_compile_definitions(gpu_smoke_cpu PRIVATE _FILE_OFFSET_BITS=64 "G4_VERSION=\"${PROJECT_VERSION}\"")
target_compile_options(gpu_smoke_cpu PRIVATE -Wall -Wextra "SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/cmake/gnu_source.h")
set(smoke_program "${CMAKE_BINARY_DIR}/tests/gpu/smoke")
add_custom_command(
	OUTPUT "${smoke_program}"
	COMMAND ${G4_NVCC} -maxrregcount=${G4_CUDA_REGISTERS} -arch=${G4_CUDA_ARCH} "${smoke_object}" ${objects} $<TARGET_FILE:gpu_smoke_cpu> "${G4_URING}"
		-lpthread -o "${smoke_program}"
	DEPENDS "${smoke_object}" ${objects} gpu_smoke_cpu
	COMMENT "Linking tests/gpu/smoke"
	VERBATIM)
add_custom_target(gpu-smoke DEPENDS "${smoke_program}")

# gpu-bench: what the CUDA engine costs and gives, the same way.
set(bench_object "${CMAKE_BINARY_DIR}/tests/gpu/gpu_bench.cu.o")
set(bench_source "${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/gpu_bench.cu")
add_custom_command(
	OUTPUT "${bench_object}"
	COMMAND ${G4_NVCC} ${cuda_flags} "-I${CMAKE_CURRENT_SOURCE_DIR}/tests"
		-MD -MT "${bench_object}" -MF "${bench_object}.d" -c "${bench_source}" -o "${bench_object}"
	DEPENDS "${bench_source}"
	DEPFILE "${bench_object}.d"
	COMMENT "nvcc tests/gpu/gpu_bench.cu"
	VERBATIM)
add_custom_target(gpu-bench-compiles ALL DEPENDS "${bench_object}")
add_library(gpu_bench_cpu STATIC EXCLUDE_FROM_ALL ${smoke_sources} tests/gpu/gpu_bench_host.c)
target_include_directories(gpu_bench_cpu PRIVATE src include tests)
target_compile_definitions(gpu_bench_cpu PRIVATE _FILE_OFFSET_BITS=64 G4_HAVE_CUDA "G4_VERSION=\"${PROJECT_VERSION}\"")
target_compile_options(gpu_bench_cpu PRIVATE -Wall -Wextra
	"SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/cmake/gnu_source.h")
set(bench_program "${CMAKE_BINARY_DIR}/tests/gpu/gpu_bench")
add_custom_command(
	OUTPUT "${bench_program}"
	COMMAND ${G4_NVCC} -maxrregcount=${G4_CUDA_REGISTERS} -arch=${G4_CUDA_ARCH} "${bench_object}" ${objects} $<TARGET_FILE:gpu_bench_cpu> "${G4_URING}"
		-lpthread -o "${bench_program}"
	DEPENDS "${bench_object}" ${objects} gpu_bench_cpu
	COMMENT "Linking tests/gpu/gpu_bench"
	VERBATIM)
add_custom_target(gpu-bench DEPENDS "${bench_program}")
