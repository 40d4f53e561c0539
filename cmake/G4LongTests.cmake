# What a sanitizer has nothing to see in has the label "long" in its builds: `make check` leaves it out there, `make check-long`
# runs it. Each is in `make check` in another build.
#   all of them              progress bars
#   ThreadSanitizer          tests of crashes and limits on images without sums: other bytes, the same threads; recovery over the
#                            emulated controller, whose threads unit.nvme.emulated has
#   ... of the cpu engine    programs and commands of one thread (strace -f -e clone,clone3 tells); repositories that are damaged, of
#                            other formats, with parity: the threads are those of shredder.backup
#   ... of the lanes engine  where lanes are threads: what of the host is below the engine or beside it, and calls through a ring
#                            that are made in-process as well; the same in both
if(G4_SANITIZE STREQUAL "" OR G4_SANITIZE MATCHES fuzzer)
	return()
endif()
set(long_tests "cli\\.progress")
if(G4_SANITIZE MATCHES thread)
	string(APPEND long_tests "|engine\\.(crash|recovery|limits|fsck_threads)\\.no_sums|engine\\.recovery\\.nvme|engine\\.recovery\\.dedup")
	if(G4_LANES EQUAL 0)
		string(APPEND long_tests
			"|engine\\.(acl|api_permissions|cross|crowded|damaged_tree|delete|device_names|dir|faults\\.all|fsck_superblock|icache"
			"|inode|leaf|lost_writes|move|names|optimistic|perm|policy|read|recovery|resum|shrink"
			"|ring_serve|ring_session|ring_untrusted|rollback|sectors|sums|symlink|sync|truncate|txn|writeback|xattr)"
			"|unit\\.(address|blake3|client_flags|command|crc32c|dev_mem|dev_open|error|format|fuse_options|parity|parity_combine|polling"
			"|nvme\\.requests|scratch|siphash|sums|units|uuid|validate|xxh3)"
			"|files\\.(alloc|data|dev|format|fs|inode|space)"
			"|crash\\.explorer" # its threads are those of large commits, as in engine.crash; the remote one has an agent's
			"|shredder\\.(cuts|formats|kernels|parity|rule|store_damage)"
			"|cli\\.(attr|documented|dump|exit_codes|help|json|mkfs|names|tune)")
	else()
		string(APPEND long_tests "|engine\\.fsck_(lost|superblock|threads)|engine\\.(crash_disks|disks_copies)|crash\\.explorer\\.remote"
			"|engine\\.api_(dirs|meta|permissions|xattr_acl)\\.connected"
			"|unit\\.(client_flags|command|dev_fault|dev_file|dev_mem|dev_open|dev_remote|error|format|fuse_options|gpu_sharing)"
			"|unit\\.(log|nvme\\.(emulated|pair|requests)|polling|units|uuid|validate)")
	endif()
endif()
get_property(tests DIRECTORY PROPERTY TESTS)
list(FILTER tests INCLUDE REGEX "^(${long_tests})$")
set_property(TEST ${tests} APPEND PROPERTY LABELS long)
