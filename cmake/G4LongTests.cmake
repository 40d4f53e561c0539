# What `make check` leaves out has the label "long"; `make check-long` runs it.
#   without a sanitizer      the crash explorer on all of its workloads; `make check` tries half of them
#
# In builds with a sanitizer, what that has nothing or little to see in. Each is in `make check` in another build.
#   all of them              progress bars; tests of crashes, limits and fsck on images without sums: other bytes, the same code
#                            (reading and the model have it, too); recovery over the emulated controller, and from its resets, which have
#                            unit.nvme.emulated and unit.nvme.recovery, and on shared pages, whose code engine.dedupe runs
#   AddressSanitizer         half of the damaged images, which differ in the field that is damaged, and those without sums; fsck by
#                            several threads, which are ThreadSanitizer's; the explorer behind an I/O agent, whose code engine.agent
#                            and unit.dev_remote run; calls through a ring, and through the CUDA engine's host half, that are made
#                            in-process as well
#   ThreadSanitizer          the model on images without sums and on shared pages: other bytes, the same threads; those
#                            that share pages are engine.dedup's and engine.dedupe's
#   ... of the cpu engine    programs and commands of one thread (strace -f -e clone,clone3 tells); sets of disks that crash or have
#                            copies, whose threads are those of engine.disks; calls of the CUDA engine's host half, whose threads
#                            engine.standin and its api_meta have; fsck as a command, whose threads are engine.fsck_threads';
#                            repositories that are damaged, copied, of other formats, with parity: the threads are those of
#                            shredder.backup
#   ... of the lanes engine  where lanes are threads: what of the host is below the engine or beside it, and calls through a ring
#                            that are made in-process as well; the same in both
if(G4_SANITIZE MATCHES fuzzer)
	return()
endif()
set(long_tests "crash\\.explorer\\.all")
if(G4_SANITIZE)
	list(APPEND long_tests "cli\\.progress" "engine\\.(crash|recovery|limits|fsck_threads)\\.no_sums" "engine\\.recovery\\.(nvme|dedup)"
		"engine\\.nvme_recovery")
endif()
if(G4_SANITIZE MATCHES address)
	list(APPEND long_tests "corrupt\\.(1|3|no_sums)" "engine\\.fsck_threads" "crash\\.explorer\\.remote"
		"engine\\.api_(dirs|permissions|xattr_acl)\\.connected" "engine\\.standin\\.(api_async|api_files|cross)")
endif()
if(G4_SANITIZE MATCHES thread)
	list(APPEND long_tests "engine\\.model\\.(no_sums|dedup)")
	if(G4_LANES EQUAL 0)
		list(APPEND long_tests
			"engine\\.(acl|api_permissions|crash_disks|cross|crowded|damaged_tree|delete|device_names|dir|disks_copies|faults\\.all)"
			"engine\\.(fsck_superblock|icache|inode|leaf|lost_writes|move|names|optimistic|perm|policy|read|recovery|resum)"
			"engine\\.(ring_serve|ring_session|ring_untrusted|rollback|sectors|shrink|sums|symlink|sync|truncate|txn|writeback|xattr)"
			"engine\\.standin\\.(api_async|api_files|cross)" "engine\\.read\\.no_sums"
			"unit\\.(address|blake3|client_flags|command|crc32c|dev_mem|dev_open|error|format|fuse_options|parity|parity_combine|polling)"
			"unit\\.(nvme\\.(flight|requests)|scratch|siphash|sums|units|uuid|validate|xxh3)"
			"files\\.(alloc|data|dev|format|fs|inode|space)"
			"crash\\.explorer" # its threads are those of large commits, as in engine.crash; the remote one has an agent's
			"shredder\\.(copy|cuts|formats|kernels|parity|rule|store_damage)"
			"cli\\.(attr|disks|documented|dump|exit_codes|fsck|help|json|mkfs|names|tune)")
	else()
		list(APPEND long_tests "engine\\.fsck_(lost|superblock|threads)" "engine\\.(crash_disks|disks_copies|disks_parity)"
			"crash\\.explorer\\.remote"
			"engine\\.api_(dirs|meta|permissions|xattr_acl)\\.connected"
			"unit\\.(client_flags|command|dev_fault|dev_file|dev_mem|dev_open|dev_remote|error|format|fuse_options|gpu_sharing)"
			"unit\\.(lanes|log|nvme\\.(emulated|flight|pair|recovery|requests)|polling|units|uuid|validate)")
	endif()
endif()
get_property(tests DIRECTORY PROPERTY TESTS)
foreach(pattern ${long_tests}) # one by one: CMake takes few parentheses in a pattern
	set(found ${tests})
	list(FILTER found INCLUDE REGEX "^${pattern}$")
	if(found)
		set_property(TEST ${found} APPEND PROPERTY LABELS long)
	endif()
endforeach()
