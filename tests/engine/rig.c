/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device lies in a memfd, which the engine opens by its name in /proc: closing the device does not forget it. With G4_TEST_NVME=1
 * an emulated NVMe controller stands before it. G4_TEST_DEVICE names another device, of at least that size, for tests that do not look
 * at rig->image.
 */
#include "rig.h"
#include "mirrored.h"
#include "twin.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "data/dedup.h"
#include "fs/fs.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "fsck/fsck.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

static struct g4_dev *open_device(struct rig *rig)
{
	struct g4_dev_open_options options = {0};
	struct g4_dev *dev;
	char message[256];

	if (rig->twin)
		return twin_lend(rig->twin);
	if (g4_set_open_one(rig->name, &options, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	return dev;
}

void rig_open(struct rig *rig, uint64_t bytes, uint64_t journal_bytes)
{
	rig_open_as(rig, RIG_AS_SET, RIG_AS_SET, bytes, journal_bytes);
}

void rig_open_as(struct rig *rig, uint32_t checksum, uint32_t dedup, uint64_t bytes, uint64_t journal_bytes)
{
	if (checksum == RIG_AS_SET)
		checksum = (uint32_t)rig_setting("G4_TEST_CHECKSUM", G4_CHECKSUM_BLAKE3);
	if (dedup == RIG_AS_SET)
		dedup = rig_setting("G4_TEST_DEDUP", 0) != 0;
	const struct g4_mkfs_options options = {
		.journal_bytes = journal_bytes, .checksum = g4_policy_of(checksum), .dedup = dedup != 0};
	struct g4_superblock sb;
	char message[256];

	/* a mount touches a hundred pages: to zero as many huge ones would be most of its time */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	memset(rig, 0, sizeof(*rig));
	rig->bytes = bytes;
	rig->cache_bytes = 4 * G4_MIB;
	rig->fd = memfd_create("gpu4fs-test", MFD_CLOEXEC);
	assert_true(rig->fd >= 0);
	assert_return_code(ftruncate(rig->fd, (off_t)bytes), 0);
	rig->image = (uint8_t *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rig->fd, 0);
	assert_true(rig->image != MAP_FAILED);
	const char *device = getenv("G4_TEST_DEVICE");
	if (device)
		snprintf(rig->name, sizeof(rig->name), "%s", device);
	else
		snprintf(rig->name, sizeof(rig->name), "%sdax:/proc/self/fd/%d",
			 rig_setting("G4_TEST_NVME", 0) ? "emu:" : "", rig->fd);
	struct g4_dev *dev = open_device(rig);
	if (g4_mkfs(dev, &options, &sb, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	g4_dev_close(dev);
}

void rig_close(struct rig *rig)
{
	if (rig->engine)
		rig_abandon(rig);
	munmap(rig->image, rig->bytes);
	close(rig->fd);
}

static const struct g4_cred as_root;

/* G4_TEST_ENGINE=cuda: the engine on a GPU. (Sets behind an agent have another meaning of "remote": disks.h.) */
static uint32_t engine_kind(void)
{
	const char *name = getenv("G4_TEST_ENGINE");

	return name && !strcmp(name, "cuda") ? G4_ENGINE_CUDA : G4_ENGINE_CPU;
}

int rig_try_mount(struct rig *rig, uint32_t flags, const struct g4_fault *fault)
{
	const struct g4_mount_options options = {.flags = flags,
						 .kind = engine_kind(),
						 .commit_ms = fault ? 1000000 : 20,
						 .cache_bytes = rig->cache_bytes,
						 .tier_bytes = rig->tier_bytes};
	struct g4_dev *dev = open_device(rig);
	char message[256] = "";

	rig->fault = NULL;
	if (fault) {
		assert_int_equal(g4_dev_fault_open(dev, &rig->fault), 0);
		dev = rig->fault;
		g4_dev_fault_set(dev, fault);
	}
	int rc = g4_engine_mount_device(dev, &options, &rig->engine, message, sizeof(message));
	if (rc < 0) {
		rig->engine = NULL;
		rig->fault = NULL;
		if (!fault)
			print_message("mount: %s\n", message);
	} else if (rig_setting("G4_TEST_MIRROR", 0)) {
		mirrored_begin(rig);
	}
	return rc;
}

void rig_mount(struct rig *rig)
{
	assert_int_equal(rig_try_mount(rig, 0, NULL), 0);
}

int rig_unmount(struct rig *rig)
{
	mirrored_end(rig);
	int rc = g4_engine_unmount(rig->engine);

	rig->engine = NULL;
	rig->fault = NULL;
	return rc;
}

void rig_abandon(struct rig *rig)
{
	mirrored_end(rig);
	g4_engine_abandon(rig->engine);
	rig->engine = NULL;
	rig->fault = NULL;
}

int rig_try_mount_fs(struct rig *rig, struct g4_wg *wg, const struct g4_fault *fault, struct g4_fs **fs)
{
	const struct g4_fs_options options = {.cache_bytes = rig->cache_bytes,
					      .tier_bytes = rig->tier_bytes,
					      .tier_frames = rig->tier_frames,
					      .may_grow = rig->may_grow};
	struct g4_dev *dev = open_device(rig);
	char message[256] = "";

	rig->fault = NULL;
	if (fault) {
		assert_int_equal(g4_dev_fault_open(dev, &rig->fault), 0);
		dev = rig->fault;
		g4_dev_fault_set(dev, fault);
	}
	int rc = g4_fs_mount(wg, dev, &options, fs, message, sizeof(message));
	if (rc < 0) {
		print_message("mount: %s\n", message);
		g4_dev_close(dev);
		rig->fault = NULL;
		return rc;
	}
	rig->dev = dev;
	return 0;
}

struct g4_fs *rig_mount_fs(struct rig *rig, struct g4_wg *wg, const struct g4_fault *fault)
{
	struct g4_fs *fs;

	assert_int_equal(rig_try_mount_fs(rig, wg, fault, &fs), 0);
	/* what earlier mounts have written is found, as soon after a mount as can be */
	while (rig_setting("G4_TEST_DEDUP", 0) && g4_dedup_serve(wg, fs))
		;
	return fs;
}

void rig_unmount_fs(struct rig *rig, struct g4_wg *wg, struct g4_fs *fs, bool clean)
{
	int rc = 0;

	if (!clean && rig->fault)
		rc = g4_dev_fault_cut(rig->fault);
	assert_int_equal(rc, 0);
	rc = g4_fs_unmount(wg, fs, clean);
	assert_int_equal(rc, 0);
	g4_dev_close(rig->dev);
	rig->dev = rig->fault = NULL;
}

/* ------------------------------------------------------------------ beginning and end */

void rig_begin(struct rig *rig, uint64_t bytes, uint64_t cache_bytes, const struct g4_fault *fault)
{
	rig_begin_as(rig, RIG_AS_SET, RIG_AS_SET, bytes, cache_bytes, fault);
}

void rig_begin_as(struct rig *rig, uint32_t checksum, uint32_t dedup, uint64_t bytes, uint64_t cache_bytes,
		  const struct g4_fault *fault)
{
	rig_open_as(rig, checksum, dedup, bytes, 0);
	if (cache_bytes)
		rig->cache_bytes = cache_bytes;
	rig->wg = g4_wg_create(0);
	assert_non_null(rig->wg);
	rig->fs = rig_mount_fs(rig, rig->wg, fault);
}

void rig_end(struct rig *rig)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(rig), 0);
	assert_int_equal(op_statfs(rig, &statfs), 0);
	assert_int_equal(rig->fs->dirty_pages, 0);
	assert_int_equal(rig->fs->alloc.reserved, 0);
	assert_int_equal(rig->fs->journal.aborted, 0);
	rig_unmount_fs(rig, rig->wg, rig->fs, true);
	rig->fs = NULL;
	rig_expect_clean(rig, statfs.blocks_free, "at the end");
	rig_close(rig);
	g4_wg_destroy(rig->wg);
	rig->wg = NULL;
}

uint32_t rig_locked_leaves(struct rig *rig)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < G4_LEAF_LOCKS; k++) {
		struct g4_leaf_lock *leaf_lock = &rig->fs->dir_locks.leaves[k];
		if (g4_write_trylock(&leaf_lock->lock))
			g4_write_unlock(&leaf_lock->lock);
		else
			count++;
	}
	return count;
}

uint32_t rig_hold(struct rig *rig, const char *name, uint64_t *ino)
{
	uint32_t index;

	assert_int_equal(op_mknod(rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, ino), 0);
	assert_int_equal(g4_icache_get(rig->wg, rig->fs, *ino, &index), 0);
	return index;
}

void rig_begin_engine(struct rig *rig, uint64_t bytes)
{
	rig_open(rig, bytes, 0);
	rig_mount(rig);
}

void rig_end_engine(struct rig *rig)
{
	if (rig->engine)
		assert_int_equal(rig_unmount(rig), 0);
	rig_expect_clean(rig, RIG_ANY_FREE, "at the end");
	rig_close(rig);
}

uint64_t rig_make(struct rig *rig, uint32_t number)
{
	char name[32];
	uint64_t ino = 0;

	snprintf(name, sizeof(name), "f%u", number);
	assert_int_equal(op_mknod(rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

uint8_t *rig_memory(uint64_t bytes, uint64_t seed)
{
	uint8_t *memory = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, bytes);

	assert_non_null(memory);
	rig_pattern(memory, seed, bytes);
	return memory;
}

/* ------------------------------------------------------------------ the checker */

struct rig_verdict rig_fsck(struct rig *rig, char **text)
{
	static struct g4_fsck fsck; /* too large for a stack */
	struct g4_journal_state journal;
	struct rig_verdict verdict = {0};
	struct g4_image image;
	char message[256];
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(text, &bytes);
	fsck.printed_limit = 20;
	if (g4_image_open(&image, rig->name, message, sizeof(message)) < 0)
		fail_msg("the checker: %s", message);
	int rc = g4_image_load_overlay(&image, &journal);
	if (rc == 0)
		rc = g4_fsck_run(&fsck, &image, &journal);
	verdict.problems = fsck.problems + (rc < 0);
	verdict.orphans = fsck.orphan_count;
	verdict.free_pages = image.layout.group_count * G4_GROUP_PAGES - fsck.pages_met;
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return verdict;
}

const struct g4_job_record *rig_last_job(struct rig *rig, struct g4_health *health)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_LIST, .data = health, .length = sizeof(*health)};
	const struct g4_job_record *last = &health->jobs[0];

	assert_int_equal(rig->engine ? g4_engine_execute(rig->engine, &cmd) : g4_execute(rig->wg, rig->fs, &cmd), 0);
	for (uint32_t i = 1; i < G4_JOBS; i++)
		if (health->jobs[i].number > last->number)
			last = &health->jobs[i];
	return last;
}

struct rig_data rig_fsck_data(struct rig *rig, uint32_t threads, char **text)
{
	return rig_fsck_data_beside(rig, threads, NULL, text);
}

struct rig_data rig_fsck_data_beside(struct rig *rig, uint32_t threads, struct g4_page_hasher *hasher, char **text)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(text, &bytes);
	fsck.printed_limit = UINT64_MAX;
	fsck.threads = threads;
	fsck.hasher = hasher;
	if (g4_image_open(&image, rig->name, message, sizeof(message)) < 0)
		fail_msg("the checker: %s", message);
	assert_int_equal(g4_image_load_overlay(&image, &journal), 0);
	assert_int_equal(g4_fsck_run(&fsck, &image, &journal), 0);
	assert_int_equal(g4_fsck_data(&fsck), 0);
	const struct rig_data data = {fsck.problems,	 fsck.data_compared,   fsck.damaged_pages,
				      fsck.data_without, fsck.data_unverified, fsck.data_beside};
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return data;
}

int rig_repair(struct rig *rig, struct rig_repair *how)
{
	static struct g4_fsck fsck;
	const struct g4_fsck_repair_options options = {.dry_run = how->dry_run};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	how->text = NULL;
	fsck.out = open_memstream(&how->text, &bytes);
	fsck.printed_limit = 20;
	fsck.find_superblock = how->find_superblock;
	fsck.stop_at_write = how->stop_at_write;
	int status =
		g4_fsck_repair_device(&fsck, &image, rig->name, &options, &journal, how->words, sizeof(how->words));
	if (status == 0 && how->data)
		status = g4_fsck_data(&fsck);
	if (status == 0 && how->data)
		status = g4_fsck_unlist_damaged(&fsck, &journal);
	how->found = fsck.found;
	memcpy(how->outcome, fsck.by_outcome, sizeof(how->outcome));
	fclose(fsck.out);
	if (status == 0 && fsck.problems != 0)
		fail_msg("the repair did not come to an end:\n%s", how->text);
	g4_fsck_free(&fsck);
	if (image.dev != NULL)
		g4_image_close(&image);
	return status;
}

void rig_expect_clean(struct rig *rig, uint64_t free_pages, const char *when)
{
	char *text = NULL;
	struct rig_verdict verdict = rig_fsck(rig, &text);

	if (verdict.problems > 0 || verdict.orphans > 0)
		fail_msg("%s: %lu problems, %lu orphans\n%s", when, (unsigned long)verdict.problems,
			 (unsigned long)verdict.orphans, text);
	free(text);
	/* an unmount frees the slabs that workgroups kept for inodes and that are empty */
	if (free_pages != RIG_ANY_FREE &&
	    (verdict.free_pages < free_pages || verdict.free_pages > free_pages + RIG_MOST_SLABS))
		fail_msg("%s: %lu pages free, statfs said %lu", when, (unsigned long)verdict.free_pages,
			 (unsigned long)free_pages);
}

/* ------------------------------------------------------------------ commands */

static int run_alone(struct rig *rig, struct g4_cmd *cmd)
{
	/* over a ring commands without credentials have a mask */
	cmd->cred = rig->cred ? rig->cred : rig->engine && engine_kind() == G4_ENGINE_CUDA ? &as_root : NULL;
	if (!rig->engine)
		return g4_execute(rig->wg, rig->fs, cmd);
	return g4_engine_execute(rig->engine, cmd);
}

/* Whether a batch has it, with the same meaning: a name in a directory, and for a rename the same one. */
static bool is_for_batch(const struct g4_cmd *cmd)
{
	switch (cmd->op) {
	case G4_CMD_MKNOD:
		return cmd->rdev == 0 && !strchr(cmd->name, '/');
	case G4_CMD_LOOKUP:
	case G4_CMD_MKDIR:
	case G4_CMD_UNLINK:
	case G4_CMD_RMDIR:
		return !strchr(cmd->name, '/');
	case G4_CMD_RENAME:
		return cmd->node == cmd->node2 && !strchr(cmd->name, '/') && !strchr(cmd->name2, '/');
	default:
		return false;
	}
}

/* As an entry of a batch; another one beside it fails, which shall make no difference. */
static int run_in_batch(struct rig *rig, struct g4_cmd *cmd)
{
	static const char bad[] = "no such/name";
	uint64_t data[256] = {0};
	struct g4_batch_entry *entries = (struct g4_batch_entry *)(void *)data;
	const uint64_t head = g4_batch_head_bytes(2, G4_BATCH_ATTR);
	const bool flags = cmd->op == G4_CMD_LOOKUP || cmd->op == G4_CMD_RENAME;
	struct g4_cmd batch = {.op = G4_CMD_BATCH,
			       .node = cmd->node,
			       .generation = cmd->generation,
			       .data = data,
			       .length = head + cmd->name_bytes + cmd->name2_bytes + sizeof(bad),
			       .mask = 2,
			       .flags = G4_BATCH_ATTR};
	char *text = (char *)data + head;

	assert_true(batch.length <= sizeof(data));
	memcpy(text, cmd->name, cmd->name_bytes);
	if (cmd->name2_bytes)
		memcpy(text + cmd->name_bytes, cmd->name2, cmd->name2_bytes);
	memcpy(text + cmd->name_bytes + cmd->name2_bytes, bad, sizeof(bad));
	entries[1] = (struct g4_batch_entry){.op = cmd->op,
					     .mode = !flags		      ? cmd->mode :
						     cmd->op == G4_CMD_LOOKUP ? G4_RESOLVE_NOFOLLOW :
										cmd->flags,
					     .path_at = (uint32_t)head,
					     .path_bytes = cmd->name_bytes,
					     .path2_bytes = cmd->name2_bytes};
	entries[0] = (struct g4_batch_entry){
		.op = G4_CMD_UNLINK, .path_at = (uint32_t)(batch.length - sizeof(bad)), .path_bytes = sizeof(bad) - 1};
	const int rc = run_alone(rig, &batch);
	if (rc < 0)
		return rc;
	assert_true(entries[0].status < 0);
	if (entries[1].status == -G4_E_NOTSUP) /* mounts that hold removed inodes want removals one by one */
		return run_alone(rig, cmd);
	if (cmd->attr && entries[1].status == 0)
		*cmd->attr = ((struct g4_attr *)(void *)(entries + 2))[1];
	return cmd->status = entries[1].status;
}

/* With G4_TEST_BATCH what a batch can do is done by batches. */
static int run(struct rig *rig, struct g4_cmd *cmd)
{
	return rig_setting("G4_TEST_BATCH", 0) && is_for_batch(cmd) ? run_in_batch(rig, cmd) : run_alone(rig, cmd);
}

static void set_name(struct g4_cmd *cmd, const char *name)
{
	cmd->name = name;
	cmd->name_bytes = (uint16_t)strlen(name);
}

static void set_name2(struct g4_cmd *cmd, const char *name)
{
	cmd->name2 = name;
	cmd->name2_bytes = (uint16_t)strlen(name);
}

static int run_for_ino(struct rig *rig, struct g4_cmd *cmd, uint64_t *ino)
{
	struct g4_attr attr;

	cmd->attr = &attr;
	int rc = run(rig, cmd);
	if (rc == 0 && ino)
		*ino = attr.ino;
	return rc;
}

static int run_for_value(struct rig *rig, struct g4_cmd *cmd, uint64_t *value)
{
	int rc = run(rig, cmd);

	if (value)
		*value = rc == 0 ? cmd->value : 0;
	return rc;
}

/* Whether the mirror answers, where the rig has one. */
static bool is_kept(const struct rig *rig, const struct g4_cmd *cmd)
{
	return rig->mirror && rig->engine && !rig->cred && cmd->attr;
}

int op_lookup(struct rig *rig, uint64_t dir, const char *name, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.op = G4_CMD_LOOKUP, .node = dir, .attr = attr};
	set_name(&cmd, name);
	return is_kept(rig, &cmd) ? mirrored_ask(rig, &cmd, NULL) : run(rig, &cmd);
}

int op_getattr(struct rig *rig, uint64_t node, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = node, .attr = attr};
	return is_kept(rig, &cmd) ? mirrored_ask(rig, &cmd, NULL) : run(rig, &cmd);
}

int op_setattr(struct rig *rig, uint64_t node, uint32_t mask, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .node = node, .attr = attr, .mask = mask};
	return run(rig, &cmd);
}

int op_mknod(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t *ino)
{
	struct g4_cmd cmd = {.op = G4_CMD_MKNOD, .node = dir, .mode = mode};
	set_name(&cmd, name);
	return run_for_ino(rig, &cmd, ino);
}

int op_mknod_device(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t rdev)
{
	struct g4_cmd cmd = {.op = G4_CMD_MKNOD, .node = dir, .mode = mode, .rdev = rdev};
	set_name(&cmd, name);
	return run(rig, &cmd);
}

int op_copy_as(struct rig *rig, uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes,
	       uint32_t flags, uint64_t *done)
{
	struct g4_cmd cmd = {.op = G4_CMD_COPY_RANGE,
			     .handle = from,
			     .handle2 = to,
			     .offset = from_offset,
			     .offset2 = to_offset,
			     .length = bytes,
			     .flags = flags};
	int rc = run(rig, &cmd);
	*done = rc == 0 ? cmd.value : 0;
	return rc;
}

int op_copy(struct rig *rig, uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes,
	    uint64_t *done)
{
	return op_copy_as(rig, from, from_offset, to, to_offset, bytes, 0, done);
}

int op_mkdir(struct rig *rig, uint64_t dir, const char *name, uint32_t mode, uint64_t *ino)
{
	struct g4_cmd cmd = {.op = G4_CMD_MKDIR, .node = dir, .mode = mode};
	set_name(&cmd, name);
	return run_for_ino(rig, &cmd, ino);
}

int op_mkdir_all(struct rig *rig, uint64_t dir, const char *path, uint32_t mode, uint32_t *made, uint64_t *ino)
{
	uint64_t data[1024] = {0};
	struct g4_batch_entry *entry = (struct g4_batch_entry *)(void *)data;
	const uint64_t head = g4_batch_head_bytes(1, G4_BATCH_ATTR);
	struct g4_cmd cmd = {.op = G4_CMD_BATCH,
			     .node = dir,
			     .data = data,
			     .length = head + strlen(path),
			     .mask = 1,
			     .flags = G4_BATCH_ATTR};

	assert_true(cmd.length < sizeof(data));
	strcpy((char *)data + head, path);
	*entry = (struct g4_batch_entry){.op = G4_BATCH_MKDIR_ALL,
					 .mode = mode,
					 .path_at = (uint32_t)head,
					 .path_bytes = (uint32_t)strlen(path)};
	const int rc = run_alone(rig, &cmd);
	if (rc < 0)
		return rc;
	*made = entry->made;
	*ino = ((const struct g4_attr *)(const void *)(entry + 1))->ino;
	return entry->status;
}

int op_clear(struct rig *rig, uint64_t dir, uint64_t most, uint64_t from, uint64_t *removed)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = dir, .cookie = from, .length = most};
	const int rc = run_alone(rig, &cmd);

	*removed = cmd.value;
	return rc;
}

int op_symlink(struct rig *rig, uint64_t dir, const char *name, const char *target, uint64_t *ino)
{
	struct g4_cmd cmd = {.op = G4_CMD_SYMLINK, .node = dir};
	set_name(&cmd, name);
	set_name2(&cmd, target);
	return run_for_ino(rig, &cmd, ino);
}

int op_link(struct rig *rig, uint64_t node, uint64_t dir, const char *name)
{
	struct g4_cmd cmd = {.op = G4_CMD_LINK, .node = node, .node2 = dir};
	set_name2(&cmd, name);
	return run(rig, &cmd);
}

int op_unlink(struct rig *rig, uint64_t dir, const char *name)
{
	struct g4_cmd cmd = {.op = G4_CMD_UNLINK, .node = dir};
	set_name(&cmd, name);
	return run(rig, &cmd);
}

int op_rmdir(struct rig *rig, uint64_t dir, const char *name)
{
	struct g4_cmd cmd = {.op = G4_CMD_RMDIR, .node = dir};
	set_name(&cmd, name);
	return run(rig, &cmd);
}

int op_rename(struct rig *rig, uint64_t dir, const char *name, uint64_t dir2, const char *name2, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_RENAME, .node = dir, .node2 = dir2, .flags = flags};
	set_name(&cmd, name);
	set_name2(&cmd, name2);
	return run(rig, &cmd);
}

int op_open(struct rig *rig, uint64_t node, uint32_t flags, uint64_t *handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_OPEN, .node = node, .flags = flags};
	int rc = run(rig, &cmd);
	*handle = rc == 0 ? cmd.handle : 0;
	return rc;
}

int op_tmpfile(struct rig *rig, uint64_t dir, uint64_t *ino, uint64_t *handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_TMPFILE, .node = dir, .mode = 0600, .flags = G4_OPEN_READ | G4_OPEN_WRITE};
	int rc = run_for_ino(rig, &cmd, ino);
	*handle = rc == 0 ? cmd.handle : 0;
	return rc;
}

int op_release(struct rig *rig, uint64_t handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = handle};
	return run(rig, &cmd);
}

int op_read(struct rig *rig, uint64_t node, uint64_t handle, uint64_t offset, void *to, uint64_t bytes, uint64_t *done)
{
	struct g4_cmd cmd = {.op = G4_CMD_READ, .handle = handle, .offset = offset, .data = to, .length = bytes};
	cmd.node = handle ? 0 : node;
	return run_for_value(rig, &cmd, done);
}

int op_write(struct rig *rig, uint64_t node, uint64_t handle, uint64_t offset, const void *from, uint64_t bytes,
	     uint64_t *done)
{
	struct g4_cmd cmd = {.op = G4_CMD_WRITE, .handle = handle, .offset = offset, .length = bytes};
	cmd.data = (void *)(uintptr_t)from;
	cmd.node = handle ? 0 : node;
	return run_for_value(rig, &cmd, done);
}

int op_truncate(struct rig *rig, uint64_t node, uint64_t bytes)
{
	struct g4_attr attr = {.size = bytes};
	return op_setattr(rig, node, G4_SET_SIZE, &attr);
}

int op_fallocate(struct rig *rig, uint64_t node, uint32_t mode, uint64_t offset, uint64_t bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_FALLOCATE, .node = node, .flags = mode, .offset = offset, .length = bytes};
	return run(rig, &cmd);
}

int op_seek(struct rig *rig, uint64_t node, uint64_t offset, uint32_t whence, uint64_t *found)
{
	struct g4_cmd cmd = {.op = G4_CMD_SEEK, .node = node, .flags = whence, .offset = offset};
	return run_for_value(rig, &cmd, found);
}

int op_fsync(struct rig *rig, uint64_t node)
{
	struct g4_cmd cmd = {.op = G4_CMD_FSYNC, .node = node};
	return run(rig, &cmd);
}

int op_fdatasync(struct rig *rig, uint64_t node)
{
	struct g4_cmd cmd = {.op = G4_CMD_FSYNC, .node = node, .flags = G4_FSYNC_DATA};
	return run(rig, &cmd);
}

int op_sync(struct rig *rig)
{
	struct g4_cmd cmd = {.op = G4_CMD_SYNCFS};
	return run(rig, &cmd);
}

int op_setxattr(struct rig *rig, uint64_t node, const char *name, const void *value, uint64_t bytes, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_SETXATTR, .node = node, .length = bytes, .flags = flags};
	cmd.data = (void *)(uintptr_t)value;
	set_name(&cmd, name);
	return run(rig, &cmd);
}

int op_getxattr(struct rig *rig, uint64_t node, const char *name, void *to, uint64_t room, uint64_t *bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_GETXATTR, .node = node, .data = to, .length = room};
	set_name(&cmd, name);
	return run_for_value(rig, &cmd, bytes);
}

int op_listxattr(struct rig *rig, uint64_t node, void *to, uint64_t room, uint64_t *bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_LISTXATTR, .node = node, .data = to, .length = room};
	return run_for_value(rig, &cmd, bytes);
}

int op_removexattr(struct rig *rig, uint64_t node, const char *name)
{
	struct g4_cmd cmd = {.op = G4_CMD_REMOVEXATTR, .node = node};
	set_name(&cmd, name);
	return run(rig, &cmd);
}

int op_readlink(struct rig *rig, uint64_t node, char *to, uint64_t room, uint64_t *bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_READLINK, .node = node, .data = to, .length = room};
	return run_for_value(rig, &cmd, bytes);
}

int op_readdir(struct rig *rig, uint64_t dir, uint64_t cookie, void *to, uint64_t room, uint64_t *bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_READDIR, .node = dir, .cookie = cookie, .data = to, .length = room};
	return run_for_value(rig, &cmd, bytes);
}

int op_statfs(struct rig *rig, struct g4_statfs *out)
{
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .data = out, .length = sizeof(*out)};
	return run(rig, &cmd);
}

int op_trim(struct rig *rig, uint64_t start, uint64_t bytes, uint64_t least, uint64_t *done)
{
	struct g4_cmd cmd = {.op = G4_CMD_TRIM, .offset = start, .length = bytes, .least = least};
	return run_for_value(rig, &cmd, done);
}

int op_job_start(struct rig *rig, uint64_t kind, uint32_t flags, uint64_t rate)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_START, .flags = flags};

	cmd.kind = kind;
	cmd.rate = rate;
	return run(rig, &cmd);
}

int op_job_set(struct rig *rig, uint64_t number, uint32_t mask, uint64_t rate)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_SET, .mask = mask};

	cmd.number = number;
	cmd.rate = rate;
	return run(rig, &cmd);
}

int op_map(struct rig *rig, uint64_t node, uint64_t offset, struct g4_map_extent *to, uint32_t room, uint32_t *count)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_MAP, .node = node, .offset = offset, .data = to, .length = room * sizeof(*to)};
	uint64_t bytes = 0;
	int rc = run_for_value(rig, &cmd, &bytes);

	*count = (uint32_t)(bytes / sizeof(*to));
	return rc;
}

/* ------------------------------------------------------------------ choices */

uint64_t rig_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void rig_pattern(void *to, uint64_t seed, uint64_t bytes)
{
	uint8_t *at = (uint8_t *)to;

	for (uint64_t n; bytes > 0; bytes -= n, at += n) {
		uint64_t word = rig_random(&seed) | UINT64_C(0x0101010101010101); /* no byte that a hole could be */
		n = g4_min64(bytes, sizeof(word));
		memcpy(at, &word, n);
	}
}

uint64_t rig_setting(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

bool rig_slow(void)
{
	return rig_every(2) > 1;
}

void rig_run_at(struct rig *rig, uint64_t ino, uint64_t page, struct g4_run *run)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(rig->wg, rig->fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig->fs, index);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_lookup(rig->wg, rig->fs, inode, page, 1, run), 0);
	g4_read_unlock(&inode->lock);
	g4_icache_put(rig->fs, index);
}

uint64_t rig_place(struct rig *rig, uint64_t ino, uint64_t page)
{
	struct g4_run run;

	rig_run_at(rig, ino, page, &run);
	assert_int_equal(run.kind, G4_WRITTEN);
	return g4_address_stored(run.address);
}

void rig_squeeze(struct rig *rig)
{
	struct g4_cache *cache = &rig->fs->cache;
	/* as many again, for pages that were accessed are spared once */
	const uint64_t owner = UINT64_C(1) << 60, count = 2 * (uint64_t)cache->set_count * G4_CACHE_WAYS;

	for (uint64_t index = 0; index < count; index++) {
		bool fresh;
		const uint32_t line = g4_cache_get(rig->wg, cache, owner, index, false, &fresh);
		if (line == G4_NO_LINE)
			continue; /* all that it could have are in use */
		g4_cache_filled(cache, line);
		g4_cache_put_cold(cache, line);
	}
	g4_cache_drop_range(cache, owner, 0, count);
}

uint64_t rig_make_file(struct rig *rig, const char *name, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
	uint64_t ino = 0, done = 0;

	assert_int_equal(op_mknod(rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	for (uint64_t at = 0; at < bytes; at += done)
		assert_int_equal(op_write(rig, ino, 0, offset + at, data + at, bytes - at, &done), 0);
	return ino;
}

uint64_t rig_free_pages(struct rig *rig)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(rig), 0);
	assert_int_equal(op_statfs(rig, &statfs), 0);
	return statfs.blocks_free;
}

void rig_expect_contents(struct rig *rig, uint64_t ino, uint64_t offset, uint8_t *found, const uint8_t *contents,
			 uint64_t bytes)
{
	uint64_t done = 0;

	memset(found, 0xee, bytes);
	for (uint64_t at = 0; at < bytes; at += done) {
		assert_int_equal(op_read(rig, ino, 0, offset + at, found + at, bytes - at, &done), 0);
		assert_true(done > 0);
	}
	assert_memory_equal(found, contents, bytes);
}

#if defined(G4_TSAN)
/* A loop that stays one: memcpy() is watched whatever calls it. */
__attribute__((noinline, no_sanitize("thread"), no_builtin("memcpy"))) void rig_copy(void *to, const void *from,
										     uint64_t bytes)
{
	uint64_t *out = to;
	const uint64_t *in = from;

	for (uint64_t i = 0; i < bytes / 8; i++)
		out[i] = in[i];
}
#else
void rig_copy(void *to, const void *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}
#endif

bool rig_lanes_are_watched(void)
{
#if defined(G4_TSAN) && defined(G4_LANES)
	return true;
#else
	return false;
#endif
}

bool rig_one_thread_is_watched(void)
{
#if defined(G4_TSAN) && !defined(G4_LANES)
	return rig_setting("G4_TEST_LONG", 0) == 0;
#else
	return false;
#endif
}

uint64_t rig_every(uint64_t slow)
{
	/* CMake says it: gcc's sanitizer headers define a __has_feature() that always says no. */
#if defined(G4_TSAN)
	const bool races = true, memory = false;
#elif defined(G4_ASAN)
	const bool races = false, memory = true;
#else
	const bool races = false, memory = false;
#endif
#if defined(G4_LANES)
	const bool lanes = true;
#else
	const bool lanes = false;
#endif
	return races ? 4 * slow : memory || lanes ? slow : 1;
}
