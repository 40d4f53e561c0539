# src/parity without the engine, for programs that measure it: a library for the host, of the engine's objects.
if(G4_LANES GREATER 0)
	return()
endif()
g4_objects_of(parity_objects_used g4_objects parity base hash simt)
add_library(parity_static STATIC EXCLUDE_FROM_ALL ${parity_objects_used})
target_link_libraries(parity_static PUBLIC g4_flags Threads::Threads)
set_target_properties(parity_static PROPERTIES LINKER_LANGUAGE C)

# bench/parity.py's program
if(G4_TOOLS)
	add_executable(parity_bench bench/parity.c)
	target_link_libraries(parity_bench PRIVATE parity_static ${CMAKE_DL_LIBS})
endif()
