# What `make check` leaves out has the label "long"; `make check-long` runs it.
#   without a sanitizer      the crash explorer on all of its workloads, and on forty times as many of sets of disks, and on more past sets in memory; `make check` tries half of the former; sets of disks behind an I/O
#                            agent that crash, have copies, are rebuilt, and of others there all but a share of the cases
#                            (disks_every()): the same code is below the agent and above it
#                            Sets of disks that rot, go, come and are replaced while two workers write, at random (fuse.torture_sets)
#                            Suites and work through the interception library; those of others, which are named by PJDFSTEST, LTP and
#                            FSX, or skipped
#   ... of the cpu engine    what AddressSanitizer runs is not run a second time without it, where that takes more than three
#                            seconds of processor time: the same source and the same calls, and what is wrong there is wrong under
#                            the sanitizer, too. It stays where the sanitizer takes a part of what is tried (rig_every(), rig_slow():
#                            faults, crash, model, corrupt and others), and where it may depend on optimised code (hashing,
#                            cutting), on real sizes, or on how a user calls a program (cli, backup, mount)
#
# In builds with a sanitizer, what that has nothing or little to see in. Each is in `make check` in another build.
#   all of them              progress bars; tests of crashes, limits and fsck on images without sums: other bytes, the same code
#                            (reading and the model have it, too); recovery over the emulated controller, and from its resets, which have
#                            unit.nvme.emulated and unit.nvme.recovery, and on shared pages, whose code engine.dedupe runs; sets
#                            behind an I/O agent, whose code and threads engine.disks_agent and engine.disks_engine.remote have
#   AddressSanitizer         half of the damaged images, which differ in the field that is damaged, and those without sums; fsck by
#                            several threads, which are ThreadSanitizer's; the explorer behind an I/O agent, whose code engine.agent
#                            and unit.dev_remote run; calls through a ring, and through the CUDA engine's host half, that are made
#                            in-process as well; repositories that crash, that have parity and that are behind a site, cutting by its
#                            model, and paths of many levels: most of what they cost is starting processes, or one loop
#   ThreadSanitizer          the model on images without sums and on shared pages: other bytes, the same threads; those
#                            that share pages are engine.dedup's and engine.dedupe's; sets of disks that crash, rot, are mended, grow, shrink
#                            or have copies, whose threads are those of engine.disks, and of engine.disks_orders where several give orders; of
#                            engine.leave_rows and engine.rebalance_rows what has no users who write meanwhile (.users has these)
#   ... of the cpu engine    tests of the engine that the lanes engine has: the same source, called by the same threads, but for
#                            those where threads meet most (model, linear, share, disks, makers, dedup); programs and commands of one thread (strace
#                            -f -e clone,clone3 tells); calls of the CUDA engine's host half, whose threads engine.standin and its
#                            api_meta have; fsck as a command, whose threads are engine.fsck_together'; repositories that crash, are
#                            damaged, copied, of other formats, with parity: the threads are those of shredder.backup; a
#                            server that is an attacker: those of shredder.rest and shredder.site, which is cut off as well
#   ... of the lanes engine  what of the host is below the engine or beside it, and calls through a ring that are made in-process
#                            as well; the same in both. So fsck, which is the host's altogether and has no lanes: files.fsck,
#                            engine.fsck_hidden and engine.fsck_together are ThreadSanitizer's of the cpu engine, and of what fsck finds nothing has two threads. So
#                            parts of sets that move, which one order after the other does. So the mirror
#                            of what clients were told: its threads meet in engine.linear.mirror of the cpu engine, the lanes
#                            that advance its epochs and who reads these in engine.model.mirror, the operations' lanes in
#                            engine.model and engine.linear; engine.mirror is one thread. So damaged trees,
#                            which one caller reads: other bytes, the lanes of engine.dir and map
if(G4_SANITIZE MATCHES fuzzer)
	return()
endif()
set(long_tests "crash\\.explorer\\.(all|sets_more|sets_remote|sets_direct_(more|others))" "engine\\.disks[a-z_]*\\.remote_all" "engine\\.(crash_disks|disks_copies|leave_rows|rebuild|rebuild_used)\\.remote"
	"preload\\.(databases|fsx|ltp|pjdfstest|work)")
if(NOT G4_SANITIZE AND G4_LANES EQUAL 0)
	list(APPEND long_tests "engine\\.(disks_add|disks_rot|disks_versions|lost_ahead|mirror|recovery)" "engine\\.disks_engine\\.remote" "unit\\.(dev_remote|lanes)"
		"shredder\\.(copy|formats|hostile|rest|store_damage|store_table)")
endif()
if(G4_SANITIZE)
	list(APPEND long_tests "cli\\.progress" "engine\\.(crash|recovery|limits|fsck_together)\\.no_sums" "engine\\.recovery\\.(nvme|dedup)"
		"engine\\.nvme_recovery" "engine\\.(disks|disks_mend|disks_parity|disks_rot)\\.remote" "engine\\.standin\\.disks_engine")
endif()
if(G4_SANITIZE MATCHES address)
	list(APPEND long_tests "corrupt\\.(1|3|no_sums)" "engine\\.fsck_together" "crash\\.explorer\\.remote" "cli\\.descent"
		"shredder\\.(chunker|parity|site|store_crash|store_gpu)"
		"engine\\.api_(dirs|permissions|xattr_acl)\\.connected" "engine\\.standin\\.(api_async|api_files|cross)")
endif()
if(G4_SANITIZE MATCHES thread)
	list(APPEND long_tests "crash\\.explorer\\.(sets|sets_orders)" "engine\\.model\\.(no_sums|dedup)" "engine\\.(crash_disks|disks_(add|copies|mend|parity|remove|rot|versions)|(leave|rebalance)_rows|rows_(back|orders|pieces))")
	if(G4_LANES EQUAL 0)
		list(APPEND long_tests
			# what is not of the engine alone stays, and what lanes leave out
			"engine\\.[a-z_]*" "engine\\.[a-z_]*\\.(all|batch|no_sums|tiny)" "engine\\.standin\\.(api_async|api_files|crash|cross)"
			"unit\\.(address|blake3|client_flags|command|crc32c|dev_mem|dev_open|error|format|fuse_options|parity|parity_combine|polling)"
			"unit\\.(nvme\\.(flight|flush|requests)|scratch|siphash|sums|units|uuid|validate|xxh3)"
			"files\\.(alloc|data|dev|format|fs|inode|space)"
			"crash\\.explorer(\\.tiny|\\.tiny_levels)?" # its threads are those of large commits, as in engine.crash; the remote one has an agent's
			"shredder\\.(copy|cuts|formats|hostile|kernels|parity|rule|store_crash|store_damage)"
			"cli\\.(attr|disks|documented|dump|exit_codes|fsck|help|json|mkfs|names|nvme_bench|tune)")
	else()
		list(APPEND long_tests "files\\.fsck" "engine\\.fsck_(hidden|together)" "engine\\.mirror" "engine\\.linear\\.mirror"
			"engine\\.model\\.tiny"
			"engine\\.damaged_tree" # one caller
			"engine\\.fsck_(listed|shared_map|super)" "engine\\.disks_(balance|move)" "engine\\.api_contents\\.connected"
			"crash\\.explorer\\.remote" "engine\\.disks_engine\\.remote" # ThreadSanitizer's of the cpu engine, and engine.agent
			"engine\\.api_(dirs|meta|permissions|xattr_acl)\\.connected"
			"unit\\.(client_flags|command|dev_fault|dev_file|dev_mem|dev_open|dev_remote|error|format|fuse_options|gpu_sharing)"
			"unit\\.(lanes|log|nvme\\.(emulated|flight|flush|pair|recovery|requests)|polling|units|uuid|validate)")
	endif()
endif()
get_property(tests DIRECTORY PROPERTY TESTS)
set(short_tests)
if(G4_SANITIZE MATCHES thread AND G4_LANES EQUAL 0)
	set(short_tests "^engine\\.(dedup|disks|fsck_hidden|fsck_together|linear|makers|model|share|standin)$")
endif()
foreach(pattern ${long_tests}) # one by one: CMake takes few parentheses in a pattern
	set(found ${tests})
	list(FILTER found INCLUDE REGEX "^${pattern}$")
	foreach(exception ${short_tests})
		list(FILTER found EXCLUDE REGEX "${exception}")
	endforeach()
	if(found)
		set_property(TEST ${found} APPEND PROPERTY LABELS long)
	endif()
endforeach()
