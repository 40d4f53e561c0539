# Which files make the engine. The modules are those of DESIGN.md "Layers"; tests/layering.py checks their arrows.
set(G4_MODULES base hash format parity dev space cache journal alloc dedup dir inode data fs ring device gpu engine)

# g4_sources(OUT pattern...): the files that match, found again at every build.
function(g4_sources out)
	list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
	file(GLOB found CONFIGURE_DEPENDS ${patterns})
	set(${out} ${found} PARENT_SCOPE)
endfunction()

# g4_engine_sources(OUT): the engine for the host, cpu or lanes by G4_LANES.
function(g4_engine_sources out)
	set(patterns src/simt/*.c src/trace/trace.c)
	foreach(module ${G4_MODULES})
		list(APPEND patterns src/${module}/*.c src/${module}/*/*.c)
	endforeach()
	if(G4_LANES GREATER 0)
		list(APPEND patterns src/simt/lanes/*.c src/simt/cpu/lock.c)
	else()
		list(APPEND patterns src/simt/cpu/*.c)
	endif()
	g4_sources(found ${patterns})
	set(${out} ${found} PARENT_SCOPE)
endfunction()

# g4_objects_of(OUT TARGET folder...): what an object library has compiled of these folders of src/, for a library that needs no
# more: each source is compiled once.
function(g4_objects_of out target)
	list(JOIN ARGN "|" folders)
	set(${out} "$<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,/src/(${folders})/>" PARENT_SCOPE)
endfunction()

# g4_gpu_subset(OUT): the engine files that are compiled for the GPU too. Host-only files are named *_host.c.
function(g4_gpu_subset out)
	set(patterns src/simt/*.c)
	foreach(module ${G4_MODULES})
		list(APPEND patterns src/${module}/*.c src/${module}/*/*.c)
	endforeach()
	g4_sources(found ${patterns})
	list(FILTER found EXCLUDE REGEX "_host\\.c$")
	set(${out} ${found} PARENT_SCOPE)
endfunction()
