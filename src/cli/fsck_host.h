/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offline checker. It only reads, through image_host.h; what the engine wrote is judged by src/format alone.
 *
 * Order of work: superblocks and journal; group descriptors and allocation maps; the orphan list; the directory tree
 * from the root, which leads to every inode, block map and attribute; slabs and inodes that nothing led to; at the end
 * the pages met on the way against the allocation maps. Memory: three bits a page, 24 bytes a slab (15 inodes), 16
 * bytes and the name a directory, 24 bytes an entry of the directory at hand.
 */
#ifndef G4_FSCK_HOST_H
#define G4_FSCK_HOST_H

#include "cli/cli_host.h"
#include "cli/image_host.h"
#include "cli/report_host.h"

/* fsck(8) */
enum g4_fsck_exit {
	G4_FSCK_OK = 0,
	G4_FSCK_CORRECTED = 1,
	G4_FSCK_REBOOT = 2,
	G4_FSCK_UNCORRECTED = 4,
	G4_FSCK_ERROR = 8,
	G4_FSCK_USAGE = 16,
	G4_FSCK_CANCELLED = 32,
};

/* X(NAME, name in --json): the kinds of problems. Scripts may rely on the names. */
#define G4_FSCK_PROBLEMS(X)                                                                                            \
	X(SUPERBLOCK, "superblock")	    /* one of the two is damaged, or they disagree */                          \
	X(JOURNAL, "journal")		    /* its header or a record is damaged */                                    \
	X(GROUPS, "group_descriptors")	    /* a page of them is damaged */                                            \
	X(GROUP_COUNT, "group_count")	    /* a descriptor's counts differ from its map's */                          \
	X(ALLOC, "allocation_map")	    /* a map page is damaged */                                                \
	X(LEAKED, "page_leaked")	    /* marked used, used by nothing */                                         \
	X(UNMARKED, "page_unmarked")	    /* used, marked free */                                                    \
	X(SHARED, "page_shared")	    /* used twice */                                                           \
	X(SLAB, "slab")			    /* a slab is damaged */                                                    \
	X(SLAB_BIT, "slab_bit")		    /* the map's slab bit disagrees with the slab */                           \
	X(ROOT, "root")			    /* the root block or the root directory */                                 \
	X(INODE, "inode")		    /* an inode contradicts itself */                                          \
	X(UNREACHABLE, "inode_unreachable") /* an inode in use that no directory names */                              \
	X(LINKS, "link_count")		    /* nlink differs from the names found */                                   \
	X(PAGES, "page_count")		    /* inode.pages differs from the pages found */                             \
	X(MAP, "block_map")		    /* an indirect page or a pointer is damaged */                             \
	X(XATTR, "extended_attributes")	    /* an attribute page is damaged */                                         \
	X(DIRECTORY, "directory")	    /* a directory page is damaged */                                          \
	X(ENTRIES, "entry_count")	    /* a directory's entry count is wrong */                                   \
	X(ENTRY, "entry")		    /* a name leads to no inode or to one of another type */                   \
	X(HASH, "entry_hash")		    /* a name's hash is wrong or it lies in the wrong leaf */                  \
	X(COOKIE, "entry_cookie")	    /* two entries of a directory share hash and collision number */           \
	X(DUPLICATE, "entry_duplicate")	    /* two entries of a directory have one name */                             \
	X(PARENT, "parent")		    /* a directory's parent pointer is wrong */                                \
	X(TWO_NAMES, "directory_two_names") /* a directory has more than one name */                                   \
	X(ORPHAN, "orphan")		    /* the orphan list and the inodes' flags disagree */

enum g4_fsck_problem {
#define G4_FSCK_ENUM(name, text) G4_FSCK_##name,
	G4_FSCK_PROBLEMS(G4_FSCK_ENUM) G4_FSCK_PROBLEM_KINDS
#undef G4_FSCK_ENUM
};

#define G4_NO_DIR UINT32_MAX

struct g4_fsck_where {	       /* what a problem is about; the path is found only when it is printed */
	uint32_t dir;	       /* G4_NO_DIR: no path */
	uint64_t leaf_address; /* 0: the directory itself, else the entry at `unit` of this leaf */
	uint32_t unit;
	uint64_t ino; /* 0: none */
};

struct g4_fsck_dir { /* a directory of the tree walked */
	uint64_t ino;
	uint32_t parent;  /* G4_NO_DIR: the root, or the top of a lost tree */
	uint32_t name_at; /* in names: length byte, name */
};

struct g4_fsck_cell {
	uint64_t key; /* 0: empty */
	uint32_t a, b, c;
};
struct g4_fsck_table { /* open addressing; zero is an empty table */
	struct g4_fsck_cell *cells;
	uint64_t room, count;
};

struct g4_fsck_entry {
	uint64_t ino;
	uint64_t leaf_address;
	uint32_t hash;
	uint16_t collision;
	uint8_t unit;
	uint8_t file_type;
};

struct g4_fsck {
	struct g4_image *image;
	struct g4_report *report; /* NULL: text to out */
	FILE *out;
	struct g4_progress progress;
	uint64_t problems;
	uint64_t by_kind[G4_FSCK_PROBLEM_KINDS];
	uint64_t printed_limit; /* lines a kind */
	int fatal;		/* -G4_E_NOMEM: give up */

	uint64_t bitmap_words;
	uint64_t *used;			   /* bit p: page p was met */
	uint64_t *alloc_used, *alloc_slab; /* what the allocation maps say */
	uint64_t *bad_group;		   /* bit g: its map could not be read, nothing is known */
	uint64_t pages_met, pages_marked;

	struct g4_fsck_table
		slabs; /* page number -> a: used slots, b: slots met, c: code (positive) of a damaged one */
	struct g4_fsck_table links;   /* ino -> a: names found, b: nlink, c: directory of the first name */
	struct g4_fsck_table orphans; /* ino */

	struct g4_fsck_dir *dirs;
	uint64_t dir_count, dir_room;
	uint8_t *names;
	uint64_t name_bytes, name_room;
	uint32_t *stack;
	uint64_t stack_count, stack_room;

	/* the entries of the directory at hand */
	struct g4_fsck_entry *entries;
	uint64_t entry_count, entry_room;

	struct g4_map_walk map_walk;
	struct g4_dir_walk dir_walk;
	uint64_t files, directories, symlinks, others, orphan_count;
};

/* ---- fsck_report_host.c ---- */
__attribute__((format(printf, 4, 5))) void g4_fsck_problem(struct g4_fsck *fsck, enum g4_fsck_problem kind,
							   const struct g4_fsck_where *where, const char *format, ...);
const char *g4_fsck_problem_name(enum g4_fsck_problem kind);
/* Says what the limit on lines a kind left out. */
void g4_fsck_print_left_out(struct g4_fsck *fsck);
/* Copies the name of the entry at `unit` of a leaf; its length, 0 when it can not be read. */
size_t g4_fsck_entry_name(struct g4_fsck *fsck, uint64_t leaf_address, uint32_t unit, uint8_t name[G4_NAME_MAX]);

/* ---- fsck_tables_host.c ---- */
struct g4_fsck_cell *g4_fsck_find(const struct g4_fsck_table *table, uint64_t key);
/* The cell of key, made when there is none; NULL for lack of memory. Other cells' addresses change. */
struct g4_fsck_cell *g4_fsck_add(struct g4_fsck *fsck, struct g4_fsck_table *table, uint64_t key);
/* Room for one more; false for lack of memory. */
bool g4_fsck_reserve(struct g4_fsck *fsck, void **array, uint64_t count, uint64_t *room, size_t element_bytes);
/* The keys in ascending order, malloc'ed; NULL when there are none or for lack of memory. */
uint64_t *g4_fsck_keys(struct g4_fsck *fsck, const struct g4_fsck_table *table, uint64_t *count);
bool g4_fsck_bit(const uint64_t *bitmap, uint64_t bit);
/* Takes pages for one purpose; false, with a problem, when one of them is taken already. */
bool g4_fsck_claim(struct g4_fsck *fsck, uint64_t address, uint64_t pages, const struct g4_fsck_where *where,
		   const char *what);

/* ---- fsck_space_host.c ---- */
void g4_fsck_superblocks(struct g4_fsck *fsck);
bool g4_fsck_load_maps(struct g4_fsck *fsck);
void g4_fsck_find_slabs(struct g4_fsck *fsck);
void g4_fsck_compare_maps(struct g4_fsck *fsck);

/* ---- fsck_inode_host.c ---- */
/* The slab's cell, verified at the first call, or NULL for lack of memory. */
struct g4_fsck_cell *g4_fsck_slab(struct g4_fsck *fsck, uint64_t page, const struct g4_fsck_where *where);
enum g4_fsck_met { G4_FSCK_FIRST, G4_FSCK_AGAIN, G4_FSCK_UNUSABLE };
/* Looks an inode up and marks it met. UNUSABLE: the problem, if where is given, was reported. */
enum g4_fsck_met g4_fsck_meet(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where,
			      struct g4_inode *inode);
/*
 * Everything that an inode owns: map or directory pages, attributes, page count. Of a directory it also collects the
 * entries. False when something is damaged, so that counts prove nothing.
 */
bool g4_fsck_contents(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where);

/* ---- fsck_dir_host.c ---- */
/* Checks the pages of a directory, counts them in *pages, collects the entries. False when some could not be read. */
bool g4_fsck_read_directory(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			    uint64_t *pages);

/* ---- fsck_tree_host.c ---- */
void g4_fsck_orphans(struct g4_fsck *fsck);
void g4_fsck_tree(struct g4_fsck *fsck);
void g4_fsck_unreachable(struct g4_fsck *fsck);
void g4_fsck_link_counts(struct g4_fsck *fsck);

/* ---- fsck_run_host.c ---- */
/* Runs all checks. 0, or -G4_E_NOMEM; the problems are counted in fsck->problems. */
int g4_fsck_run(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal);
void g4_fsck_free(struct g4_fsck *fsck);

#endif
