# The device API: libgpu4fs_device.a is what a program links whose kernels use gpu4fs/gpu4fs_device.h: both engines and the
# client, with device code that the program's own device link takes in. libg4cuda.a does not serve: it is linked for the GPU
# already, and an engine must be in a program once.
g4_cuda_object(device_object src/client/cuda/device.cu ${cuda_flags} -DG4_CUDA_REGISTERS=${G4_CUDA_REGISTERS})
set(device_archive "${CMAKE_BINARY_DIR}/lib/libgpu4fs_device.a")
add_custom_command(
	OUTPUT "${device_archive}"
	COMMAND ${CMAKE_COMMAND} -E rm -f "${device_archive}"
	COMMAND ${CMAKE_AR} crs "${device_archive}" $<TARGET_OBJECTS:g4_objects> "${device_object}" ${objects}
	DEPENDS $<TARGET_OBJECTS:g4_objects> "${device_object}" ${objects}
	COMMENT "Linking lib/libgpu4fs_device.a"
	COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(gpu4fs_device ALL DEPENDS "${device_archive}")

# g4_device_program(TARGET source [ALL]): a program of one file, built as a user's would be: public headers, the archive.
function(g4_device_program target source)
	get_filename_component(name "${source}" NAME_WE)
	get_filename_component(folder "${source}" DIRECTORY)
	g4_cuda_object(object "${source}" -std=c++20 -rdc=true -arch=${G4_CUDA_ARCH} ${G4_CUDA_OPTIMIZE} -Werror all-warnings
		-Xcompiler -Wall,-Wextra "-I${CMAKE_CURRENT_SOURCE_DIR}/include")
	set(program "${CMAKE_BINARY_DIR}/${folder}/${name}")
	add_custom_command(
		OUTPUT "${program}"
		COMMAND ${G4_NVCC} -arch=${G4_CUDA_ARCH} "${object}" "${device_archive}" "${G4_URING}" -lpthread -o "${program}"
		DEPENDS "${object}" "${device_archive}"
		COMMENT "Linking ${folder}/${name}"
		VERBATIM)
	add_custom_target(${target} ${ARGN} DEPENDS "${program}")
	add_custom_target(${target}-compiled ALL DEPENDS "${object}")
endfunction()

g4_device_program(doc_g4d_grep docs/gpu/g4d_grep.cu ALL)
g4_device_program(doc_g4d_gather docs/gpu/g4d_gather.cu ALL)
# A test for a machine with a GPU. That it compiles is part of `all`; what it links with links there in the programs above, and of its many kernels that are compiled
# quickly nvlink takes more than four minutes (of these programs 15 s).
g4_device_program(gpu-device tests/gpu/device.cu)
add_dependencies(gpu-programs gpu-device)

if(G4_TOOLS)
	set(folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
	file(RELATIVE_PATH pc_to_prefix "/prefix/${folder}" "/prefix/")
	string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
	file(RELATIVE_PATH cmake_to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/cmake/gpu4fs" "/prefix/")
	configure_file(cmake/gpu4fs-device.pc.in "${CMAKE_BINARY_DIR}/gpu4fs-device.pc" @ONLY)
	configure_file(cmake/gpu4fs-device.cmake.in "${CMAKE_BINARY_DIR}/gpu4fs-device.cmake" @ONLY)
	install(FILES "${device_archive}" DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(FILES "${CMAKE_BINARY_DIR}/gpu4fs-device.pc" DESTINATION ${folder})
	install(FILES "${CMAKE_BINARY_DIR}/gpu4fs-device.cmake" DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpu4fs)
endif()
