# Shredder's CUDA engine, compiled by nvcc into a library of its own that libshredder links: it needs nothing of the file
# system's CUDA engine. Its tests and its benchmark are programs for a machine with a GPU; CTest does not run them.
set(shredder_cuda_flags -std=c++20 -arch=${G4_CUDA_ARCH} ${G4_CUDA_OPTIMIZE} -Werror all-warnings
	-diag-suppress 177 # unused static functions: gcc and clang judge them
	-diag-suppress 20044 # device variables of src/simt that are not used
	-Xcompiler -Wall,-Wextra,-Wno-unused-function,-fPIC
	"-I${CMAKE_CURRENT_SOURCE_DIR}/src" "-I${CMAKE_CURRENT_SOURCE_DIR}/include"
	"-I${CMAKE_CURRENT_SOURCE_DIR}/shredder")

g4_cuda_object(shredder_cuda_engine shredder/chunk/cuda/cuda_engine.cu ${shredder_cuda_flags})
set(shredder_cuda_archive "${CMAKE_BINARY_DIR}/lib/libshreddercuda.a")
add_custom_command(
	OUTPUT "${shredder_cuda_archive}"
	COMMAND ${CMAKE_COMMAND} -E rm -f "${shredder_cuda_archive}"
	COMMAND ${CMAKE_AR} crs "${shredder_cuda_archive}" "${shredder_cuda_engine}"
	DEPENDS "${shredder_cuda_engine}"
	VERBATIM)
add_custom_target(shredder_cuda_build ALL DEPENDS "${shredder_cuda_archive}")
target_compile_definitions(shredder_objects PUBLIC SHREDDER_CUDA)
target_link_libraries(shredder_objects PUBLIC "${shredder_cuda_archive}" "${G4_CUDART}" dl rt stdc++)
add_dependencies(shredder_objects shredder_cuda_build)

# gpu-shredder: tests/gpu/shredder.cu, shredder_speed.cu and blake3.cu as programs.
foreach(name shredder shredder_speed)
	g4_gpu_program(gpu-shredder-${name} ${name} HOST tests/gpu/shredder_host.c LIBRARY shredder_static
		FLAGS ${shredder_cuda_flags} LINK "${shredder_cuda_archive}")
endforeach()

# BLAKE3 as the engine's device code has it.
file(GLOB blake3_device CONFIGURE_DEPENDS src/hash/blake3.c src/hash/blake3_tree.c src/hash/blake3_portable.c src/hash/blake3_group.c
	src/simt/cuda/*.c tests/gpu/blake3.cu)
set(blake3_program "${CMAKE_BINARY_DIR}/tests/gpu/blake3")
add_custom_command(
	OUTPUT "${blake3_program}"
	COMMAND ${G4_NVCC} -x cu ${shredder_cuda_flags} "-I${CMAKE_CURRENT_SOURCE_DIR}/tests" -rdc=true ${blake3_device}
		-o "${blake3_program}"
	DEPENDS ${blake3_device} src/hash/blake3.h src/hash/blake3_types.h tests/unit/blake3_vectors.h
	COMMENT "nvcc tests/gpu/blake3"
	VERBATIM)
add_custom_target(gpu-shredder DEPENDS "${blake3_program}")
add_dependencies(gpu-shredder gpu-shredder-shredder gpu-shredder-shredder_speed)
add_dependencies(gpu-programs gpu-shredder)
