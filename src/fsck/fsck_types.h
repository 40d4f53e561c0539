/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker knows and has found: one struct g4_fsck a check, or a member of a team. fsck.h says how it works. */
#ifndef G4_FSCK_FSCK_TYPES_H
#define G4_FSCK_FSCK_TYPES_H

#include "base/error.h"
#include "base/progress_host.h"
#include "format/owners.h"
#include "fsck/image.h"
#include "print/report.h"

/* X(NAME, name in --json): the kinds of problems. Scripts may rely on the names. */
#define G4_FSCK_PROBLEMS(X)                                                                                            \
	X(SUPERBLOCK, "superblock")	    /* one of the two is damaged, or they disagree */                          \
	X(JOURNAL, "journal")		    /* its header or a record is damaged */                                    \
	X(GROUPS, "group_descriptors")	    /* a page of them is damaged */                                            \
	X(GROUP_COUNT, "group_count")	    /* a descriptor's counts differ from its map's */                          \
	X(ALLOC, "allocation_map")	    /* a map page is damaged */                                                \
	X(LEAKED, "page_leaked")	    /* marked used, used by nothing */                                         \
	X(UNMARKED, "page_unmarked")	    /* used, marked free */                                                    \
	X(OWNERS, "owner_count")	    /* counts of owners are damaged, or differ from those met */               \
	X(LISTED, "page_listed")	    /* what pages others may find is damaged, or wrong */                      \
	X(SHARED, "page_shared")	    /* used twice */                                                           \
	X(SLAB, "slab")			    /* a slab is damaged */                                                    \
	X(SLAB_BIT, "slab_bit")		    /* the map's slab bit disagrees with the slab */                           \
	X(ROOT, "root")			    /* the root block or the root directory */                                 \
	X(INODE, "inode")		    /* an inode contradicts itself */                                          \
	X(UNREACHABLE, "inode_unreachable") /* an inode in use that no directory names */                              \
	X(LINKS, "link_count")		    /* nlink differs from the names found */                                   \
	X(PAGES, "page_count")		    /* inode.pages differs from the pages found */                             \
	X(MAP, "block_map")		    /* an indirect page or a pointer is damaged */                             \
	X(SUMS, "sums")			    /* what sums of contents stand in is damaged */                            \
	X(XATTR, "extended_attributes")	    /* an attribute page is damaged */                                         \
	X(DIRECTORY, "directory")	    /* a directory page is damaged */                                          \
	X(ENTRIES, "entry_count")	    /* a directory's entry count is wrong */                                   \
	X(ENTRY, "entry")		    /* a name leads to no inode or to one of another type */                   \
	X(HASH, "entry_hash")		    /* a name's hash is wrong or it lies in the wrong leaf */                  \
	X(COOKIE, "entry_cookie")	    /* two entries of a directory share hash and collision number */           \
	X(DUPLICATE, "entry_duplicate")	    /* two entries of a directory have one name */                             \
	X(PARENT, "parent")		    /* a directory's parent pointer is wrong */                                \
	X(TWO_NAMES, "directory_two_names") /* a directory has more than one name */                                   \
	X(ORPHAN, "orphan")		    /* the orphan list and the inodes' flags disagree */                       \
	X(COPY, "copy")			    /* a copy of a page is damaged, and another one is whole */                \
	X(JOB, "job")			    /* the record of a background job, or what one found, is not valid */      \
	X(DATA, "data")			    /* contents of a file are not what their sum says */                       \
	X(PARITY, "parity")		    /* columns of a row do not fit together */

enum g4_fsck_problem {
#define G4_FSCK_ENUM(name, text) G4_FSCK_##name,
	G4_FSCK_PROBLEMS(G4_FSCK_ENUM) G4_FSCK_PROBLEM_KINDS
#undef G4_FSCK_ENUM
};

#define G4_FSCK_THREADS_MAX 64u
#define G4_NO_DIR UINT32_MAX
/* Of a bitmap over pages. */
#define G4_FSCK_GROUP_WORDS (G4_GROUP_PAGES / 64)
#define G4_FSCK_REGION_WORDS (G4_REGION_PAGES / 64)

struct g4_fsck_where {			/* what a problem is about; the path is found only when it is printed */
	uint32_t dir;			/* G4_NO_DIR: no path */
	struct g4_address leaf_address; /* none: the directory itself, else the entry at `unit` of this leaf */
	uint32_t unit;
	uint64_t ino;	   /* 0: none */
	uint8_t file_type; /* what the entry says, 0: nothing does */
};

struct g4_fsck_dir { /* a directory of the tree walked */
	uint64_t ino;
	uint32_t parent;  /* G4_NO_DIR: the root, or the top of a lost tree */
	uint32_t name_at; /* in names: length byte, name */
};

struct g4_fsck_cell {
	uint64_t key; /* 0: empty */
	uint32_t a, b, c, d;
};
struct g4_fsck_table { /* open addressing; zero is an empty table */
	struct g4_fsck_cell *cells;
	uint64_t room, count;
};

struct g4_fsck_entry {
	uint64_t ino;
	struct g4_address leaf_address;
	uint32_t hash;
	uint16_t collision;
	uint8_t unit;
	uint8_t file_type;
};

struct g4_fsck_owners { /* of a region with pages that several files have */
	uint64_t region;
	struct g4_address address;
	uint32_t counted[G4_REGION_PAGES], met[G4_REGION_PAGES]; /* beyond the first */
	uint32_t whole;						 /* so many of those are counted for the region */
	uint32_t larges;					 /* pointers to all of it that were met; atomic */
	uint64_t data[G4_FSCK_REGION_WORDS];			 /* bit i: page i was claimed as data; atomic */
	uint64_t early[G4_FSCK_REGION_WORDS]; /* of a team: and again, before that was said; atomic */
};

struct g4_fsck_damage { /* a page of a file's contents */
	uint64_t ino, file_page;
	struct g4_address address;
	int code; /* -G4_E_DATA: it does not match; -G4_E_CORRUPT_SUMS: its sum is impossible; */
	struct g4_sum_entry expected, found; /* or it can not be read. The sums: with -G4_E_DATA */
	bool other_whole;		     /* another copy is what its sum says: a scrub writes it over this one */
};

/* ---- repair ---- */
enum g4_fsck_outcome {
	G4_FSCK_REPAIRED, /* nothing of the user's was at stake */
	G4_FSCK_DOUBTFUL, /* kept, but out of a damaged page or claimed by two: nobody knows whether it is right */
	G4_FSCK_LOST,	  /* gone */
	G4_FSCK_OUTCOMES
};
struct g4_fsck_change { /* one thing that the repair did */
	enum g4_fsck_outcome outcome;
	uint64_t ino; /* of the file concerned, 0: none */
	char *path;   /* malloc'ed, path_bytes of it; NULL: none known */
	size_t path_bytes;
	uint64_t offset, bytes; /* of the contents concerned; 0, 0: not a matter of contents */
	char *text;
};
struct g4_fsck_spot {		/* a pointer of a file's map */
	struct g4_address page; /* the indirect page that holds it; none: the inode */
	uint32_t slot;
};
enum g4_fsck_task_kind {
	G4_FSCK_REBUILD, /* directory `ino` is built anew from its entries */
	G4_FSCK_SALVAGE, /* a damaged indirect page: pointers to what nobody else uses are kept */
	G4_FSCK_CLONE,	 /* contents that somebody else uses: a copy of its own */
	G4_FSCK_CONNECT, /* an inode without a name gets one in lost+found */
	G4_FSCK_RESCUE,	 /* a leaf without a directory becomes one in lost+found: `ptr` */
};
struct g4_fsck_task {
	enum g4_fsck_task_kind kind;
	bool missing; /* REBUILD: pages of it could not be read */
	uint64_t ino;
	struct g4_fsck_where where;
	struct g4_fsck_spot spot;
	g4_ptr ptr;
	uint64_t file_page;
	uint32_t height;
};
struct g4_fsck_copy { /* contents to be copied into space that nothing uses */
	struct g4_address from, to;
	uint64_t pages;
};
struct g4_fsck_addition { /* an entry for a directory that is about to be rebuilt */
	uint64_t dir, ino;
	uint8_t file_type;
	char name[40];
};
/* g4_fsck_cell.d of a slab */
#define G4_FSCK_SALVAGED 1u    /* out of a damaged page */
#define G4_FSCK_UNCONFIRMED 2u /* found by its looks, where no allocation map says that it is in use */
#define G4_FSCK_HIDDEN 4u      /* the same, where one says that it is not, or where a file claims it */

struct g4_fsck {
	struct g4_image *image;
	struct g4_report *report; /* NULL: text to out */
	FILE *out;
	struct g4_progress progress;
	uint64_t problems;
	uint64_t by_kind[G4_FSCK_PROBLEM_KINDS];
	uint64_t printed_limit; /* lines a kind */
	int fatal;		/* -G4_E_NOMEM: give up */
	struct g4_page_hasher
		*hasher;	   /* of contents, beside the threads (hash/page_hasher_host.h); NULL: there is none */
	uint32_t threads;	   /* that may be used, at most G4_FSCK_THREADS_MAX; 0 is 1 */
	struct g4_fsck_team *team; /* whose member it is: it says nothing and stops at the first problem; NULL: alone */
	bool find_superblock;	   /* go on when neither is good */
	bool thorough;		   /* look at free space even when nothing is wrong */
	bool made_superblock;	   /* there was none: it has a new hash key, which no name was stored with */
	struct g4_superblock superblock; /* that one */
	const char *foreign;		 /* without any: the other file system on the device, or NULL */
	bool slabs_later;		 /* members: slabs are claimed when all of them are known */

	uint64_t bitmap_words;
	uint64_t *used;			   /* bit p: page p was met */
	uint64_t *alloc_used, *alloc_slab; /* what the allocation maps say */
	uint64_t *bad_group;		   /* bit g: its map could not be read, nothing is known */
	uint64_t pages_met, pages_marked;

	struct g4_fsck_table owner_regions; /* region + 1 -> a: place in owners, from 1 on. Of a team: constant */
	struct g4_fsck_owners *owners;
	uint64_t owner_count, owner_room;
	uint64_t *unknown_owners; /* bit r: the counts of region r could not be read */
	uint64_t *
		excess_owners; /* pages that more pointers were found to lead to than are counted; kept for all rounds */
	struct g4_address *group_shares;   /* by group: its page of shares, if it has one */
	struct g4_address *group_buffered; /* and that of buffered owners */
	bool owners_wrong;		   /* or what is listed */
	uint64_t *
		rows; /* bit p: page p was met as the first of a large page's pages of sums. Of a team: everybody's; NULL: none is shared */
	uint64_t *maps; /* bit p: page p was met as an indirect page. Of a team: everybody's; NULL: none is shared */
	uint64_t *told_maps; /* bit p: of what hangs at this one something was told to be lost or in doubt */
	uint64_t *
		bad_maps; /* bit p: what hangs at this one is not as it should be: how many pages that are proves nothing */
	uint64_t sharing_files; /* that say that they share their maps */
	uint64_t shared_maps;	/* indirect pages that files met which are another one's, or were another one's first */
	struct g4_fsck_listed **listed; /* by group: pages that others may find, if there are any (listed.c) */
	uint64_t domains;		/* with `listed`: the highest one that was made */
	struct g4_listing_page listing; /* the one that was looked at last */
	struct g4_address listing_at;

	struct g4_fsck_table
		slabs; /* page number -> a: used slots, b: slots met, c: code (positive) of a damaged one */
	struct g4_fsck_table blocks;  /* slabs of blocks of sums: the same */
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

	/* contents compared with their sums; pages */
	uint64_t data_compared, data_without,
		data_unverified; /* without: they have no sum; unverified: it was damaged */
	uint64_t data_beside;	 /* of those compared, by the hasher */
	uint64_t damaged_pages;	 /* of those compared; not among `problems` */
	uint64_t parity_damaged; /* places where rows do not fit together; not among `problems` */
	struct g4_fsck_damage *damages;
	uint64_t damage_count, damage_room;

	/* repair; zero while only checking */
	bool repairing;
	bool written;
	bool orphans_broken, no_room;
	bool new_root;	      /* the tree was not walked: the next round does, from another root */
	bool forgot_domains;  /* the root block is new, and how many domains there are shows when all inodes are met */
	uint64_t domains_met; /* then: the highest one */
	bool replayed;	      /* the journal, onto the device */
	bool searched;	      /* free space was looked at */
	bool cramped;	      /* room was taken that may have held something */
	bool reset_journal;   /* what its log holds is given up */
	bool rebuild_dir, missing_pages; /* of the directory at hand */
	uint32_t round;
	uint64_t sequence;			   /* generation of changed pages */
	uint64_t found;				   /* problems of all rounds */
	uint64_t *shared;			   /* bit p: page p was claimed twice in this round */
	uint64_t *metadata;			   /* bit p: page p was claimed for metadata */
	uint64_t *shared_before, *metadata_before; /* the same of the round before */
	uint64_t *first_alloc;			   /* what the maps said before the repair */
	struct g4_fsck_table touched;		   /* inodes of which something was said to be lost or in doubt */
	struct g4_fsck_table hidden;		   /* page of a slab found where maps call space free -> a: surely */
	struct g4_fsck_table dropped;		   /* directory -> a: names taken from it that it still counts */
	uint64_t *ever_used;			   /* bit p: page p was met in an earlier round */
	uint64_t *taken;			   /* bit p: page p is new */
	uint64_t *unwritten;			   /* bit p: page p is a file's that never wrote it */
	uint64_t *broken;			   /* bit p: page p should be metadata and is not */
	uint64_t *sums_twice;			   /* bit p: page p was the page of sums of two places */
	uint64_t unnamed;			   /* inodes without a name met in this round */
	/* of all rounds: names that directories counted and that are gone; inodes that got a name */
	uint64_t names_missing, connected;
	/* names that led to the wrong inode, or to none: those that they should lead to are without a name */
	uint64_t names_astray;
	bool dir_gone;	     /* a directory, and with it how many names it had: nobody counts these as missing */
	uint64_t lost_files; /* of names_missing: what they led to was found nowhere */
	struct g4_fsck_table
		adopted; /* page of a directory that no whole index page leads to -> a: index of the task that rebuilds it */
	struct g4_fsck_table late; /* directories whose parent is not the directory that names them */
	struct g4_fsck_change *changes;
	uint64_t change_count, change_room;
	uint64_t by_outcome[G4_FSCK_OUTCOMES];
	struct g4_fsck_task *tasks;
	uint64_t task_count, task_room;
	struct g4_fsck_copy *copies;
	uint64_t copy_count, copy_room;
	struct g4_fsck_addition *additions;
	uint64_t addition_count, addition_room;
	struct g4_fsck_late {
		struct g4_fsck_where where;
		uint64_t parent; /* that the inode names */
	} * late_dirs;
	uint64_t late_count, late_room;
	uint64_t *orphan_list; /* in order, of those that belong there */
	uint64_t orphan_list_count, orphan_list_room;
	struct g4_dev
		*target; /* what a repair writes to, claimed before anything of it is read; NULL: nothing is written */
	uint64_t stop_at_write; /* tests: the n-th write stops half-way and fails, as at a power cut; 0: none */
	uint64_t hand;		/* page from which on room is looked for */
	struct g4_chunk chunk;	/* of a set: the one where it was looked for last */

	struct g4_map_walk map_walk;
	struct g4_dir_walk dir_walk;
	uint64_t files, directories, symlinks, others, orphan_count;
};

#endif
