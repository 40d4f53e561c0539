/* SPDX-License-Identifier: Apache-2.0 */
/* The device, the prepared trees, the tables. */
#include "lab.h"

#include "fs/fs.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

const struct g4_fs_options lab_fs_options = {.cache_bytes = 4 * G4_MIB /* the least that an engine takes */,
					     .flags = G4_FS_NOATIME};

const char *const class_names[DEVICE_CLASSES] = {"disk512", "disk4k", "dax", "mem"};

uint32_t class_unit_bytes(enum device_class class_)
{
	static const uint32_t units[DEVICE_CLASSES] = {512, 4096, 8, 8};

	return units[class_];
}

/* ------------------------------------------------------------------ tables */

uint32_t *table_find(struct table *table, uint64_t key)
{
	key |= key == 0;
	if (table->room == 0)
		return NULL;
	for (uint64_t at = key & (table->room - 1);; at = (at + 1) & (table->room - 1)) {
		if (table->slots[at].key == key)
			return &table->slots[at].value;
		if (table->slots[at].key == 0)
			return NULL;
	}
}

static void put(struct table *table, uint64_t key, uint32_t value)
{
	uint64_t at = key & (table->room - 1);

	while (table->slots[at].key != 0)
		at = (at + 1) & (table->room - 1);
	table->slots[at].key = key;
	table->slots[at].value = value;
	table->count++;
}

void table_add(struct table *table, uint64_t key, uint32_t value)
{
	if (2 * (table->count + 1) > table->room) {
		struct table old = *table;
		table->room = old.room ? 2 * old.room : 4096;
		table->count = 0;
		table->slots = calloc(table->room, sizeof(table->slots[0]));
		if (!table->slots)
			abort();
		for (uint64_t k = 0; k < old.room; k++)
			if (old.slots[k].key)
				put(table, old.slots[k].key, old.slots[k].value);
		free(old.slots);
	}
	put(table, key | (key == 0), value);
}

void table_clear(struct table *table)
{
	free(table->slots);
	memset(table, 0, sizeof(*table));
}

void lab_forget(struct lab *lab)
{
	for (uint32_t k = 0; k < lab->outcome_count; k++) {
		tree_free(&lab->outcome[k].tree);
		free(lab->outcome[k].text);
	}
	lab->outcome_count = 0;
	table_clear(&lab->states);
	table_clear(&lab->outcomes);
}

/* ------------------------------------------------------------------ trees */

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
	uint64_t offset = io->offset_bytes;

	for (uint32_t k = 0; io->op == G4_IO_WRITE && k < io->iov_count; k++) {
		memory_save((struct memory *)context, offset, io->iov[k].bytes);
		offset += io->iov[k].bytes;
	}
}

void lab_open(struct lab *lab, struct counts *counts)
{
	struct g4_dev_open_options options = {0};
	struct g4_dev *inner;
	char message[256];

	memset(lab, 0, sizeof(*lab));
	lab->counts = counts;
	lab->only_state = lab->only_inner = UINT64_MAX;
	lab->tree = TREE_KINDS;
	for (uint32_t k = 0; k < MAX_PARTIES; k++)
		lab->wg[k] = g4_wg_create(k);
	clock_restart();
	rig_open(&lab->rig, DEVICE_BYTES, JOURNAL_BYTES);
	if (g4_dev_open(lab->rig.name, &options, &inner, message, sizeof(message)) < 0 ||
	    g4_dev_fault_open(inner, &lab->fault) < 0)
		abort();
	g4_dev_fault_watch(lab->fault, watch, &lab->memory);
}

void lab_close(struct lab *lab)
{
	lab_forget(lab);
	free(lab->outcome);
	if (lab->tree != TREE_KINDS)
		memory_close(&lab->memory);
	for (uint32_t k = 0; k < TREE_KINDS; k++)
		free(lab->trees[k]);
	g4_dev_close(lab->fault);
	rig_close(&lab->rig);
	for (uint32_t k = 0; k < MAX_PARTIES; k++)
		g4_wg_destroy(lab->wg[k]);
}

void lab_load(struct lab *lab, enum tree_kind tree)
{
	struct g4_superblock sb;
	struct g4_layout layout;
	bool backup;

	lab_forget(lab);
	if (lab->tree == tree)
		return;
	if (!lab->trees[tree])
		make_tree(lab, tree);
	if (lab->tree != TREE_KINDS)
		memory_close(&lab->memory);
	memcpy(lab->rig.image, lab->trees[tree], DEVICE_BYTES);
	lab->tree = tree;
	if (g4_superblock_read(lab->wg[0], lab->fault, &sb, &backup) < 0)
		abort();
	g4_layout_of(&sb, &layout);
	memory_open(&lab->memory, lab->rig.image, DEVICE_BYTES, layout.groups_address, layout.backup_address);
}

struct g4_fs *lab_mount(struct lab *lab, bool write_through, char *message, size_t room)
{
	const struct g4_fault settings = {.write_through = write_through};
	struct g4_fs *fs;

	g4_dev_fault_set(lab->fault, &settings);
	return g4_fs_mount(lab->wg[0], lab->fault, &lab_fs_options, &fs, message, room) < 0 ? NULL : fs;
}
