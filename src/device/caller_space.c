/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller does with the space of files: fallocate, and copies inside the file system, by reference or not. */
#include "device/caller.h"

G4_FN int g4_caller_fallocate(struct g4_caller *caller, const struct g4_caller_file *file, uint32_t mode,
			      uint64_t offset, uint64_t bytes)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_FALLOCATE);

	if (file->handle == 0)
		return -G4_E_BADF;
	cmd.handle = file->handle;
	cmd.offset = offset;
	cmd.length = bytes;
	cmd.flags = mode;
	return g4_caller_run(caller, &cmd);
}

/* One command. Its scratch memory for a copy is the caller's, which no caller has anything in meanwhile. */
G4_FN static int run_copy(struct g4_caller *caller, struct g4_cmd *cmd)
{
	g4_scratch_release(caller->wg, caller->mark);
	const int rc = g4_caller_run(caller, cmd);

	caller->mark = g4_scratch_mark(caller->wg);
	caller->scratch = g4_scratch_take(caller->wg, G4_COPY_SCRATCH_BYTES);
	return rc;
}

G4_FN int64_t g4_caller_copy(struct g4_caller *caller, const struct g4_caller_file *from, uint64_t from_offset,
			     const struct g4_caller_file *to, uint64_t to_offset, uint64_t bytes, uint32_t flags)
{
	uint64_t done = 0, most = INT64_MAX;
	int rc = g4_caller_fstat(caller, from);

	if (rc == 0 &&
	    (!(g4_handle_flags(from->handle) & G4_OPEN_READ) || !(g4_handle_flags(to->handle) & G4_OPEN_WRITE) ||
	     (g4_handle_flags(to->handle) & G4_OPEN_APPEND)))
		rc = g4_is_dir(caller->attr.mode) ? -G4_E_ISDIR : -G4_E_BADF;
	if (rc == 0 && (from_offset > most || to_offset > most))
		rc = -G4_E_INVAL;
	if (rc < 0)
		return rc;
	if (from->ino == to->ino) /* what is behind the end is not copied, so it does not overlap either */
		most = g4_max64(caller->attr.size, from_offset) - from_offset;
	bytes = g4_min64(bytes, g4_min64(most, INT64_MAX - g4_max64(from_offset, to_offset)));
	while (rc == 0 && done < bytes) {
		struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_COPY_RANGE);
		cmd.handle = from->handle;
		cmd.handle2 = to->handle;
		cmd.offset = from_offset + done;
		cmd.offset2 = to_offset + done;
		cmd.length = bytes - done;
		cmd.flags = flags;
		rc = run_copy(caller, &cmd);
		if (rc == 0 && cmd.value == 0)
			break;
		done += rc == 0 ? cmd.value : 0;
	}
	return done > 0 ? (int64_t)done : rc;
}
