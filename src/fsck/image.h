/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an unmounted (or foreign-mounted) image without the engine: for info, df, dump and fsck. Never writes.
 *
 * With the overlay the image looks as it will after its journal has been replayed: pages of committed records are read
 * from the log. Patches lie above that: pages that a repair has changed in memory, and writes when the picture is
 * whole. One image is used by one thread; others get one of their own by g4_image_share(). Errors are the
 * negative codes of base/error.h.
 *
 * Where a device keeps several copies, a page is that of the copies that is whole metadata in its place, the newest if
 * several are and differ; one that no copy has so is as the first copy has it. Which pages have a copy that is not like
 * the one that counts is remembered for those that are read as metadata. Records of the journal count if one copy is whole.
 */
#ifndef G4_FSCK_IMAGE_H
#define G4_FSCK_IMAGE_H

#include "dev/dev_host.h"
#include "format/layout.h"
#include "space/space.h"

#define G4_CHUNK_BYTES (64 * G4_KIB)

struct g4_chunk_cache;

struct g4_overlay_page {
	uint64_t page;		 /* its home; 0: empty */
	struct g4_address image; /* the newest one in the log; none: revoked */
	uint32_t copy;		 /* that has it */
};
struct g4_overlay { /* by home; open addressing */
	struct g4_overlay_page *pages;
	uint64_t room; /* a power of two, 0: nothing in it */
};

/* Where a page is in the overlay, or belongs. */
static inline uint64_t g4_overlay_slot(const struct g4_overlay *overlay, uint64_t page)
{
	uint64_t at = (page * UINT64_C(0x9e3779b97f4a7c15)) & (overlay->room - 1);

	while (overlay->pages[at].page != 0 && overlay->pages[at].page != page)
		at = (at + 1) & (overlay->room - 1);
	return at;
}

struct g4_patches { /* page number -> its changed contents; open addressing, key 0: empty */
	uint64_t *keys;
	uint8_t **pages;
	uint64_t room; /* a power of two, 0: nothing in it */
	uint64_t count;
};

struct g4_image {
	const char *name;
	struct g4_dev *dev;
	struct g4_wg *wg;
	uint64_t device_bytes;
	struct g4_superblock sb; /* the one in use */
	struct g4_layout layout;
	uint32_t fs_tag;
	bool from_backup; /* the first superblock is damaged, or older than the second */
	int primary_status, backup_status;
	struct g4_superblock primary, backup; /* as found */
	struct g4_overlay overlay;
	struct g4_patches patches;
	const struct g4_journal_header *journal_header; /* instead of the one on the device; NULL: that one */
	struct g4_journal_header found_header;
	struct g4_chunk_cache *cache;
	bool once;     /* what is read goes past the cache */
	bool borrowed; /* device, overlay and patches are another image's */
	/* of a device with several copies */
	struct g4_space space;
	uint8_t *buffer;	    /* to compare them in; NULL: there is one */
	bool differs;		    /* the page that was read last */
	struct g4_address *damaged; /* metadata that was read; some may be there twice */
	uint64_t damaged_count, damaged_room;
};

/* Opens read-only. Fails when neither superblock is good, with one sentence in message. */
int g4_image_open(struct g4_image *image, const char *name, char *message, size_t bytes);
/*
 * The same in two steps, for callers that go on without a superblock: the device; then the superblock, 0 or what is wrong with
 * the first one. After the first step g4_image_close() is due in any case.
 */
int g4_image_open_device(struct g4_image *image, const char *name, char *message, size_t bytes);
int g4_image_choose_superblock(struct g4_image *image);
/* Reads and judges the superblock at an address. *sb is what is there. */
int g4_image_read_superblock(struct g4_image *image, struct g4_address address, struct g4_superblock *sb);
/* From now on *sb is the image's superblock. */
void g4_image_use_superblock(struct g4_image *image, const struct g4_superblock *sb);
void g4_image_close(struct g4_image *image);
/*
 * The same image for another thread, with a cache of its own. What is shared must not change meanwhile: no patches, no
 * loading of the overlay. Close it before `image`. index: below G4_WG_MAX. 0 or -G4_E_NOMEM.
 */
int g4_image_share(const struct g4_image *image, uint32_t index, struct g4_image *other);

/* A page as it is on the device; *page is good until the next call that reads. */
int g4_image_raw_page(struct g4_image *image, struct g4_address address, const void **page);
/* The same of one copy, counted from 0. -G4_E_NOENT: its disk is missing. */
int g4_image_copy_page(struct g4_image *image, uint32_t copy, struct g4_address address, const void **page);
/* The same through the overlay and the patches. */
int g4_image_page(struct g4_image *image, struct g4_address address, const void **page);
/*
 * The patch of a page, to be changed; made from what g4_image_page() tells (zeros when that can not be read) at the
 * first call. The image owns it. NULL: out of memory.
 */
uint8_t *g4_image_patch(struct g4_image *image, struct g4_address address);
/* By address, for qsort(). */
int g4_image_compare_addresses(const void *a, const void *b);
/* The addresses of all patches, ascending, malloc'ed; NULL when there are none or for lack of memory. */
struct g4_address *g4_image_patched(const struct g4_image *image, uint64_t *count);
/* Copies a metadata page and verifies its header and checksum; indirect pages come stripped, by g4_image_indirect. */
int g4_image_block(struct g4_image *image, struct g4_address address, uint32_t type, void *copy);
/* The same for a pass over much of the device: chunks that the cache has not got are read past it. */
int g4_image_block_once(struct g4_image *image, struct g4_address address, uint32_t type, void *copy);
int g4_image_indirect(struct g4_image *image, struct g4_address address, g4_le64 *slots,
		      struct g4_indirect_header *header);
/* The same of a page of sums. */
int g4_image_sums(struct g4_image *image, struct g4_address address, struct g4_sums_page *sums,
		  struct g4_sums_header *header);
/* A directory page: leaf or index, as *type tells; validated. */
int g4_image_directory_page(struct g4_image *image, struct g4_address address, void *copy, uint32_t *type);
/* An inode by its number: its slab is verified, its slot in use, its contents valid. */
int g4_image_inode(struct g4_image *image, uint64_t ino, struct g4_inode *inode);
/* The root directory's number. */
int g4_image_root(struct g4_image *image, struct g4_root *root);

/* ---- journal ---- */
struct g4_journal_record {
	uint64_t sequence;
	uint64_t log_page; /* where it starts */
	uint64_t pages;
	uint32_t descriptors, blocks, revokes, data_pages;
	uint64_t time_ns;
	uint32_t copy; /* the first that has it whole */
	/* blocks home addresses, revokes addresses, data_pages pairs of address and CRC-32C; good during the visit */
	const g4_le64 *tags;
};
struct g4_journal_state {
	struct g4_journal_header header;
	int status;	     /* 0, or what is wrong with the header or a committed record */
	bool header_damaged; /* or it is older than what the superblock says is home */
	uint64_t
		older; /* the log's newest transaction, if it may not be replayed since what is in place is newer; or 0 */
	uint64_t next_sequence, next_page;	  /* behind the newest record */
	uint64_t records, blocks, revokes, pages; /* to be replayed */
};
typedef void (*g4_journal_visit)(void *context, const struct g4_journal_record *record);
/*
 * Calls visit (which may be NULL) for each committed record from the tail on that may not be home. What is wrong is in
 * state->status.
 */
int g4_image_scan_journal(struct g4_image *image, g4_journal_visit visit, void *context,
			  struct g4_journal_state *state);
/* The committed record at log_page, if there is one: true, and its tags, which the caller frees, in *tags, too. */
bool g4_image_read_record(struct g4_image *image, struct g4_journal_record *record, g4_le64 **tags);
/* The sequence of the record that starts at a page of the log, 0: none does. The record itself is not verified. */
uint64_t g4_image_starts_record(struct g4_image *image, uint64_t log_page);
/* How many records with sequences between these two start anywhere in the log. */
uint64_t g4_image_records_between(struct g4_image *image, uint64_t after, uint64_t before);
/*
 * A header for a log whose own is damaged: the tail is the oldest record of the newest unbroken row. False: there is no
 * record that may be replayed; *older as in g4_journal_state.
 */
bool g4_image_find_tail(struct g4_image *image, struct g4_journal_header *header, uint64_t *older);
/* The highest generation of the metadata that is always in the same place: group descriptors, maps, root block. */
uint64_t g4_image_newest_fixed(struct g4_image *image);
/* Scans and fills the overlay; a damaged header is replaced by what the log tells, as a mount does. */
int g4_image_load_overlay(struct g4_image *image, struct g4_journal_state *state);
struct g4_address g4_image_log_address(const struct g4_image *image, uint64_t log_page);

/* ---- block maps ----
 * A walk visits what an inode's map holds, in file order: data extents and indirect pages. The caller answers an
 * indirect page with g4_map_walk_enter() to see what is under it; not to do so skips it. So a page that several
 * pointers share is entered once only by a caller that keeps count, and every walk ends.
 */
enum g4_map_kind { G4_MAP_END, G4_MAP_DATA, G4_MAP_INDIRECT, G4_MAP_DAMAGED };
struct g4_map_item {
	enum g4_map_kind kind;
	uint64_t file_page; /* first page that it covers */
	uint32_t height;    /* of the slot that holds it */
	g4_ptr ptr;
	struct g4_address page; /* the indirect page that holds it; none: the inode */
	uint32_t slot;		/* in there */
};
struct g4_map_frame {
	g4_le64 slots[G4_INDIRECT_SLOTS];
	struct g4_address page; /* the indirect page; none: the inode */
	uint64_t file_page;
	uint32_t height, next, count;
	struct g4_sums_places sums; /* of the indirect page */
	uint64_t maker; /* the inode that it names, and its pages of sums; of the inode's slots: the inode */
	uint32_t below; /* what it says of the pages from it down; 0: nothing */
};
struct g4_map_walk {
	struct g4_image *image;
	uint64_t ino;
	bool shares; /* indirect pages may be another file's */
	uint32_t depth;
	uint64_t entered, most; /* indirect pages: a map with more of them leads back to itself */
	struct g4_map_item item;
	struct g4_map_frame frames[G4_MAP_MAX_HEIGHT + 1];
};
/* A caller that enters indirect pages in each place where they are shared raises walk->most. */
void g4_map_walk_start(struct g4_map_walk *walk, struct g4_image *image, uint64_t ino, const struct g4_inode *inode);
/* The next item; the previous one is gone. DAMAGED: the pointer may not be where it is, and is skipped. */
const struct g4_map_item *g4_map_walk_next(struct g4_map_walk *walk);
/* After an INDIRECT item: descends into it, or says what is wrong with it. */
int g4_map_walk_enter(struct g4_map_walk *walk);

/* ---- directories ----
 * A walk visits the pages of a directory's tree in the order of positions, in two steps as above:
 * g4_dir_walk_next() tells the next page's address, g4_dir_walk_enter() reads it. Not to enter skips what is under it.
 */
struct g4_dir_frame {
	struct g4_dir_index page;
	uint64_t high; /* positions below it are < high */
	uint32_t next;
};
struct g4_dir_walk {
	struct g4_image *image;
	uint32_t depth; /* frames in use */
	bool at_root;
	struct g4_address root;
	uint64_t entered;
	/* the page at hand */
	struct g4_address address;
	uint64_t low, high;	 /* the positions of its names: low <= position < high */
	uint32_t level;		 /* what its parent says: 0 for a leaf; the root may be anything */
	uint32_t type;		 /* once entered */
	struct g4_dir_leaf leaf; /* when type is DIR_LEAF */
	struct g4_dir_frame frames[G4_DIR_MAX_LEVEL];
};
void g4_dir_walk_start(struct g4_dir_walk *walk, struct g4_image *image, const struct g4_inode *inode);
bool g4_dir_walk_next(struct g4_dir_walk *walk);
/* 0, or what is wrong with the page: the corruption codes, or -G4_E_CORRUPT_DIR when it contradicts its parent. */
int g4_dir_walk_enter(struct g4_dir_walk *walk);

struct g4_entry_view {
	struct g4_dir_entry entry;
	const uint8_t *name;
	struct g4_address leaf_address;
	uint32_t unit;
};
typedef bool (*g4_entry_visit)(void *context, const struct g4_entry_view *view);
/* Visits the entries of a validated leaf until visit returns true; returns whether it did. */
bool g4_leaf_each_entry(const struct g4_dir_leaf *leaf, struct g4_address leaf_address, g4_entry_visit visit,
			void *context);
/* The same for all leaves of a directory; *found tells whether visit returned true. */
int g4_image_each_entry(struct g4_image *image, uint64_t dir_ino, g4_entry_visit visit, void *context, bool *found);
/* The entry with this name; -G4_E_NOENT: there is none. */
int g4_image_find_entry(struct g4_image *image, uint64_t dir_ino, const char *name, size_t bytes,
			struct g4_dir_entry *entry);
/* The inode that an absolute path in the image names; links are not followed. */
int g4_image_resolve(struct g4_image *image, const char *path, uint64_t *ino);

#endif
