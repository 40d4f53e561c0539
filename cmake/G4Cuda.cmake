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
