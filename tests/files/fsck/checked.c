/* SPDX-License-Identifier: Apache-2.0 */
#include "files/fsck/checked.h"

#include <sys/stat.h>

#include "files/files.h"

#define DEVICE_BYTES (48 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)

static struct checked the_image; /* too large for a stack */
struct checked *checked = &the_image;

static void fill_page(uint8_t *to, uint64_t ino, uint64_t page)
{
	rig_pattern(to, ino + page, G4_PAGE_BYTES);
}

static void write_page(uint64_t ino, uint64_t page)
{
	uint8_t data[G4_PAGE_BYTES];

	fill_page(data, ino, page);
	assert_int_equal(op_write(&checked->rig, ino, 0, page * G4_PAGE_BYTES, data, sizeof(data), NULL), 0);
}

static void make_all(void)
{
	struct rig *r = &checked->rig;
	struct g4_attr attr;
	uint8_t value[900];
	char name[32];

	assert_int_equal(op_getattr(r, G4_NODE_ROOT, &attr), 0);
	checked->root = attr.ino;
	assert_int_equal(op_mkdir(r, G4_NODE_ROOT, "dir", 0755, &checked->dir), 0);
	for (uint32_t i = 0; i < CHECKED_FILES; i++) {
		snprintf(name, sizeof(name), "file %u", i);
		assert_int_equal(op_mknod(r, checked->dir, name, S_IFREG | 0644, &checked->files[i]), 0);
		write_page(checked->files[i], 0);
	}
	assert_int_equal(op_mknod(r, G4_NODE_ROOT, "large", S_IFREG | 0644, &checked->large), 0);
	write_page(checked->large, 0);
	write_page(checked->large, CHECKED_LARGE_PAGE);
	assert_int_equal(op_mknod(r, G4_NODE_ROOT, "linked", S_IFREG | 0644, &checked->linked), 0);
	assert_int_equal(op_link(r, checked->linked, checked->dir, "another name"), 0);
	assert_int_equal(op_mknod(r, G4_NODE_ROOT, "attributes", S_IFREG | 0644, &checked->with_attributes), 0);
	rig_pattern(value, 1, sizeof(value));
	assert_int_equal(op_setxattr(r, checked->with_attributes, "user.large", value, sizeof(value), 0), 0);
}

void checked_mount(void)
{
	checked->rig.fs = rig_mount_fs(&checked->rig, checked->rig.wg, NULL);
}

void checked_unmount(bool clean)
{
	rig_unmount_fs(&checked->rig, checked->rig.wg, checked->rig.fs, clean);
	checked->rig.fs = NULL;
}

int checked_begin(void **state)
{
	(void)state;
	memset(checked, 0, sizeof(*checked));
	rig_open(&checked->rig, DEVICE_BYTES, JOURNAL_BYTES);
	checked->rig.wg = g4_wg_create(0);
	checked_mount();
	make_all();
	checked_unmount(true);
	return 0;
}

int checked_end(void **state)
{
	(void)state;
	check_end();
	if (checked->rig.fs)
		checked_unmount(true);
	rig_close(&checked->rig);
	g4_wg_destroy(checked->rig.wg);
	return 0;
}

void check(void)
{
	char message[512];

	check_end();
	memset(&checked->fsck, 0, sizeof(checked->fsck));
	checked->fsck.out = open_memstream(&checked->text, &checked->text_bytes);
	checked->fsck.printed_limit = 20;
	if (g4_image_open(&checked->image, checked->rig.name, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	checked->open = true;
	assert_int_equal(g4_image_load_overlay(&checked->image, &checked->journal), 0);
	assert_int_equal(g4_fsck_run(&checked->fsck, &checked->image, &checked->journal), 0);
	fflush(checked->fsck.out);
}

void check_end(void)
{
	if (!checked->open)
		return;
	checked->open = false;
	fclose(checked->fsck.out);
	free(checked->text);
	checked->text = NULL;
	g4_fsck_free(&checked->fsck);
	g4_image_close(&checked->image);
}

void expect_problem(enum g4_fsck_problem kind)
{
	check();
	if (checked->fsck.by_kind[kind] == 0)
		fail_msg("no %s among:\n%s", g4_fsck_problem_name(kind), checked->text);
	check_end();
}

void expect_problems(enum g4_fsck_problem kind, uint64_t count)
{
	check();
	if (checked->fsck.by_kind[kind] != count || checked->fsck.problems != count)
		fail_msg("not %u times %s alone, but:\n%s", (uint32_t)count, g4_fsck_problem_name(kind), checked->text);
	check_end();
}

void expect_repaired(uint64_t *outcome)
{
	struct rig_repair how = {.dry_run = false};
	char *text;

	if (rig_repair(&checked->rig, &how) != 0)
		fail_msg("%s\n%s", how.words, how.text);
	if (outcome)
		memcpy(outcome, how.outcome, sizeof(how.outcome));
	free(how.text);
	if (rig_fsck(&checked->rig, &text).problems != 0)
		fail_msg("the repaired image has problems:\n%s", text);
	free(text);
}

void expect_page(uint64_t ino, uint64_t page)
{
	uint8_t wanted[G4_PAGE_BYTES], found[G4_PAGE_BYTES];
	const bool mounted = checked->rig.fs != NULL;
	uint64_t done;

	if (!mounted)
		checked_mount();
	fill_page(wanted, ino, page);
	assert_int_equal(op_read(&checked->rig, ino, 0, page * G4_PAGE_BYTES, found, sizeof(found), &done), 0);
	assert_int_equal(done, sizeof(found));
	assert_memory_equal(found, wanted, sizeof(found));
	if (!mounted)
		checked_unmount(true);
}

uint64_t page_of(uint64_t ino)
{
	return g4_align_down(g4_ptr_offset(ino), G4_PAGE_BYTES);
}

const struct g4_layout *checked_layout(void)
{
	static struct g4_layout layout;

	g4_layout_of((const struct g4_superblock *)(const void *)(checked->rig.image + G4_SUPERBLOCK_ADDRESS), &layout);
	return &layout;
}
