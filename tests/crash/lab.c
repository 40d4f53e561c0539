/* SPDX-License-Identifier: Apache-2.0 */
/* The device and the prepared trees. */
#include "lab.h"

#include "engine/twin.h"
#include "fs/fs.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

struct g4_fs_options lab_fs_options(void)
{
	const uint64_t least = 4 * G4_MIB; /* that an engine takes */

	return (struct g4_fs_options){
		.cache_bytes = least, .tier_bytes = rig_setting("G4_TEST_TIER", 0) ? least : 0, .flags = G4_FS_NOATIME};
}

struct g4_fs_options lab_mount_options(const struct lab *lab)
{
	struct g4_fs_options options = lab_fs_options();

	options.may_grow = set_kinds[lab->kind].idle > 0;
	return options;
}

const char *const class_names[DEVICE_CLASSES] = {"disk512", "disk4k", "dax", "mem"};

uint32_t class_unit_bytes(enum device_class class_)
{
	static const uint32_t units[DEVICE_CLASSES] = {512, 4096, 8, 8};

	return units[class_];
}

/* ------------------------------------------------------------------ trees */

void lab_forget(struct lab *lab)
{
	for (uint32_t k = 0; k < lab->outcome_count; k++) {
		tree_free(&lab->outcome[k].tree);
		free(lab->outcome[k].text);
	}
	lab->outcome_count = 0;
	table_clear(&lab->states);
	table_clear(&lab->outcomes);
	for (uint32_t k = 0; k < 1u << MEMORY_DISKS; k++)
		if (lab->recalls[k])
			recall_forget(lab->recalls[k]);
}

void lab_present(struct lab *lab, uint32_t disks)
{
	struct recall **recall = &lab->recalls[disks];

	lab->memory.present = disks;
	if (!*recall) {
		*recall = (struct recall *)malloc(sizeof(**recall));
		if (!*recall)
			abort();
		recall_open(*recall, &lab->sketch);
	}
	lab->recall = *recall;
}

static void leave_out_of_device(struct lab *lab)
{
	struct g4_superblock sb;
	struct g4_layout layout;
	bool backup;

	if (g4_superblock_read(lab->wg[0], lab->fault, &sb, &backup) < 0)
		abort();
	g4_layout_of(&sb, &layout);
	memory_leave_out(&lab->memory, 0, layout.groups_address);
	memory_leave_out(&lab->memory, layout.backup_address, DEVICE_BYTES - layout.backup_address);
}

/* The memory that holds the tree, and what is known of it. */
static void open_memory(struct lab *lab)
{
	if (lab->kind == 0)
		memory_open(&lab->memory, lab->rig.image, DEVICE_BYTES, 1);
	else
		memory_open(&lab->memory, lab->set.span, lab->set.disk_bytes, set_disks(&set_kinds[lab->kind]));
	sketch_open(&lab->sketch, &lab->memory);
	lab_present(lab, lab_all_disks(lab));
	if (lab->kind == 0)
		leave_out_of_device(lab);
	else
		set_leave_out(lab);
}

static void close_memory(struct lab *lab)
{
	if (lab->tree == TREE_KINDS)
		return;
	for (uint32_t k = 0; k < 1u << MEMORY_DISKS; k++) {
		if (lab->recalls[k])
			recall_close(lab->recalls[k]);
		free(lab->recalls[k]);
		lab->recalls[k] = NULL;
	}
	lab->recall = NULL;
	sketch_close(&lab->sketch);
	memory_close(&lab->memory);
}

/* How far the log of an unmounted image has got: the page that its next record begins at. */
static uint64_t next_log_page(struct rig *rig, struct g4_wg *wg)
{
	struct g4_fs *fs = rig_mount_fs(rig, wg, NULL);
	uint64_t page = fs->journal.head_page;

	rig_unmount_fs(rig, wg, fs, true);
	return page;
}

static void fill_tree(struct rig *rig, struct g4_wg *wg, enum tree_kind kind)
{
	struct g4_fs *fs = rig_mount_fs(rig, wg, NULL);
	struct actor actor = {0};

	actor_start(&actor, fs, wg);
	tree_populate(&actor, kind);
	rig_unmount_fs(rig, wg, fs, true);
}

/* Commits until the log's head is `before` pages or less before the end of the ring. */
static void advance_log(struct rig *rig, struct g4_wg *wg, uint64_t before)
{
	struct g4_fs *fs = rig_mount_fs(rig, wg, NULL);
	struct actor actor = {0};
	struct part part = {.verb = CHMOD, .path = "b", .bytes = 0644};

	actor_start(&actor, fs, wg);
	while (fs->journal.head_page + before < fs->journal.log_pages)
		if (part_run(&actor, &part) < 0 || op_sync(&actor.rig) < 0)
			abort();
	rig_unmount_fs(rig, wg, fs, true);
}

static void make_tree(struct lab *lab, enum tree_kind kind)
{
	struct rig rig;

	clock_restart();
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	fill_tree(&rig, lab->wg[0], kind);
	if (kind == WRAP) {
		/* the last steps one by one: what an unmount writes comes behind the last commit */
		for (uint64_t before = 24; next_log_page(&rig, lab->wg[0]) + 5 < JOURNAL_BYTES / G4_PAGE_BYTES - 1;
		     before--)
			advance_log(&rig, lab->wg[0], before);
	}
	lab->trees[kind] = (uint8_t *)malloc(DEVICE_BYTES);
	if (!lab->trees[kind])
		abort();
	memcpy(lab->trees[kind], rig.image, DEVICE_BYTES);
	rig_close(&rig);
}

static void watch(void *context, const struct g4_io *io)
{
	struct lab *lab = (struct lab *)context;
	const bool write = io->op == G4_IO_WRITE;
	uint64_t bytes = 0;

	if (!write && io->op != G4_IO_READ)
		return;
	for (uint32_t k = 0; k < io->iov_count; k++)
		bytes += io->iov[k].bytes;
	if (lab->recall)
		recall_request(lab->recall, write, io->offset_bytes, bytes);
	if (write)
		memory_save(&lab->memory, io->offset_bytes, bytes);
}

void lab_open(struct lab *lab, struct counts *counts, enum engine engine, const char *drive)
{
	struct g4_dev_open_options options = {0};
	struct g4_dev *inner;
	char message[256];

	memset(lab, 0, sizeof(*lab));
	lab->counts = counts;
	lab->engine = engine;
	lab->only_state = lab->only_inner = UINT64_MAX;
	lab->tree = TREE_KINDS;
	pthread_mutex_init(&lab->set.lock, NULL);
	for (uint32_t k = 0; k < MAX_PARTIES; k++)
		lab->wg[k] = g4_wg_create(k);
	clock_restart();
	rig_open(&lab->rig, DEVICE_BYTES, JOURNAL_BYTES);
	if (drive)
		inner = lab->twin = twin_open(drive, lab->rig.image, DEVICE_BYTES);
	else if (g4_dev_open(lab->rig.name, &options, &inner, message, sizeof(message)) < 0)
		abort();
	if (g4_dev_fault_open(inner, &lab->fault) < 0)
		abort();
	g4_dev_fault_watch(lab->fault, watch, lab);
	lab->driver = engine_driver(lab);
}

void lab_close(struct lab *lab)
{
	lab_forget(lab);
	free(lab->outcome);
	close_memory(lab);
	set_free(lab);
	pthread_mutex_destroy(&lab->set.lock);
	for (uint32_t k = 0; k < TREE_KINDS; k++)
		free(lab->trees[k]);
	g4_dev_close(lab->driver);
	g4_dev_close(lab->fault);
	rig_close(&lab->rig);
	for (uint32_t k = 0; k < MAX_PARTIES; k++)
		g4_wg_destroy(lab->wg[k]);
}

void lab_load(struct lab *lab, uint32_t kind, enum tree_kind tree)
{
	lab_forget(lab);
	if (lab->tree == tree && lab->kind == kind)
		return;
	if (kind == 0 && !lab->trees[tree])
		make_tree(lab, tree);
	close_memory(lab);
	set_free(lab);
	if (kind == 0)
		memcpy(lab->rig.image, lab->trees[tree], DEVICE_BYTES);
	else
		set_make(lab, &set_kinds[kind], tree);
	lab->tree = tree;
	lab->kind = kind;
	lab_settle_drive(lab);
	open_memory(lab);
}

struct g4_dev *lab_device(const struct lab *lab)
{
	return lab->set.device ? lab->set.device : lab->driver ? lab->driver : lab->fault;
}

void lab_record(struct lab *lab, bool on)
{
	if (lab->kind == 0)
		g4_dev_fault_record(lab->fault, on);
	else
		set_record(lab, on);
}

uint32_t lab_recorded(struct lab *lab)
{
	return lab->kind == 0 ? (uint32_t)g4_dev_fault_recorded(lab->fault) : set_recorded(lab);
}

void lab_settle_drive(struct lab *lab)
{
	if (lab->twin)
		twin_match(lab->twin);
}

struct g4_fs *lab_mount(struct lab *lab, bool write_through, char *message, size_t room)
{
	const struct g4_fault settings = {.write_through = write_through};
	const struct g4_fs_options options = lab_mount_options(lab);
	struct g4_fs *fs;

	lab_settle_drive(lab);
	g4_dev_fault_set(lab->fault, &settings);
	message[0] = 0;
	if (lab->kind != 0 && !(lab->set.device = set_mount_device(lab, &settings, message, room)))
		return NULL;
	if (g4_fs_mount(lab->wg[0], lab_device(lab), &options, &fs, message, room) == 0)
		return fs;
	set_unmount_device(lab);
	return NULL;
}

int lab_unmount(struct lab *lab, struct g4_fs *fs, bool clean)
{
	const int rc = g4_fs_unmount(lab->wg[0], fs, clean);

	set_unmount_device(lab);
	return rc;
}
