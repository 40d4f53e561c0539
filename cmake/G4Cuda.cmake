# The cuda build: every engine file that is not host only, compiled by nvcc as CUDA C++20 and device-linked. Custom
# commands rather than CMake's CUDA language, which does not take .c files. Nothing here needs a GPU or a driver.
set(G4_CUDA_ARCH sm_90 CACHE STRING "GPU architecture to compile for")
find_program(G4_NVCC nvcc PATHS /usr/local/cuda/bin REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_program(G4_READELF readelf REQUIRED)

set(cuda_flags -std=c++20 -rdc=true -arch=${G4_CUDA_ARCH} -O2 -Werror all-warnings
	-diag-suppress 177 # unused static functions: gcc and clang judge them
	-Xcompiler -Wall,-Wextra,-Wno-unused-function
	"-I${CMAKE_CURRENT_SOURCE_DIR}/src" "-I${CMAKE_CURRENT_SOURCE_DIR}/include")

g4_gpu_subset(sources)
g4_sources(cuda_sources src/simt/cuda/*.c src/simt/cuda/*.cu)
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
		COMMAND ${G4_NVCC} -dlink -arch=${G4_CUDA_ARCH} ${objects} -o "${CMAKE_BINARY_DIR}/engine.dlink.o"
		DEPENDS ${objects} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/device_symbols.py"
		COMMENT "Device-linking the engine"
		VERBATIM)
	add_custom_target(gpu4fs_cuda ALL DEPENDS "${CMAKE_BINARY_DIR}/engine.dlink.o")
endif()

# Every header that engine code may include also compiles alone.
g4_sources(headers src/*/*.h src/simt/cuda/*.h)
list(FILTER headers EXCLUDE REGEX "_host\\.h$")
list(FILTER headers EXCLUDE REGEX "/src/(engine|client|fuse|cli)/")
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
	COMMAND ${G4_NVCC} -arch=${G4_CUDA_ARCH} "${smoke_object}" ${objects} $<TARGET_FILE:gpu_smoke_cpu> "${G4_URING}"
		-lpthread -o "${smoke_program}"
	DEPENDS "${smoke_object}" ${objects} gpu_smoke_cpu
	COMMENT "Linking tests/gpu/smoke"
	VERBATIM)
add_custom_target(gpu-smoke DEPENDS "${smoke_program}")
