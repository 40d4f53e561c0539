# What ThreadSanitizer has nothing to see in has the label "long" in its builds: `make check` leaves it out there, `make check-long`
# runs it. In the cpu engine's build these are programs and commands of one thread (strace -f -e clone,clone3 tells); in the
# lanes engine's, where lanes are threads, what examines the offline checker, the same in both. In both builds, tests of crashes
# and limits on images with sums: other bytes, the same threads; recovery over the
# emulated controller, whose threads unit.nvme.emulated has.
if(NOT G4_SANITIZE MATCHES thread)
	return()
endif()
set(long_tests "engine\\.(crash|recovery|limits|fsck_threads)\\.sums|engine\\.recovery\\.nvme")
if(G4_LANES EQUAL 0)
	string(APPEND long_tests
		"|engine\\.(acl|crowded|damaged_tree|device_names|dir|fsck_superblock|icache|inode|leaf|move|names|optimistic|perm)"
		"|engine\\.(pipeline|policy|read|recovery|rollback|sectors|symlink|truncate|txn|writeback|xattr)"
		"|unit\\.(address|blake3|client_flags|command|crc32c|dev_mem|dev_open|error|format|fuse_options|polling|scratch)"
		"|unit\\.(siphash|units|uuid|validate|xxh3)"
		"|crash\\.explorer" # its threads are those of large commits, as in engine.crash; the remote one has an agent's
		"|shredder\\.(cuts|kernels|rule)"
		"|cli\\.(attr|documented|dump|exit_codes|help|json|mkfs|names|tune)")
else()
	string(APPEND long_tests "|engine\\.fsck_(lost|superblock|threads)")
endif()
get_property(tests DIRECTORY PROPERTY TESTS)
list(FILTER tests INCLUDE REGEX "^(${long_tests})$")
set_property(TEST ${tests} APPEND PROPERTY LABELS long)
