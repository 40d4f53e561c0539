/* SPDX-License-Identifier: Apache-2.0 */
/* Parts, operations, trees. */
#include "script.h"

#include "dir/leaf.h"
#include "engine/equal_names.h"
#include "fs/clear.h"
#include "fs/fs.h"
#include "fs/remove.h"

#define BUFFER_BYTES G4_REGION_BYTES
/* SET: the policy */
#define ON "dedup=on"
#define DOMAIN "dedup=domain"
#define LAST_PART (128 * G4_KIB) /* of the tree PARTS' l3 */
#define ROWS_BYTES                                                                                                     \
	(64 * G4_PAGE_BYTES) /* as much as a request has, and no whole number of stripes where they have 3 columns */
#define MAPS_BYTES (96 * G4_PAGE_BYTES) /* of the tree MAPS' m1, with all its parts but the last */
#define COPY_MAPS .verb = COPY, .path = "m2", .path2 = "m1", .bytes = MAPS_BYTES
#define WRITE_HALF(half, number) .verb = WRITE, .path = "l4", .offset = (half)*G4_MIB, .bytes = G4_MIB, .id = number

static _Thread_local uint8_t *buffer; /* page-aligned */

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	printf("preparing a tree: %s: %s\n", what, g4_strerror(rc));
	exit(2);
}

void actor_start(struct actor *actor, struct g4_fs *fs, struct g4_wg *wg)
{
	if (!buffer)
		buffer = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, BUFFER_BYTES);
	if (!buffer)
		abort();
	actor->rig.engine = NULL;
	actor->rig.fs = fs;
	actor->rig.wg = wg;
	actor->rig.cred = &actor->cred;
	actor->cred = (struct g4_cred){.flags = G4_CRED_TRUSTED};
	actor->opened = 0;
}

/* ------------------------------------------------------------------ running a part */

int part_resolve(struct actor *actor, const char *path, uint64_t *node)
{
	char part[PATH_MAX_PART];

	*node = G4_NODE_ROOT;
	while (*path) {
		struct g4_attr attr;
		size_t n = strcspn(path, "/");
		memcpy(part, path, n);
		part[n] = 0;
		path += n + (path[n] == '/');
		int rc = op_lookup(&actor->rig, *node, part, &attr);
		if (rc < 0)
			return rc;
		*node = attr.ino;
	}
	return 0;
}

/* The directory of a path and its last component. */
static int resolve_parent(struct actor *actor, const char *path, uint64_t *dir, const char **name)
{
	char above[PATH_MAX_PART];
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	snprintf(above, sizeof(above), "%.*s", slash ? (int)(slash - path) : 0, path);
	return part_resolve(actor, above, dir);
}

static int run_write(struct actor *actor, const struct part *part, uint64_t node, uint64_t handle)
{
	uint64_t done;

	if (part->id == 0)
		memset(buffer, 0, part->bytes);
	else
		rig_pattern(buffer, part->id * 1000003ull + part->offset, part->bytes);
	int rc = op_write(&actor->rig, node, handle, part->offset, buffer, part->bytes, &done);
	return rc == 0 && done < part->bytes ? -G4_E_NOSPC : rc;
}

static int run_tmpfile(struct actor *actor, const struct part *part, uint64_t dir)
{
	uint64_t handle;
	int rc = op_tmpfile(&actor->rig, dir, &actor->opened, &handle);

	return rc == 0 ? run_write(actor, part, 0, handle) : rc;
}

static int execute(struct actor *actor, struct g4_cmd *cmd)
{
	return actor->rig.engine ? g4_engine_execute(actor->rig.engine, cmd) :
				   g4_execute(actor->rig.wg, actor->rig.fs, cmd);
}

static int run_prune(struct actor *actor, const struct part *part)
{
	struct g4_dedup_counts counts;
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP,
			     .mask = part->verb == PRUNE ? G4_DEDUP_PRUNE : G4_DEDUP_PRUNE_OLDER,
			     .data = &counts,
			     .length = sizeof(counts)};

	cmd.cookie = part->bytes << 32; /* the first group; the only one */
	return execute(actor, &cmd);
}

/* ---- disks ---- */

static char (*disk_names)[64];
static uint32_t idle_disk;
static void (*disk_fail)(uint32_t disk);

void part_name_disks(char (*names)[64], uint32_t idle, void (*fail)(uint32_t disk))
{
	disk_names = names;
	idle_disk = idle;
	disk_fail = fail;
}

static int run_order(struct actor *actor, const struct part *part)
{
	const uint64_t disk = part->offset == IDLE_DISK ? idle_disk : part->offset;
	const char *name = disk_names && part->bytes != G4_DISK_REBALANCE ? disk_names[disk] : "";
	char message[512];
	struct g4_cmd cmd = {.op = G4_CMD_DISK,
			     .mask = (uint32_t)part->bytes,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .data = message,
			     .length = sizeof(message)};

	return execute(actor, &cmd);
}

/* Jobs that have ended did what they were for, and found nothing that is damaged. */
static int run_serve(struct actor *actor, const struct part *part)
{
	const struct g4_jobs *jobs = &actor->rig.fs->jobs;
	bool runs = true;
	int rc = 0;

	g4_jobs_look(actor->rig.fs); /* as who commits in the background */
	for (uint64_t k = 0; runs && (part->bytes == 0 || k < part->bytes); k++) {
		(void)g4_jobs_serve(actor->rig.wg, actor->rig.fs, true);
		runs = false;
		for (uint32_t i = 0; i < G4_JOBS; i++)
			runs |= jobs->records[i].state == G4_JOB_RUNNING;
	}
	for (uint32_t i = 0; i < G4_JOBS && rc == 0; i++)
		rc = jobs->records[i].state == G4_JOB_FAILED ? -(int)jobs->records[i].code :
		     jobs->records[i].errors > 0	     ? -G4_E_IO :
							       0;
	return rc;
}

static int run_restripe(struct actor *actor, const struct part *part, uint64_t node)
{
	struct g4_restriped told = {0};
	struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE, .node = node, .data = &told, .length = sizeof(told)};
	int rc = op_setxattr(&actor->rig, node, "gpu4fs.raid", part->path2, strlen(part->path2), 0);

	do {
		cmd.offset = told.next;
		rc = rc == 0 ? execute(actor, &cmd) : rc;
	} while (rc == 0 && told.next > 0);
	return rc;
}

static int run_mkdir_all(struct actor *actor, const struct part *part)
{
	uint64_t words[32] = {0};
	struct g4_batch_entry *entry = (struct g4_batch_entry *)(void *)words;
	char *path = (char *)(entry + 1);
	size_t bytes = strlen(part->path);

	if (sizeof(*entry) + bytes + 2 * part->bytes > sizeof(words))
		abort();
	memcpy(path, part->path, bytes);
	for (uint64_t k = 1; k < part->bytes; k++, bytes += 2)
		memcpy(path + bytes, "/x", 2);
	*entry = (struct g4_batch_entry){
		.op = G4_BATCH_MKDIR_ALL, .mode = 0755, .path_at = sizeof(*entry), .path_bytes = (uint32_t)bytes};
	struct g4_cmd cmd = {.op = G4_CMD_BATCH,
			     .node = G4_NODE_ROOT,
			     .data = words,
			     .length = sizeof(*entry) + bytes,
			     .mask = 1,
			     .cred = &actor->cred};
	const int rc = execute(actor, &cmd);
	return rc < 0 ? rc : entry->status;
}

static int run_clear(struct actor *actor, const struct part *part)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .length = part->bytes, .cred = &actor->cred};
	const int rc = part_resolve(actor, part->path, &cmd.node);

	/* somebody would help, but nobody comes: pages stay while names go, and are united behind that */
	if (actor->rig.fs)
		g4_store32_rlx(&actor->rig.fs->split.helpers, strcmp(part->path, "wb") == 0);
	return rc < 0 ? rc : execute(actor, &cmd);
}

uint32_t part_whole(const struct part *parts, uint32_t count, struct part *whole)
{
	uint32_t n = 1;

	while (n < count && parts[n].rest)
		n++;
	*whole = parts[n - 1];
	if (whole->verb == CLEAR)
		whole->bytes *= n;
	return n;
}

/* Verbs about a name that is made or removed. */
static int run_name(struct actor *actor, const struct part *part)
{
	struct rig *rig = &actor->rig;
	uint64_t dir, dir2, node;
	const char *name, *name2;
	char target[1001];
	int rc = resolve_parent(actor, part->path, &dir, &name);

	if (rc < 0)
		return rc;
	switch (part->verb) {
	case CREATE:
		return op_mknod(rig, dir, name, G4_S_IFREG | 0644, NULL);
	case DEVICE:
		return op_mknod_device(rig, dir, name, G4_S_IFCHR | 0600, part->bytes);
	case MKDIR:
		return op_mkdir(rig, dir, name, 0755, NULL);
	case SYMLINK:
		memset(target, 'q', part->bytes);
		target[part->bytes] = 0;
		return op_symlink(rig, dir, name, target, NULL);
	case UNLINK:
		return op_unlink(rig, dir, name);
	case RMDIR:
		return op_rmdir(rig, dir, name);
	default:
		break;
	}
	rc = resolve_parent(actor, part->path2, &dir2, &name2);
	if (rc < 0)
		return rc;
	if (part->verb == LINK) {
		rc = part_resolve(actor, part->path, &node);
		return rc == 0 ? op_link(rig, node, dir2, name2) : rc;
	}
	return op_rename(rig, dir, name, dir2, name2,
			 part->verb == EXCHANGE ? G4_RENAME_EXCHANGE :
			 part->verb == WHITEOUT ? G4_RENAME_WHITEOUT :
						  0);
}

static int run_set(struct actor *actor, const struct part *part, uint64_t node)
{
	/* version 2; user::rw- user:7:r-- group::r-- mask::r-- other::--- */
	static const uint8_t acl[44] = {2, 0, 0,    0,	  1,	0,    6,    0, 0xff, 0xff, 0xff, 0xff, 2,    0,	   4,
					0, 7, 0,    0,	  0,	4,    0,    4, 0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,
					4, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 0,    0,	   0xff, 0xff, 0xff, 0xff};

	if (strncmp(part->path2, "system.", 7) == 0)
		return op_setxattr(&actor->rig, node, part->path2, acl, sizeof(acl), 0);
	if (strcmp(part->path2, ON) == 0 || strcmp(part->path2, DOMAIN) == 0) {
		const char *word = strchr(part->path2, '=') + 1;
		return op_setxattr(&actor->rig, node, "gpu4fs.dedup", word, strlen(word), 0);
	}
	rig_pattern(buffer, part->id, part->bytes);
	return op_setxattr(&actor->rig, node, part->path2, buffer, part->bytes, 0);
}

static int run_copy(struct actor *actor, const struct part *part, uint64_t node)
{
	struct rig *rig = &actor->rig;
	const bool same = part->verb != COPY;
	uint64_t source, from = 0, to = 0, done = 0;
	int rc = part_resolve(actor, part->verb == DIG ? part->path : part->path2, &source);

	if (rc == 0)
		rc = op_open(rig, source, G4_OPEN_READ, &from);
	if (rc == 0)
		rc = op_open(rig, node, G4_OPEN_WRITE, &to);
	if (rc == 0)
		rc = op_copy_as(rig, from, same ? part->offset : 0, to, part->offset, part->bytes,
				part->verb == DIG ? G4_COPY_SAME | G4_COPY_ZEROS :
				same		  ? G4_COPY_SAME :
						    0,
				&done);
	if (to != 0)
		op_release(rig, to);
	if (from != 0)
		op_release(rig, from);
	return rc == 0 && done < part->bytes && !same ? -G4_E_NOSPC : rc;
}

/* Verbs about an inode. */
static int run_node(struct actor *actor, const struct part *part, uint64_t node)
{
	struct rig *rig = &actor->rig;
	struct g4_attr attr = {.mode = (uint32_t)part->bytes};
	uint64_t handle;

	switch (part->verb) {
	case WRITE:
		return run_write(actor, part, node, 0);
	case TRUNCATE:
	case CUT_OPEN:
		return op_truncate(rig, node, part->bytes);
	case ALLOCATE:
		return op_fallocate(rig, node, 0, part->offset, part->bytes);
	case PUNCH:
		return op_fallocate(rig, node, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, part->offset, part->bytes);
	case ZERO:
		return op_fallocate(rig, node, G4_FALLOC_ZERO_RANGE | G4_FALLOC_KEEP_SIZE, part->offset, part->bytes);
	case INSERT:
		return op_fallocate(rig, node, G4_FALLOC_INSERT_RANGE, part->offset, part->bytes);
	case COLLAPSE:
		return op_fallocate(rig, node, G4_FALLOC_COLLAPSE_RANGE, part->offset, part->bytes);
	case SET:
		return run_set(actor, part, node);
	case REMOVE:
		return op_removexattr(rig, node, part->path2);
	case CHMOD:
		return op_setattr(rig, node, G4_SET_MODE, &attr);
	case CHOWN:
		attr.gid = (uint32_t)part->bytes;
		return op_setattr(rig, node, G4_SET_GID, &attr);
	case TIMES:
		attr.atime_ns = attr.mtime_ns = part->bytes;
		return op_setattr(rig, node, G4_SET_ATIME | G4_SET_MTIME, &attr);
	case COPY:
	case DEDUPE:
	case DIG:
		return run_copy(actor, part, node);
	case RESTRIPE:
		return run_restripe(actor, part, node);
	case OPEN:
		actor->opened = node;
		return op_open(rig, node, G4_OPEN_READ | G4_OPEN_WRITE, &handle);
	case TMPFILE:
		return run_tmpfile(actor, part, node);
	case FSYNC:
		return op_fsync(rig, node);
	default:
		return op_fdatasync(rig, node);
	}
}

/* With G4_TEST_SCRUB: a scrub goes on beside the parts of a workload, a step for each; it is logged, and a new one begins where one has ended. */
static void scrub_some(struct actor *actor)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START};

	if (!actor->scrubs || !actor->rig.fs || !rig_setting("G4_TEST_SCRUB", 0))
		return;
	start.kind = G4_JOB_SCRUB;
	(void)g4_execute(actor->rig.wg, actor->rig.fs, &start); /* one may run */
	(void)g4_jobs_serve(actor->rig.wg, actor->rig.fs, true);
	(void)g4_jobs_log(actor->rig.wg, actor->rig.fs); /* a part that meets the same error says so */
	for (uint32_t i = 0; i < G4_JOBS; i++)
		must(-(int)actor->rig.fs->jobs.records[i].errors, "a scrub finds damage");
}

int part_run(struct actor *actor, const struct part *part)
{
	uint64_t node = actor->opened;

	scrub_some(actor);
	if (actor->rig.fs && rig_setting("G4_TEST_TIER", 0))
		rig_squeeze(&actor->rig); /* what was read comes from the second tier */
	actor->cred.uid = part->id;
	if (part->verb == SYNCFS)
		return op_sync(&actor->rig);
	if (part->verb == PRUNE || part->verb == PRUNE_OLDER)
		return run_prune(actor, part);
	if (part->verb == MKDIR_ALL)
		return run_mkdir_all(actor, part);
	if (part->verb == CLEAR)
		return run_clear(actor, part);
	if (part->verb == ORDER)
		return run_order(actor, part);
	if (part->verb == SCRUB)
		return op_job_start(&actor->rig, G4_JOB_SCRUB, 0, 0);
	if (part->verb == SERVE)
		return run_serve(actor, part);
	if (part->verb == FAIL) {
		disk_fail((uint32_t)part->offset);
		return 0;
	}
	if (part->verb <= EXCHANGE)
		return run_name(actor, part);
	int rc = part->verb == CUT_OPEN ? 0 : part_resolve(actor, part->path, &node);
	return rc == 0 ? run_node(actor, part, node) : rc;
}

bool part_is_sync(const struct part *part)
{
	return part->verb >= FSYNC;
}

bool part_is_of_disks(const struct part *part)
{
	return part->verb >= ORDER && part->verb <= RESTRIPE;
}

void part_print(const struct part *part, char *to, size_t room)
{
	static const char *const names[] = {
		"create", "device", "mkdir",	"mkdir-all", "symlink",	 "link",     "unlink",	  "rmdir",
		"clear",  "rename", "whiteout", "exchange",  "write",	 "truncate", "allocate",  "punch",
		"zero",	  "insert", "collapse", "set",	     "remove",	 "chmod",    "chown",	  "times",
		"copy",	  "dedupe", "dig",	"open",	     "cut-open", "tmpfile",  "prune",	  "prune-older",
		"order",  "scrub",  "serve",	"fail",	     "restripe", "fsync",    "fdatasync", "syncfs",
	};

	snprintf(to, room, "%s %s %s %lu %lu", names[part->verb], part->path, part->path2, (unsigned long)part->offset,
		 (unsigned long)part->bytes);
}

/* ------------------------------------------------------------------ operations */

#define FAR (UINT64_C(1) << 40)
const struct operation operations[] = {
	{"create", "n", "", {{.verb = CREATE, .path = "n", .id = 101}}},
	{"create-write",
	 "n",
	 "",
	 {{.verb = CREATE, .path = "n", .id = 101}, {.verb = WRITE, .path = "n", .bytes = 9000, .id = 201}}},
	{"create-tiny",
	 "d/t",
	 "d",
	 {{.verb = CREATE, .path = "d/t", .id = 102}, {.verb = WRITE, .path = "d/t", .bytes = 60, .id = 202}}},
	{"mkdir", "d/m", "d", {{.verb = MKDIR, .path = "d/m", .id = 103}}},
	{"mkdir-fill",
	 "m/f",
	 "m",
	 {{.verb = MKDIR, .path = "m", .id = 104},
	  {.verb = CREATE, .path = "m/f", .id = 105},
	  {.verb = WRITE, .path = "m/f", .bytes = 5000, .id = 205}}},
	/* one chain between two MKDIRs, a transaction each; and when that is durable once more */
	{"mkdir-all",
	 NULL,
	 "",
	 {{.verb = MKDIR_ALL, .path = "p", .bytes = 1, .id = 140},
	  {.verb = MKDIR_ALL, .path = "p", .bytes = 10, .id = 140, .rest = true},
	  {.verb = MKDIR_ALL, .path = "p", .bytes = 11, .id = 140, .rest = true},
	  {.verb = CHMOD, .path = "sh", .bytes = 0711},
	  {.verb = FSYNC, .path = "sh"},
	  {.verb = MKDIR_ALL, .path = "p", .bytes = 12, .id = 140},
	  {.verb = MKDIR_ALL, .path = "p", .bytes = 20, .id = 140, .rest = true},
	  {.verb = MKDIR_ALL, .path = "p", .bytes = 21, .id = 140, .rest = true}}},
	/* the same of names that go, the last ones of a directory in another one among them */
	{"rm-r",
	 NULL,
	 "",
	 {{.verb = MKDIR, .path = "d/s/u", .id = 141},
	  {.verb = CLEAR, .path = "d", .bytes = 1},
	  {.verb = CLEAR, .path = "d", .bytes = 1, .rest = true},
	  {.verb = CHMOD, .path = "sh", .bytes = 0711},
	  {.verb = FSYNC, .path = "sh"},
	  {.verb = CLEAR, .path = "d", .bytes = 1},
	  {.verb = CLEAR, .path = "d", .bytes = 1, .rest = true}}},
	/* with what a copy replaces: it is made beside it; of its contents some are shared, some written */
	{"cp-r",
	 "h",
	 "",
	 {{.verb = MKDIR, .path = "e/c", .id = 142},
	  {.verb = CREATE, .path = "e/c/n", .id = 143},
	  {.verb = COPY, .path = "e/c/n", .path2 = "b", .bytes = 12000},
	  {.verb = WRITE, .path = "e/c/n", .offset = 12288, .bytes = 6000, .id = 144},
	  {.verb = CHMOD, .path = "e/c/n", .bytes = 0600},
	  {.verb = RENAME, .path = "e/c/n", .path2 = "e/c/x"},
	  {.verb = RENAME, .path = "e/c/x", .path2 = "h"}}},
	{"symlink", NULL, "", {{.verb = SYMLINK, .path = "k", .bytes = 20, .id = 106}}},
	{"symlink-long", NULL, "d", {{.verb = SYMLINK, .path = "d/k", .bytes = 1000, .id = 107}}},
	{"link", "a", "d", {{.verb = LINK, .path = "a", .path2 = "d/a2"}}},
	{"unlink-tiny", NULL, "", {{.verb = UNLINK, .path = "a"}}},
	{"unlink-linked", "h", "", {{.verb = UNLINK, .path = "b"}}},
	{"unlink-big", NULL, "", {{.verb = UNLINK, .path = "big"}}},
	{"unlink-holes", NULL, "", {{.verb = UNLINK, .path = "holes"}}},
	{"unlink-symlink", NULL, "", {{.verb = UNLINK, .path = "l"}}},
	{"rmdir", NULL, "", {{.verb = RMDIR, .path = "e"}}},
	{"rename", "r", "", {{.verb = RENAME, .path = "a", .path2 = "r"}}},
	{"rename-over", "big", "", {{.verb = RENAME, .path = "a", .path2 = "big"}}},
	{"rename-across", "e/z", "e", {{.verb = RENAME, .path = "d/x", .path2 = "e/z"}}},
	{"rename-dir", "e", "", {{.verb = RENAME, .path = "d", .path2 = "e"}}},
	{"whiteout", "big", "d", {{.verb = WHITEOUT, .path = "d/x", .path2 = "big", .id = 116}}},
	{"whiteout-across", "e/s", "d", {{.verb = WHITEOUT, .path = "d/s", .path2 = "e/s", .id = 117}}},
	{"move-dir", "e/s", "e", {{.verb = RENAME, .path = "d/s", .path2 = "e/s"}}},
	{"exchange", "e", "d", {{.verb = EXCHANGE, .path = "d/y", .path2 = "e"}}},
	{"save",
	 "b",
	 "",
	 {{.verb = CREATE, .path = "new", .id = 108},
	  {.verb = WRITE, .path = "new", .bytes = 7000, .id = 208},
	  {.verb = RENAME, .path = "new", .path2 = "b"}}},
	{"write-tiny", "a", NULL, {{.verb = WRITE, .path = "a", .offset = 10, .bytes = 20, .id = 209}}},
	{"grow-tiny", "a", NULL, {{.verb = WRITE, .path = "a", .offset = 40, .bytes = 5000, .id = 210}}},
	{"overwrite", "b", NULL, {{.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 211}}},
	{"overwrite-page", "d/x", NULL, {{.verb = WRITE, .path = "d/x", .offset = 0, .bytes = 4096, .id = 212}}},
	{"append", "h", NULL, {{.verb = WRITE, .path = "b", .offset = 12000, .bytes = 10000, .id = 213}}},
	{"write-big", "big", NULL, {{.verb = WRITE, .path = "big", .offset = 0, .bytes = 262144, .id = 214}}},
	{"write-far", "holes", NULL, {{.verb = WRITE, .path = "holes", .offset = FAR, .bytes = 5000, .id = 215}}},
	{"fill-hole", "holes", NULL, {{.verb = WRITE, .path = "holes", .offset = 20000, .bytes = 9000, .id = 216}}},
	{"cut-big", "big", NULL, {{.verb = TRUNCATE, .path = "big", .bytes = 5000}}},
	{"cut-all", "b", NULL, {{.verb = TRUNCATE, .path = "b", .bytes = 0}}},
	{"cut-holes", "holes", NULL, {{.verb = TRUNCATE, .path = "holes", .bytes = 100000}}},
	{"extend", "a", NULL, {{.verb = TRUNCATE, .path = "a", .bytes = 10000}}},
	{"rewrite",
	 "b",
	 NULL,
	 {{.verb = TRUNCATE, .path = "b", .bytes = 0}, {.verb = WRITE, .path = "b", .bytes = 8192, .id = 217}}},
	{"allocate", "b", NULL, {{.verb = ALLOCATE, .path = "b", .offset = 8000, .bytes = 60000}}},
	{"allocate-write",
	 "n2",
	 "",
	 {{.verb = CREATE, .path = "n2", .id = 109},
	  {.verb = ALLOCATE, .path = "n2", .bytes = 20000},
	  {.verb = WRITE, .path = "n2", .offset = 4096, .bytes = 6000, .id = 218}}},
	{"punch", "big", NULL, {{.verb = PUNCH, .path = "big", .offset = 5000, .bytes = 200000}}},
	{"zero", "b", NULL, {{.verb = ZERO, .path = "b", .offset = 2000, .bytes = 8000}}},
	{"insert", "big", NULL, {{.verb = INSERT, .path = "big", .offset = 20480, .bytes = 8192}}},
	{"insert-far",
	 "holes",
	 NULL,
	 {{.verb = WRITE, .path = "holes", .offset = FAR, .bytes = 4096, .id = 227},
	  {.verb = INSERT, .path = "holes", .offset = 8192, .bytes = 4096}}},
	{"insert-shared",
	 "b",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = INSERT, .path = "b", .offset = 4096, .bytes = 4096},
	  {.verb = WRITE, .path = "b", .offset = 4096, .bytes = 5000, .id = 228}}},
	{"collapse", "big", NULL, {{.verb = COLLAPSE, .path = "big", .offset = 40960, .bytes = 12288}}},
	{"collapse-far",
	 "holes",
	 NULL,
	 {{.verb = WRITE, .path = "holes", .offset = FAR + 4096, .bytes = 4096, .id = 229},
	  {.verb = COLLAPSE, .path = "holes", .offset = 12288, .bytes = 4096}}},
	{"collapse-write",
	 "big",
	 NULL,
	 {{.verb = WRITE, .path = "big", .offset = 20480, .bytes = 9000, .id = 230},
	  {.verb = COLLAPSE, .path = "big", .offset = 0, .bytes = 16384},
	  {.verb = WRITE, .path = "big", .offset = 100, .bytes = 5000, .id = 231}}},
	{"set", "a", NULL, {{.verb = SET, .path = "a", .path2 = "user.new", .bytes = 5, .id = 219}}},
	{"set-large", "b", NULL, {{.verb = SET, .path = "b", .path2 = "user.big", .bytes = 30000, .id = 220}}},
	{"remove", "b", NULL, {{.verb = REMOVE, .path = "b", .path2 = "user.big"}}},
	{"chmod", "a", NULL, {{.verb = CHMOD, .path = "a", .bytes = 0400}}},
	{"chmod-dir", "d", "d", {{.verb = CHMOD, .path = "d", .bytes = 0700}}},
	{"device", "c", "", {{.verb = DEVICE, .path = "c", .bytes = 259, .id = 111}}},
	{"chown", "a", NULL, {{.verb = CHOWN, .path = "a", .bytes = 77}}},
	{"times", "h", NULL, {{.verb = TIMES, .path = "b", .bytes = 1234567890123456789}}},
	{"acl", "a", NULL, {{.verb = SET, .path = "a", .path2 = "system.posix_acl_access"}}},
	{"copy", "b", NULL, {{.verb = COPY, .path = "b", .path2 = "big", .offset = 4096, .bytes = 50000}}},
	{"share-write",
	 "big",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = WRITE, .path = "big", .offset = 4000, .bytes = 9000, .id = 226}}},
	{"share-unlink",
	 "b",
	 "",
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200}, {.verb = UNLINK, .path = "big"}}},
	{"share-cut",
	 "b",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .offset = 8192, .bytes = 300000},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = TRUNCATE, .path = "b", .bytes = 30000}}},
	/* copies of copies, and what becomes of one of three */
	{"share-chain",
	 "s2",
	 "",
	 {{.verb = CREATE, .path = "s1", .id = 150},
	  {.verb = COPY, .path = "s1", .path2 = "big", .bytes = 307200},
	  {.verb = CREATE, .path = "s2", .id = 151},
	  {.verb = COPY, .path = "s2", .path2 = "s1", .bytes = 307200},
	  {.verb = UNLINK, .path = "s1"},
	  {.verb = WRITE, .path = "s2", .offset = 20480, .bytes = 9000, .id = 270}}},
	{"share-three",
	 "b",
	 "",
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = CREATE, .path = "s3", .id = 152},
	  {.verb = COPY, .path = "s3", .path2 = "big", .bytes = 307200},
	  {.verb = FSYNC, .path = "s3"},
	  {.verb = UNLINK, .path = "big"},
	  {.verb = WRITE, .path = "b", .offset = 4000, .bytes = 9000, .id = 271}}},
	{"share-punch",
	 "b",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = PUNCH, .path = "b", .offset = 10000, .bytes = 100000},
	  {.verb = WRITE, .path = "big", .offset = 20480, .bytes = 9000, .id = 272}}},
	{"share-source-cut",
	 "big",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = TRUNCATE, .path = "big", .bytes = 30000},
	  {.verb = TRUNCATE, .path = "big", .bytes = 100000},
	  {.verb = WRITE, .path = "big", .offset = 65536, .bytes = 8192, .id = 273}}},
	{"share-dedupe", /* a run of "dedup run" beside a copy */
	 "b",
	 "",
	 {{.verb = WRITE, .path = "big", .bytes = 40960, .id = 274},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 274},
	  {.verb = CREATE, .path = "s4", .id = 153},
	  {.verb = COPY, .path = "s4", .path2 = "b", .bytes = 40960},
	  {.verb = DEDUPE, .path = "b", .path2 = "big", .bytes = 40960},
	  {.verb = DEDUPE, .path = "s4", .path2 = "big", .bytes = 40960},
	  {.verb = UNLINK, .path = "big"}}},
	{"share-collapse",
	 "b",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = COLLAPSE, .path = "b", .offset = 8192, .bytes = 12288},
	  {.verb = WRITE, .path = "b", .offset = 4096, .bytes = 5000, .id = 275}}},
	{"share-inside",
	 "big",
	 NULL,
	 {{.verb = COPY, .path = "big", .path2 = "big", .offset = 131072, .bytes = 98304},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = WRITE, .path = "big", .offset = 8192, .bytes = 4096, .id = 276},
	  {.verb = PUNCH, .path = "big", .offset = 131072, .bytes = 40960}}},
	{"share-save",
	 "big",
	 "",
	 {{.verb = CREATE, .path = "s5", .id = 154},
	  {.verb = COPY, .path = "s5", .path2 = "big", .bytes = 307200},
	  {.verb = WRITE, .path = "s5", .offset = 8192, .bytes = 9000, .id = 277},
	  {.verb = RENAME, .path = "s5", .path2 = "big"}}},
	{"share-back",
	 "big",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = WRITE, .path = "b", .offset = 12288, .bytes = 20000, .id = 278},
	  {.verb = COPY, .path = "big", .path2 = "b", .bytes = 307200}}},
	/* of 2 MiB that one pointer leads to, in the tree that has such a file */
	{"whole-copy", "l2", NULL, {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES}}},
	{"whole-write",
	 "l2",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l2", .offset = 4000, .bytes = 9000, .id = 249}}},
	{"whole-source",
	 "l1",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = FSYNC, .path = "l2"},
	  {.verb = WRITE, .path = "l1", .offset = 40960, .bytes = 4096, .id = 250}}},
	{"whole-unlink",
	 "l2",
	 "",
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES}, {.verb = UNLINK, .path = "l1"}}},
	{"whole-cut",
	 "l2",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = FSYNC, .path = "l2"},
	  {.verb = TRUNCATE, .path = "l2", .bytes = 30000}}},
	{"whole-punch",
	 "l1",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = PUNCH, .path = "l1", .offset = 20000, .bytes = 400000}}},
	{"whole-chain",
	 "l6",
	 "",
	 {{.verb = CREATE, .path = "l6", .id = 155},
	  {.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = COPY, .path = "l6", .path2 = "l2", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l2", .offset = 4000, .bytes = 9000, .id = 280},
	  {.verb = UNLINK, .path = "l1"}}},
	{"whole-three",
	 "l2",
	 "",
	 {{.verb = CREATE, .path = "l7", .id = 156},
	  {.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = COPY, .path = "l7", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = FSYNC, .path = "l7"},
	  {.verb = PUNCH, .path = "l2", .offset = 20000, .bytes = 400000},
	  {.verb = UNLINK, .path = "l7"}}},
	{"whole-back",
	 "l1",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l2", .offset = 40960, .bytes = 4096, .id = 281},
	  {.verb = COPY, .path = "l1", .path2 = "l2", .bytes = G4_REGION_BYTES}}},
	{"whole-dedupe",
	 "l2",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l2", .offset = 40960, .bytes = 8192, .id = 282},
	  {.verb = WRITE, .path = "l1", .offset = 40960, .bytes = 8192, .id = 282},
	  {.verb = DEDUPE, .path = "l2", .path2 = "l1", .offset = 40960, .bytes = 8192}}},
	{"whole-insert",
	 "l2",
	 NULL,
	 {{.verb = COPY, .path = "l2", .path2 = "l1", .bytes = G4_REGION_BYTES},
	  {.verb = FSYNC, .path = "l2"},
	  {.verb = INSERT, .path = "l2", .offset = 8192, .bytes = 4096}}},
	/* the last part of 2 MiB whose sums do not lie in a row: they are moved, and one pointer leads to all of it */
	{"join", "l3", NULL, {{.verb = WRITE, .path = "l3", .bytes = LAST_PART, .id = 257}}},
	{"join-copy",
	 "l3",
	 NULL,
	 {{.verb = COPY, .path = "l4", .path2 = "l3", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l3", .bytes = LAST_PART, .id = 257}}},
	{"join-write",
	 "l3",
	 NULL,
	 {{.verb = WRITE, .path = "l3", .bytes = LAST_PART, .id = 257},
	  {.verb = FSYNC, .path = "l3"},
	  {.verb = WRITE, .path = "l3", .offset = G4_MIB - 4096, .bytes = 9000, .id = 258}}},
	{"join-unlink",
	 "l4",
	 "",
	 {{.verb = WRITE, .path = "l3", .bytes = LAST_PART, .id = 257},
	  {.verb = COPY, .path = "l4", .path2 = "l3", .bytes = G4_REGION_BYTES},
	  {.verb = UNLINK, .path = "l3"}}},
	/*
	 * Halves that are written out of order, past the cache, and go beside each other: the last one makes the pointer, and its sums a row.
	 */
	{"halves", "l4", NULL, {{WRITE_HALF(1, 261)}, {WRITE_HALF(0, 262)}}},
	{"halves-sync",
	 "l4",
	 NULL,
	 {{WRITE_HALF(1, 261)},
	  {.verb = FSYNC, .path = "l4"},
	  {WRITE_HALF(0, 262)},
	  {.verb = WRITE, .path = "l4", .offset = G4_MIB - 4096, .bytes = 9000, .id = 263}}},
	{"halves-dup", /* with listings beside it in the same transactions */
	 "l4",
	 NULL,
	 {{.verb = SET, .path = "l4", .path2 = ON}, {WRITE_HALF(1, 266)}, {WRITE_HALF(0, 267)}}},
	{"halves-copy",
	 "l5",
	 "",
	 {{.verb = CREATE, .path = "l5", .id = 125},
	  {WRITE_HALF(1, 261)},
	  {WRITE_HALF(0, 262)},
	  {.verb = COPY, .path = "l5", .path2 = "l4", .bytes = G4_REGION_BYTES},
	  {.verb = WRITE, .path = "l5", .offset = 40960, .bytes = 4096, .id = 268}}},
	{"halves-unlink",
	 NULL,
	 "",
	 {{WRITE_HALF(1, 261)}, {.verb = FSYNC, .path = "l4"}, {WRITE_HALF(0, 262)}, {.verb = UNLINK, .path = "l4"}}},
	/* the copy leads to the indirect pages of its source, of level 2 and through that of level 1, until one of them changes */
	{"maps", "m2", NULL, {{COPY_MAPS}}},
	{"maps-write",
	 "m2",
	 NULL,
	 {{COPY_MAPS}, {.verb = WRITE, .path = "m2", .offset = 40000, .bytes = 9000, .id = 283}}},
	{"maps-source",
	 "m1",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = WRITE, .path = "m1", .offset = 40960, .bytes = 4096, .id = 284}}},
	{"maps-unlink", "m2", "", {{COPY_MAPS}, {.verb = UNLINK, .path = "m1"}}},
	{"maps-cut",
	 "m2",
	 NULL,
	 {{COPY_MAPS}, {.verb = FSYNC, .path = "m2"}, {.verb = TRUNCATE, .path = "m2", .bytes = 30000}}},
	{"maps-empty",
	 "m2",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = TRUNCATE, .path = "m2"},
	  {.verb = WRITE, .path = "m2", .bytes = 100, .id = 285}}},
	{"maps-punch", "m1", NULL, {{COPY_MAPS}, {.verb = PUNCH, .path = "m1", .offset = 20000, .bytes = 200000}}},
	{"maps-allocate", "m2", NULL, {{COPY_MAPS}, {.verb = ALLOCATE, .path = "m2", .offset = 4096, .bytes = 40000}}},
	{"maps-insert",
	 "m2",
	 NULL,
	 {{COPY_MAPS}, {.verb = FSYNC, .path = "m2"}, {.verb = INSERT, .path = "m2", .offset = 8192, .bytes = 4096}}},
	{"maps-collapse", "m2", NULL, {{COPY_MAPS}, {.verb = COLLAPSE, .path = "m2", .offset = 4096, .bytes = 12288}}},
	/* of 2 MiB: pages of level 1 move as they are, but for the one that the range begins in */
	{"maps-insert-whole",
	 "m2",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = INSERT, .path = "m2", .offset = 40960, .bytes = G4_REGION_BYTES}}},
	{"maps-collapse-whole",
	 "m2",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = INSERT, .path = "m2", .offset = 0, .bytes = G4_REGION_BYTES},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = COLLAPSE, .path = "m2", .offset = 0, .bytes = G4_REGION_BYTES}}},
	{"maps-hole", /* around all that is there */
	 "m2",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = PUNCH, .path = "m2", .offset = 0, .bytes = 2 * MAPS_BYTES},
	  {.verb = WRITE, .path = "m2", .offset = 8192, .bytes = 5000, .id = 290}}},
	{"maps-chain",
	 "m3",
	 "",
	 {{.verb = CREATE, .path = "m3", .id = 157},
	  {COPY_MAPS},
	  {.verb = COPY, .path = "m3", .path2 = "m2", .bytes = MAPS_BYTES},
	  {.verb = WRITE, .path = "m2", .offset = 4000, .bytes = 9000, .id = 286},
	  {.verb = UNLINK, .path = "m1"},
	  {.verb = WRITE, .path = "m3", .offset = 4000, .bytes = 9000, .id = 287}}},
	{"maps-back",
	 "m1",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = WRITE, .path = "m2", .offset = 40960, .bytes = 4096, .id = 288},
	  {.verb = COPY, .path = "m1", .path2 = "m2", .bytes = MAPS_BYTES}}},
	{"maps-dedupe",
	 "m2",
	 NULL,
	 {{COPY_MAPS},
	  {.verb = WRITE, .path = "m2", .offset = 40960, .bytes = 8192, .id = 289},
	  {.verb = WRITE, .path = "m1", .offset = 40960, .bytes = 8192, .id = 289},
	  {.verb = DEDUPE, .path = "m2", .path2 = "m1", .offset = 40960, .bytes = 8192}}},
	{"maps-unite", /* the second page is one again, until it changes */
	 "m2",
	 "",
	 {{COPY_MAPS},
	  {.verb = WRITE, .path = "m2", .offset = 40960, .bytes = 8192, .id = 291},
	  {.verb = WRITE, .path = "m1", .offset = 40960, .bytes = 8192, .id = 291},
	  {.verb = DEDUPE, .path = "m2", .path2 = "m1", .offset = 40960, .bytes = 8192},
	  {.verb = FSYNC, .path = "m2"},
	  {.verb = WRITE, .path = "m2", .offset = 8192, .bytes = 5000, .id = 292},
	  {.verb = UNLINK, .path = "m1"}}},
	{"dedupe",
	 "b",
	 NULL,
	 {{.verb = WRITE, .path = "big", .offset = 8192, .bytes = 49152, .id = 232},
	  {.verb = WRITE, .path = "b", .offset = 8192, .bytes = 49152, .id = 232},
	  {.verb = DEDUPE, .path = "b", .path2 = "big", .offset = 8192, .bytes = 49152},
	  {.verb = WRITE, .path = "b", .offset = 20480, .bytes = 9000, .id = 233}}},
	{"dedupe-unlink",
	 "b",
	 "",
	 {{.verb = WRITE, .path = "big", .offset = 0, .bytes = 40960, .id = 234},
	  {.verb = WRITE, .path = "b", .offset = 0, .bytes = 40960, .id = 234},
	  {.verb = DEDUPE, .path = "b", .path2 = "big", .offset = 0, .bytes = 40960},
	  {.verb = UNLINK, .path = "big"}}},
	{"dig",
	 "b",
	 NULL,
	 {{.verb = WRITE, .path = "b", .offset = 8192, .bytes = 49152},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = DIG, .path = "b", .offset = 8192, .bytes = 49152},
	  {.verb = WRITE, .path = "b", .offset = 20480, .bytes = 9000, .id = 235}}},
	{"unlink-open", NULL, "", {{.verb = OPEN, .path = "big"}, {.verb = UNLINK, .path = "big"}}},
	{"cut-unnamed",
	 NULL,
	 "",
	 {{.verb = OPEN, .path = "big"}, {.verb = UNLINK, .path = "big"}, {.verb = CUT_OPEN, .bytes = 10000}}},
	{"no-name", NULL, "", {{.verb = TMPFILE, .path = "", .bytes = 9000, .id = 110}}},
	{"use-space",
	 "u",
	 "",
	 {{.verb = CREATE, .path = "u", .id = 114}, {.verb = WRITE, .path = "u", .bytes = 80000, .id = 221}}},
	{"churn",
	 "u",
	 "",
	 {{.verb = REMOVE, .path = "b", .path2 = "user.big"},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = CREATE, .path = "u", .id = 115},
	  {.verb = WRITE, .path = "u", .bytes = 80000, .id = 222}}},
	{"republish",
	 "b",
	 NULL,
	 {{.verb = WRITE, .path = "b", .bytes = 8192, .id = 223},
	  {.verb = TRUNCATE, .path = "b", .bytes = 40000},
	  {.verb = TRUNCATE, .path = "b", .bytes = 100}}},
	{"extend-mapped", "b", NULL, {{.verb = TRUNCATE, .path = "b", .bytes = 60000}}},
	{"append-extend",
	 "b",
	 NULL,
	 {{.verb = WRITE, .path = "b", .offset = 12000, .bytes = 10000, .id = 224},
	  {.verb = TRUNCATE, .path = "b", .bytes = 60000}}},
	{"append-allocate",
	 "b",
	 NULL,
	 {{.verb = WRITE, .path = "b", .offset = 12000, .bytes = 10000, .id = 225},
	  {.verb = ALLOCATE, .path = "b", .offset = 8000, .bytes = 60000}}},
	/* past the cache, and no multiples of a stripe: what is written next shares one with what was before */
	{"stripes",
	 "p1",
	 "",
	 {{.verb = CREATE, .path = "p1", .id = 131},
	  {.verb = WRITE, .path = "p1", .bytes = ROWS_BYTES, .id = 281},
	  {.verb = WRITE, .path = "p1", .offset = ROWS_BYTES, .bytes = ROWS_BYTES, .id = 282},
	  {.verb = WRITE, .path = "p1", .offset = 2 * ROWS_BYTES, .bytes = ROWS_BYTES, .id = 283},
	  {.verb = CREATE, .path = "p2", .id = 132},
	  {.verb = WRITE, .path = "p2", .bytes = ROWS_BYTES, .id = 284}}},
	{"stripes-sync",
	 "p3",
	 "",
	 {{.verb = CREATE, .path = "p3", .id = 133},
	  {.verb = WRITE, .path = "p3", .bytes = ROWS_BYTES, .id = 285},
	  {.verb = WRITE, .path = "p3", .offset = ROWS_BYTES, .bytes = ROWS_BYTES, .id = 286},
	  {.verb = FSYNC, .path = "p3"},
	  {.verb = WRITE, .path = "p3", .offset = 2 * ROWS_BYTES, .bytes = ROWS_BYTES, .id = 287},
	  {.verb = WRITE, .path = "p3", .offset = 3 * ROWS_BYTES, .bytes = ROWS_BYTES, .id = 288}}},
	{"stripes-unlink",
	 "p5",
	 "",
	 {{.verb = CREATE, .path = "p4", .id = 134},
	  {.verb = WRITE, .path = "p4", .bytes = ROWS_BYTES, .id = 289},
	  {.verb = WRITE, .path = "p4", .offset = ROWS_BYTES, .bytes = ROWS_BYTES, .id = 290},
	  {.verb = CREATE, .path = "p5", .id = 135},
	  {.verb = UNLINK, .path = "p4"},
	  {.verb = WRITE, .path = "p5", .bytes = ROWS_BYTES, .id = 291},
	  {.verb = WRITE, .path = "p5", .offset = ROWS_BYTES, .bytes = ROWS_BYTES, .id = 292}}},
	/* deduplication of what is written: of everybody's, and in a domain */
	{"dup-write",
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .offset = 8192, .bytes = 49152, .id = 240},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .offset = 8192, .bytes = 49152, .id = 240}}},
	{"dup-large", /* past the cache: the first half is there */
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 131072, .id = 249},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 270336, .id = 249}}},
	{"dup-unlink",
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 241},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 241},
	  {.verb = UNLINK, .path = "big"}}},
	{"dup-overwrite",
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 242},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = WRITE, .path = "big", .offset = 12288, .bytes = 20000, .id = 243},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 242}}},
	{"dup-prune",
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 244},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = PRUNE},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 244}}},
	{"dup-prune-shared", /* what has two owners stays on the list, until the last one goes */
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 283},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 20480, .id = 283},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = PRUNE},
	  {.verb = UNLINK, .path = "big"}}},
	{"dup-prune-older",
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 287},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 20480, .id = 287},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = PRUNE_OLDER, .bytes = UINT32_MAX},
	  {.verb = UNLINK, .path = "big"}}},
	{"dup-three",
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 284},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 284},
	  {.verb = SET, .path = "d/x", .path2 = ON},
	  {.verb = WRITE, .path = "d/x", .bytes = 40960, .id = 284},
	  {.verb = UNLINK, .path = "big"}}},
	{"dup-punch",
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 285},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 285},
	  {.verb = PUNCH, .path = "big", .offset = 10000, .bytes = 20000},
	  {.verb = WRITE, .path = "b", .offset = 20480, .bytes = 9000, .id = 286}}},
	{"dup-cut",
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 287},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 287},
	  {.verb = TRUNCATE, .path = "big", .bytes = 10000},
	  {.verb = TRUNCATE, .path = "b", .bytes = 20000}}},
	{"dup-copied", /* what a copy by reference has already is written again */
	 "b",
	 NULL,
	 {{.verb = SET, .path = "big", .path2 = ON},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 288},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 288}}},
	{"dup-zeros", /* zeros over what is shared: holes */
	 "b",
	 NULL,
	 {{.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .offset = 8192, .bytes = 49152},
	  {.verb = WRITE, .path = "b", .offset = 20480, .bytes = 9000, .id = 289}}},
	{"dup-domain",
	 "d/o",
	 "d",
	 {{.verb = SET, .path = "d", .path2 = DOMAIN},
	  {.verb = CREATE, .path = "d/n", .id = 119},
	  {.verb = WRITE, .path = "d/n", .bytes = 40960, .id = 245},
	  {.verb = FSYNC, .path = "d/n"},
	  {.verb = CREATE, .path = "d/o", .id = 120},
	  {.verb = WRITE, .path = "d/o", .bytes = 40960, .id = 245}}},
	{"dup-apart", /* a file has a domain, and others have its contents */
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = DOMAIN},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 246},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SET, .path = "b", .path2 = ON},
	  {.verb = WRITE, .path = "b", .bytes = 40960, .id = 246},
	  {.verb = RENAME, .path = "big", .path2 = "e/big"}}},
	{"dup-across", /* what is listed for a domain has an owner outside, and then only that */
	 "b",
	 "",
	 {{.verb = SET, .path = "big", .path2 = DOMAIN},
	  {.verb = WRITE, .path = "big", .bytes = 40960, .id = 247},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = COPY, .path = "b", .path2 = "big", .bytes = 307200},
	  {.verb = UNLINK, .path = "big"},
	  {.verb = WRITE, .path = "b", .offset = 8192, .bytes = 9000, .id = 248}}},
	/* in the directories that only one tree has */
	{"split", "w1/n", "w1", {{.verb = CREATE, .path = "w1/n", .id = 121}}},
	{"split-link", "a", "w1", {{.verb = LINK, .path = "a", .path2 = "w1/a"}}},
	{"split-rename", "w1/b", "w1", {{.verb = RENAME, .path = "b", .path2 = "w1/b"}}},
	{"split-mkdir", "w1/m", "w1", {{.verb = MKDIR, .path = "w1/m", .id = 112}}},
	{"split-beside", "w4/n", "w4", {{.verb = CREATE, .path = "w4/n", .id = 122}}},
	{"split-whiteout", "w1/b", "w1", {{.verb = WHITEOUT, .path = "b", .path2 = "w1/b", .id = 118}}},
	{"wide-insert", "w2/f", NULL, {{.verb = INSERT, .path = "w2/f", .offset = 12288, .bytes = 4096}}},
	{"wide-collapse", "w2/f", NULL, {{.verb = COLLAPSE, .path = "w2/f", .offset = 4096, .bytes = 12288}}},
	{"wide-create", "w2/n", "w2", {{.verb = CREATE, .path = "w2/n", .id = 113}}},
	{"wide-unlink", NULL, "w2", {{.verb = UNLINK, .path = "w2/y"}}},
	{"wide-rename", "w2/z", "w2", {{.verb = RENAME, .path = "w2/y", .path2 = "w2/z"}}},
	{"unite", NULL, "w3", {{.verb = UNLINK, .path = "w3/yyyyyyyyyyyyyyyyy"}}},
	{"unite-split",
	 "w3/n",
	 "w3",
	 {{.verb = RENAME, .path = "w3/yyyyyyyyyyyyyyyyy", .path2 = "w3/z"},
	  {.verb = RENAME, .path = "w3/z", .path2 = "w1/z"},
	  {.verb = CREATE, .path = "w3/n", .id = 123}}},
#ifdef G4_DIR_TINY
	{"tiny-new-level", "w5/n", "w5", {{.verb = CREATE, .path = "w5/n", .id = 124}}},
	{"tiny-new-level-rename", "w5/n", "w5", {{.verb = RENAME, .path = "b", .path2 = "w5/n"}}},
	{"tiny-leaf-goes", NULL, "w7", {{.verb = CLEAR, .path = "w7", .bytes = 1}}},
	{"tiny-level-goes", NULL, "w8", {{.verb = CLEAR, .path = "w8", .bytes = 1}}},
	{"tiny-equal-divide", "w9/=mn", "w9", {{.verb = CREATE, .path = "w9/=mn", .id = 126}}},
	{"tiny-equal-divide-rename", "w9/=mn", "w9", {{.verb = RENAME, .path = "b", .path2 = "w9/=mn"}}},
	{"tiny-equal-divide-symlink",
	 "w9/=mn",
	 "w9",
	 {{.verb = SYMLINK, .path = "w9/=mn", .path2 = "target", .id = 127}}},
	{"tiny-equal-again", "wa/=mn", "wa", {{.verb = CREATE, .path = "wa/=mn", .id = 128}}},
	{"tiny-equal-unite", NULL, "wa", {{.verb = UNLINK, .path = "wa/=my"}}},
	{"tiny-equal-goes", NULL, "wa", {{.verb = CLEAR, .path = "wa", .bytes = 1000}}},
	{"tiny-runs-go", NULL, "wb", {{.verb = CLEAR, .path = "wb", .bytes = 1}}},
#endif
	/* of sets of disks; what is written meanwhile is behind the job and before it */
	{"disk-rebuild",
	 "b",
	 "",
	 {{.verb = ORDER, .offset = 1, .bytes = G4_DISK_OFFLINE},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 290},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = ORDER, .offset = 1, .bytes = G4_DISK_REBUILD},
	  {.verb = SERVE, .bytes = 1},
	  {.verb = WRITE, .path = "b", .offset = 9000, .bytes = 9000, .id = 291},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = SERVE}}},
	{"disk-replace",
	 "big",
	 "",
	 {{.verb = ORDER, .offset = 0, .bytes = G4_DISK_OFFLINE},
	  {.verb = CREATE, .path = "n", .id = 189},
	  {.verb = SYNCFS},
	  {.verb = ORDER, .offset = 0, .bytes = G4_DISK_REPLACE},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "big", .bytes = 256 * G4_KIB, .id = 292},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SERVE}}},
	{"disk-scrub",
	 "b",
	 "",
	 {{.verb = SCRUB},
	  {.verb = SERVE, .bytes = 1},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 293},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = SERVE, .bytes = 1},
	  {.verb = UNLINK, .path = "big"},
	  {.verb = SYNCFS},
	  {.verb = SERVE}}},
	{"disk-remove",
	 "b",
	 "",
	 {{.verb = ORDER, .offset = 2, .bytes = G4_DISK_REMOVE},
	  {.verb = SERVE, .bytes = 1},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 294},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = SERVE, .bytes = 1},
	  {.verb = WRITE, .path = "big", .bytes = 256 * G4_KIB, .id = 295},
	  {.verb = SYNCFS},
	  {.verb = SERVE}}},
	{"disk-restripe",
	 "big",
	 "",
	 {{.verb = RESTRIPE, .path = "big", .path2 = "1"},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = WRITE, .path = "big", .offset = 20000, .bytes = 9000, .id = 296},
	  {.verb = RESTRIPE, .path = "holes", .path2 = "1"},
	  {.verb = SYNCFS},
	  {.verb = RESTRIPE, .path = "big", .path2 = "5"}}},
	/* the same with a disk that is none of the set at first */
	{"disk-renew", /* in the place of one that is still there, and is named with the others */
	 "b",
	 "",
	 {{.verb = ORDER, .offset = 0, .bytes = G4_DISK_OFFLINE},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 300},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = ORDER, .offset = IDLE_DISK, .bytes = G4_DISK_REPLACE},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "big", .bytes = 128 * G4_KIB, .id = 301},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SERVE}}},
	{"disk-spare",
	 "b",
	 "",
	 {{.verb = ORDER, .offset = IDLE_DISK, .bytes = G4_DISK_ADD_SPARE},
	  {.verb = FAIL, .offset = 0},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 302},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "big", .bytes = 128 * G4_KIB, .id = 303},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SERVE}}},
	{"disk-add",
	 "b",
	 "",
	 {{.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 304},
	  {.verb = ORDER, .offset = IDLE_DISK, .bytes = G4_DISK_ADD},
	  {.verb = CREATE, .path = "n", .id = 188},
	  {.verb = WRITE, .path = "n", .bytes = 64 * G4_KIB, .id = 305},
	  {.verb = SYNCFS},
	  {.verb = WRITE, .path = "big", .offset = 20000, .bytes = 9000, .id = 306}}},
	{"disk-rebalance",
	 "big",
	 "",
	 {{.verb = ORDER, .offset = IDLE_DISK, .bytes = G4_DISK_ADD},
	  {.verb = ORDER, .bytes = G4_DISK_REBALANCE},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 307},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "big", .bytes = 128 * G4_KIB, .id = 308},
	  {.verb = SERVE}}},
	{"disk-exchange", /* all that lies on one goes to the new one */
	 "b",
	 "",
	 {{.verb = ORDER, .offset = IDLE_DISK, .bytes = G4_DISK_ADD},
	  {.verb = WRITE, .path = "b", .offset = 3000, .bytes = 6000, .id = 309},
	  {.verb = FSYNC, .path = "b"},
	  {.verb = ORDER, .offset = 0, .bytes = G4_DISK_REMOVE},
	  {.verb = SERVE, .bytes = 2},
	  {.verb = WRITE, .path = "big", .bytes = 128 * G4_KIB, .id = 310},
	  {.verb = FSYNC, .path = "big"},
	  {.verb = SERVE}}},
};
const uint32_t operation_count = sizeof(operations) / sizeof(operations[0]);

static bool part_makes(const struct part *part)
{
	return part->id != 0 && (part->verb <= SYMLINK || part->verb == WHITEOUT || part->verb == TMPFILE);
}

/* Whether two parts make inodes of different names that a judge could not tell apart. */
static bool ids_collide(const struct part *a, const struct part *b)
{
	return part_makes(a) && part_makes(b) && a->id == b->id && strcmp(a->path, b->path) != 0;
}

void operations_check(void)
{
	const uint32_t parts = operation_count * OPERATION_PARTS;

	for (uint32_t k = 0; k < parts; k++)
		for (uint32_t n = 0; n < k; n++) {
			const struct operation *first = &operations[n / OPERATION_PARTS];
			const struct operation *second = &operations[k / OPERATION_PARTS];
			if (!ids_collide(&first->parts[n % OPERATION_PARTS], &second->parts[k % OPERATION_PARTS]))
				continue;
			fprintf(stderr, "crash: %s and %s make two inodes of one id\n", first->name, second->name);
			exit(2);
		}
}

const struct operation *operation_find(const char *name)
{
	for (uint32_t k = 0; k < operation_count; k++)
		if (strcmp(operations[k].name, name) == 0)
			return &operations[k];
	return NULL;
}

/* ------------------------------------------------------------------ trees */

const char *const tree_names[TREE_KINDS] = {"small", "wrap", "due", "full", "wide", "large", "parts", "halves", "maps"};

static void make(struct actor *actor, const char *path, uint64_t bytes, uint32_t id)
{
	struct part part = {.verb = CREATE, .id = id};

	snprintf(part.path, sizeof(part.path), "%s", path);
	must(part_run(actor, &part), path);
	part.verb = WRITE;
	part.bytes = bytes;
	if (bytes)
		must(part_run(actor, &part), path);
}

static void do_part(struct actor *actor, struct part part)
{
	must(part_run(actor, &part), part.path);
}

/* What the operations above are about. */
static void populate_small(struct actor *actor)
{
	make(actor, "a", 50, 1);
	make(actor, "b", 12000, 2);
	make(actor, "big", 300 * G4_KIB, 3);
	do_part(actor, (struct part){.verb = MKDIR, .path = "d", .id = 4});
	make(actor, "d/x", 6000, 5);
	make(actor, "d/y", 10, 6);
	do_part(actor, (struct part){.verb = MKDIR, .path = "d/s", .id = 7});
	do_part(actor, (struct part){.verb = MKDIR, .path = "e", .id = 8});
	do_part(actor, (struct part){.verb = SYMLINK, .path = "l", .bytes = 9, .id = 9});
	do_part(actor, (struct part){.verb = LINK, .path = "b", .path2 = "h"});
	do_part(actor, (struct part){.verb = SET, .path = "b", .path2 = "user.big", .bytes = 20000, .id = 1});
	do_part(actor, (struct part){.verb = SET, .path = "a", .path2 = "user.small", .bytes = 100, .id = 2});
	do_part(actor, (struct part){.verb = MKDIR, .path = "sh", .id = 12});
	make(actor, "holes", 0, 10); /* in pieces, so that its map has pages */
	for (uint64_t k = 0; k < 30; k++)
		do_part(actor, (struct part){.verb = WRITE,
					     .path = "holes",
					     .offset = k * 3 * G4_PAGE_BYTES,
					     .bytes = G4_PAGE_BYTES,
					     .id = 3});
}

/* Leaves about `leave` pages beyond what the engine keeps for itself. */
static void use_up_space(struct actor *actor, uint64_t leave)
{
	struct part part = {.verb = WRITE, .path = "fill", .bytes = 64 * G4_KIB, .id = 4};
	struct g4_statfs space;

	make(actor, "fill", 0, 11);
	for (;; part.offset += part.bytes) {
		must(op_sync(&actor->rig), "sync");
		must(op_statfs(&actor->rig, &space), "statfs");
		if (space.blocks_available <= leave + 4)
			return;
		part.bytes = g4_min64(64 * G4_KIB, (space.blocks_available - leave) / 2 * G4_PAGE_BYTES);
		must(part_run(actor, &part), "fill");
	}
}

#define FAR_PARTS 40u
#define LEAF_NAMES (G4_LEAF_FILL / 4) /* of four units: so many fill a leaf, 63 unless it is tiny */
static void populate_directory(struct actor *actor, const char *path, uint32_t id, uint32_t names)
{
	struct part part = {.verb = MKDIR, .id = id};
	char name[41];
	uint64_t dir;

	snprintf(part.path, sizeof(part.path), "%s", path);
	do_part(actor, part);
	must(part_resolve(actor, path, &dir), path);
	memset(name, 'x', sizeof(name));
	name[40] = 0;
	for (uint32_t k = 0; k < names; k++) {
		name[0] = (char)('0' + k / 10);
		name[1] = (char)('0' + k % 10);
		actor->cred.uid = id + 1 + k;
		must(op_mknod(&actor->rig, dir, name, G4_S_IFREG | 0644, NULL), name);
	}
}

/* Units in use of the leaf of a name, or of the one where it would be. */
static uint32_t leaf_units(struct actor *actor, uint64_t ino, const char *name, uint64_t *leaf)
{
	struct g4_fs *fs = actor->rig.fs;
	struct g4_dir_slot slot = {0};
	uint32_t index;

	must(g4_icache_get(actor->rig.wg, fs, ino, &index), name);
	const struct g4_dir dir = g4_dir_of(fs, g4_icache_at(fs, index));
	const int rc = g4_dir_lookup(actor->rig.wg, &dir, name, (uint32_t)strlen(name), &slot);
	must(rc == -G4_E_NOENT ? 0 : rc, name);
	g4_icache_put(fs, index);
	*leaf = g4_address_stored(slot.page);
	return G4_LEAF_FILL - slot.room;
}

#define Y "yyyyyyyyyyyyyyyyy"
/* A directory of two leaves of which removing y, of three units, makes one. */
static void populate_sparse(struct actor *actor, const char *path, uint32_t id, uint32_t names)
{
	uint64_t dir, leaf, of_y;
	char name[41];

	populate_directory(actor, path, id, names);
	must(part_resolve(actor, path, &dir), path);
	actor->cred.uid = id + 1 + names;
	must(op_mknod(&actor->rig, dir, Y, G4_S_IFREG | 0644, NULL), Y);
	memset(name, 'x', sizeof(name));
	name[40] = 0;
	for (uint32_t k = 0; k < names; k++) {
		name[0] = (char)('0' + k / 10);
		name[1] = (char)('0' + k % 10);
		(void)leaf_units(actor, dir, Y, &of_y);
		/* a quarter is left where y is, one unit more in the other one: too many for a page by one */
		if (leaf_units(actor, dir, name, &leaf) > G4_LEAF_FILL / 4 + (leaf != of_y))
			must(op_unlink(&actor->rig, dir, name), name);
	}
	struct g4_attr attr;
	must(op_getattr(&actor->rig, dir, &attr), path);
	if (attr.size != 3 * G4_PAGE_BYTES) /* an index page, two leaves */
		must(-G4_E_INVAL, "two sparse leaves");
}

/* A directory of several leaves, of which that of "n" is full. */
static void populate_full_leaf(struct actor *actor, const char *path, uint32_t id, uint32_t names)
{
	uint64_t dir, leaf, of_n;
	char name[41];

	populate_directory(actor, path, id, names);
	must(part_resolve(actor, path, &dir), path);
	memset(name, 'z', sizeof(name));
	name[40] = 0;
	for (uint32_t k = 0; leaf_units(actor, dir, "n", &of_n) < G4_LEAF_FILL; k++) {
		must(k < 1000 ? 0 : -G4_E_INVAL, "a full leaf");
		name[0] = (char)('0' + k / 100);
		name[1] = (char)('0' + k / 10 % 10);
		name[2] = (char)('0' + k % 10);
		(void)leaf_units(actor, dir, name, &leaf);
		actor->cred.uid = id + 1 + names + k;
		if (leaf == of_n)
			must(op_mknod(&actor->rig, dir, name, G4_S_IFREG | 0644, NULL), name);
	}
}

#ifdef G4_DIR_TINY
static uint64_t pages_of(struct actor *actor, uint64_t dir)
{
	struct g4_attr attr;

	must(op_getattr(&actor->rig, dir, &attr), "a directory");
	return attr.size / G4_PAGE_BYTES;
}

/* A directory whose only leaf is full of names of one hash, so that one more of them divides these. */
static void populate_equal(struct actor *actor, const char *path, uint32_t id)
{
	struct part part = {.verb = MKDIR, .id = id};
	uint64_t dir;
	char name[41];

	snprintf(part.path, sizeof(part.path), "%s", path);
	do_part(actor, part);
	must(part_resolve(actor, path, &dir), path);
	for (uint32_t k = 0; k < LEAF_NAMES; k++) {
		snprintf(name, sizeof(name), "=m%038u", k);
		actor->cred.uid = id + 1 + k;
		must(op_mknod(&actor->rig, dir, name, G4_S_IFREG | 0644, NULL), name);
	}
	must(pages_of(actor, dir) == 1 ? 0 : -G4_E_INVAL, "a leaf of one hash");
}

/* A directory whose only index page has room for one entry, and the leaf of "n" for nothing. */
static void populate_full_index(struct actor *actor, const char *path, uint32_t id)
{
	struct part part = {.verb = MKDIR, .id = id};
	uint64_t dir, leaf, of_n;
	char name[41];

	snprintf(part.path, sizeof(part.path), "%s", path);
	do_part(actor, part);
	must(part_resolve(actor, path, &dir), path);
	for (uint32_t k = 0; k < 1000; k++) {
		const bool full = pages_of(actor, dir) == G4_DIR_INDEX_FILL; /* with the index page itself */
		memset(name, 'x', sizeof(name));
		name[40] = 0;
		name[0] = (char)('0' + k / 100);
		name[1] = (char)('0' + k / 10 % 10);
		name[2] = (char)('0' + k % 10);
		if (full && leaf_units(actor, dir, "n", &of_n) == G4_LEAF_FILL)
			return;
		(void)leaf_units(actor, dir, name, &leaf);
		actor->cred.uid = id + 1 + k;
		if (!full || leaf == of_n)
			must(op_mknod(&actor->rig, dir, name, G4_S_IFREG | 0644, NULL), name);
	}
	must(-G4_E_INVAL, "a full index page");
}

/* A directory of two levels from which so many names went. */
static uint64_t populate_two_levels(struct actor *actor, const char *path, uint64_t removed)
{
	struct part part = {.verb = CREATE, .id = 2990};
	uint64_t dir;

	populate_full_index(actor, path, 2000); /* the same names lie the same way in each */
	snprintf(part.path, sizeof(part.path), "%s/n", path);
	do_part(actor, part);
	must(part_resolve(actor, path, &dir), path);
	must(pages_of(actor, dir) >= 3 + G4_DIR_INDEX_FILL ? 0 : -G4_E_INVAL, "two levels");
	part = (struct part){.verb = CLEAR, .bytes = removed};
	snprintf(part.path, sizeof(part.path), "%s", path);
	if (removed > 0)
		must(run_clear(actor, &part), path);
	return dir;
}

/* Of w7 the next name that CLEAR removes takes a leaf with it, of w8 a level. */
static void populate_before_unions(struct actor *actor)
{
	struct part part = {.verb = CLEAR, .path = "w6", .bytes = 1};
	const uint64_t dir = populate_two_levels(actor, "w6", 0);
	uint64_t removed = 0, before_leaf = UINT64_MAX, gone = 0;

	for (; gone < 2; removed++) {
		const uint64_t pages = pages_of(actor, dir);
		must(removed < 1000 ? run_clear(actor, &part) : -G4_E_INVAL, "a level that goes");
		gone = pages - pages_of(actor, dir);
		if (gone == 1 && before_leaf == UINT64_MAX)
			before_leaf = removed;
	}
	must(before_leaf != UINT64_MAX ? 0 : -G4_E_INVAL, "a leaf that goes");
	part.bytes = 1000;
	must(run_clear(actor, &part), "w6");
	populate_two_levels(actor, "w7", before_leaf);
	populate_two_levels(actor, "w8", removed - 1);
}

/* A directory of two levels with leaves without names, before and behind one with as many directories as several workgroups clear. */
static void populate_empty_leaves(struct actor *actor, const char *path)
{
	const uint64_t dir = populate_two_levels(actor, path, 0), pages = pages_of(actor, dir);
	char name[41];

	for (uint32_t k = 0; k < G4_CLEAR_SHARED_DIRS; k++) {
		snprintf(name, sizeof(name), "=m%02u", k);
		actor->cred.uid = 4200 + k;
		must(op_mkdir(&actor->rig, dir, name, 0755, NULL), name);
	}
	for (uint32_t k = 0; k < 1000; k++) {
		struct g4_cmd cmd = {
			.op = G4_CMD_UNLINK, .node = dir, .name = name, .name_bytes = 40, .cred = &actor->cred};
		memset(name, 'x', sizeof(name));
		name[0] = (char)('0' + k / 100);
		name[1] = (char)('0' + k / 10 % 10);
		name[2] = (char)('0' + k % 10);
		const int rc = g4_remove_keeping_pages(actor->rig.wg, actor->rig.fs, &cmd);
		must(rc == -G4_E_NOENT ? 0 : rc, "a name");
	}
	must(op_unlink(&actor->rig, dir, "n"), "n");
	must(pages_of(actor, dir) + 1 >= pages ? 0 : -G4_E_INVAL, "leaves without names");
}
#endif

static void populate_wide(struct actor *actor)
{
#ifdef G4_DIR_TINY
	populate_full_index(actor, "w5", 3000);
	populate_before_unions(actor);
	populate_equal(actor, "w9", 4000);
	populate_equal(actor, "wa", 4100);
	do_part(actor, (struct part){.verb = CREATE, .path = "wa/=my", .id = 4190}); /* alone in the second leaf */
	populate_empty_leaves(actor, "wb");
#endif
	populate_full_leaf(actor, "w4", 1000, LEAF_NAMES + 3);
	populate_sparse(actor, "w3", 500, LEAF_NAMES + 3);
	populate_directory(actor, "w1", 300, LEAF_NAMES);
	populate_directory(actor, "w2", 400, LEAF_NAMES + 3);
	do_part(actor, (struct part){.verb = CREATE, .path = "w2/y", .id = 480});
	make(actor, "w2/f", 40000, 481); /* a map of many pages, more than a transaction changes */
	for (uint64_t k = 1; k <= FAR_PARTS; k++)
		do_part(actor, (struct part){.verb = WRITE,
					     .path = "w2/f",
					     .offset = k < FAR_PARTS ? k * 4 * G4_MIB - 4000 : FAR,
					     .bytes = 5000,
					     .id = 4});
}

/* 2 MiB without their beginning, from the end on, each part with its sums made durable before the next one. */
static void populate_parts(struct actor *actor)
{
	make(actor, "l3", 0, 15);
	make(actor, "l4", 0, 14);
	for (uint64_t end = G4_REGION_BYTES, part; end > LAST_PART; end -= part) {
		part = g4_min64(end - LAST_PART, G4_MIB);
		do_part(actor,
			(struct part){.verb = WRITE, .path = "l3", .offset = end - part, .bytes = part, .id = 16});
		must(op_sync(&actor->rig), "sync");
	}
}

/* Parts that do not follow each other, and one so far behind that pages of level 2 lead to both. */
static void populate_maps(struct actor *actor)
{
	make(actor, "m1", 0, 17);
	make(actor, "m2", 0, 18);
	for (uint64_t k = 0; k <= 24; k++)
		do_part(actor, (struct part){.verb = WRITE,
					     .path = "m1",
					     .offset = k < 24 ? k * 4 * G4_PAGE_BYTES : FAR,
					     .bytes = 5000,
					     .id = 19});
}

void tree_populate(struct actor *actor, enum tree_kind kind)
{
	populate_small(actor);
	if (kind == FULL)
		use_up_space(actor, 40);
	if (kind == WIDE)
		populate_wide(actor);
	if (kind == LARGE) {
		make(actor, "l1", G4_REGION_BYTES, 13);
		make(actor, "l2", 0, 14);
	}
	if (kind == PARTS)
		populate_parts(actor);
	if (kind == HALVES)
		make(actor, "l4", 0, 14);
	if (kind == MAPS)
		populate_maps(actor);
}

/* One commit of the smallest kind. */
static void small_commit(struct actor *actor, uint64_t n)
{
	do_part(actor, (struct part){.verb = CHMOD, .path = "b", .bytes = n & 1 ? 0600 : 0644});
	must(op_sync(&actor->rig), "sync");
}

static bool is_due(const struct actor *actor)
{
	const struct g4_journal *j = &actor->rig.fs->journal;

	return j->used_pages + 12 >= j->log_pages / 2;
}

uint64_t tree_preamble(struct actor *actor, enum tree_kind kind, uint64_t commits)
{
	uint64_t made = 0;

	if (kind == FULL)
		do_part(actor, (struct part){.verb = SET, .path = "b", .path2 = "user.big", .bytes = 20000, .id = 5});
	/* an even number: the file has the same mode then */
	while (kind == DUE && (commits > 0 ? made < commits : !is_due(actor) || (made & 1) != 0))
		small_commit(actor, ++made);
	if (kind == HALVES &&
	    actor->rig.fs) /* the pointer to 2 MiB is made in a transaction of its own, g4_map_join()'s */
		actor->rig.fs->journal.max_blocks = G4_TXN_LEAST_BLOCKS;
	must(op_sync(&actor->rig), "sync");
	return made;
}

bool operation_is_of_disks(const struct operation *operation)
{
	return strncmp(operation->name, "disk-", 5) == 0;
}

bool operation_is_of_stripes(const struct operation *operation)
{
	return strncmp(operation->name, "stripes", 7) == 0;
}

bool operation_is_for(const struct operation *operation, enum tree_kind tree)
{
	static const struct {
		const char *begins;
		enum tree_kind tree;
	} own[] = {{"whole-", LARGE}, {"join", PARTS}, {"halves", HALVES}, {"maps", MAPS}};

	if (operation_is_of_disks(operation) || operation_is_of_stripes(operation)) /* sets.c says on which */
		return false;
	for (uint32_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
		if (strncmp(operation->name, own[k].begins, strlen(own[k].begins)) == 0)
			return tree == own[k].tree;
	return tree < LARGE;
}
