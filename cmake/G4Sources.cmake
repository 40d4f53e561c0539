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

# g4_units(OUT folder source...): the sources as they are or, with G4_UNIT, files below units/FOLDER of the build that include
# several of them each.
function(g4_units out folder)
	set(units ${ARGN})
	if(G4_UNIT GREATER 1 AND units)
		find_package(Python3 REQUIRED COMPONENTS Interpreter)
		execute_process(
			COMMAND ${Python3_EXECUTABLE} cmake/units.py "${CMAKE_BINARY_DIR}/units/${folder}" ${G4_UNIT} ${units}
			WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE units COMMAND_ERROR_IS_FATAL ANY)
	endif()
	set(${out} ${units} PARENT_SCOPE)
endfunction()

# g4_engine_units(OUT folder source...): units of what the engine is made of, but for what g4_objects_of() takes out of it and
# what tests put something else in the place of: they include it, or define what it does.
function(g4_engine_units out folder)
	set(alone "/src/(base|hash|simt|parity|gpu)/|/src/(ring/(execute|ring|session_host|serve_host)|cache/cache(_host)?|dev/(open_host|nvme/(flight|waiting_host))|dir/(dir|leaf|locks|shrink)|fs/clear|inode/icache)\\.c$")
	set(each ${ARGN})
	list(FILTER each INCLUDE REGEX "${alone}")
	list(FILTER ARGN EXCLUDE REGEX "${alone}")
	g4_units(units ${folder} ${ARGN})
	set(${out} ${each} ${units} PARENT_SCOPE)
endfunction()
