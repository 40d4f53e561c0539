/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The offline checker and its repair. Checking only reads, through image.h; what the engine wrote is judged by
 * src/format alone.
 *
 * Order of work: superblocks and journal; group descriptors and allocation maps; the orphan list; the directory tree
 * from the root, which leads to every inode, block map and attribute; slabs and inodes that nothing led to; at the end
 * the pages met on the way against the allocation maps. Memory: three bits a page, 24 bytes a slab (15 inodes), 16
 * bytes and the name a directory, 24 bytes an entry of the directory at hand; 2 MiB a thread and the slabs that it meets.
 *
 * Repairing is the same walk, in rounds. What can be put right on the spot is changed in a patch of the page (a pointer
 * cut, a count set, an entry dropped); what needs room, or the knowledge of what everybody else uses, becomes a task
 * for the end of the round (a directory built anew, a page copied, an inode put into lost+found). The next round walks
 * what the patches make of the image. A round without problems ends it, and only then is anything written: so a repair
 * is checked before it happens, and --dry-run is everything but the last step. write.c argues why a crash
 * during that is harmless.
 */
#ifndef G4_FSCK_H
#define G4_FSCK_H

#include "base/error.h"
#include "base/progress_host.h"
#include "fsck/image.h"
#include "print/report.h"

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

#define G4_FSCK_THREADS_MAX 64u
#define G4_NO_DIR UINT32_MAX

struct g4_fsck_where {	       /* what a problem is about; the path is found only when it is printed */
	uint32_t dir;	       /* G4_NO_DIR: no path */
	uint64_t leaf_address; /* 0: the directory itself, else the entry at `unit` of this leaf */
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
	uint64_t leaf_address;
	uint32_t hash;
	uint16_t collision;
	uint8_t unit;
	uint8_t file_type;
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
struct g4_fsck_spot {  /* a pointer of a file's map */
	uint64_t page; /* the indirect page that holds it, 0: the inode */
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
	uint64_t from, to, pages;
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

struct g4_fsck_job {		       /* for a member of a team (team.c) */
	uint64_t dir;		       /* inode of the directory to be looked into */
	struct g4_fsck_entry *entries; /* NULL: all of it, else only these, malloc'ed */
	uint64_t count;
};
struct g4_fsck {
	struct g4_image *image;
	struct g4_report *report; /* NULL: text to out */
	FILE *out;
	struct g4_progress progress;
	uint64_t problems;
	uint64_t by_kind[G4_FSCK_PROBLEM_KINDS];
	uint64_t printed_limit;	   /* lines a kind */
	int fatal;		   /* -G4_E_NOMEM: give up */
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

	/* repair; zero while only checking */
	bool repairing;
	bool orphans_broken, no_room;
	bool new_root;			 /* the tree was not walked: the next round does, from another root */
	bool replayed;			 /* the journal, onto the device */
	bool searched;			 /* free space was looked at */
	bool cramped;			 /* room was taken that may have held something */
	bool reset_journal;		 /* what its log holds is given up */
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
	uint64_t unnamed;			   /* inodes without a name met in this round */
	/* of all rounds: names that directories counted and that are gone; inodes that got a name, links that went */
	uint64_t names_missing, connected, links_missing;
	/* names that led to the wrong inode, or to none: those that they should lead to are without a name */
	uint64_t names_astray;
	bool dir_gone;	     /* a directory, and with it how many names it had: nobody counts these as missing */
	uint64_t lost_files; /* of names_missing: what they led to was found nowhere */
	struct g4_fsck_table adopted; /* leaf page -> a: index of the task of its new directory */
	struct g4_fsck_table late;    /* directories whose parent is not the directory that names them */
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

	struct g4_map_walk map_walk;
	struct g4_dir_walk dir_walk;
	uint64_t files, directories, symlinks, others, orphan_count;
};

/* ---- report.c ---- */
__attribute__((format(printf, 4, 5))) void g4_fsck_problem(struct g4_fsck *fsck, enum g4_fsck_problem kind,
							   const struct g4_fsck_where *where, const char *format, ...);
const char *g4_fsck_problem_name(enum g4_fsck_problem kind);
const char *g4_fsck_outcome_name(enum g4_fsck_outcome outcome);
/* Says and remembers what the repair did to a file's contents from byte `offset` on; bytes 0: not to contents. */
__attribute__((format(printf, 6, 7))) void g4_fsck_change(struct g4_fsck *fsck, enum g4_fsck_outcome outcome,
							  const struct g4_fsck_where *where, uint64_t offset,
							  uint64_t bytes, const char *format, ...);
/* Says what the limit on lines a kind left out. */
void g4_fsck_print_left_out(struct g4_fsck *fsck);
/* Copies the name of the entry at `unit` of a leaf; its length, 0 when it can not be read. */
size_t g4_fsck_entry_name(struct g4_fsck *fsck, uint64_t leaf_address, uint32_t unit, uint8_t name[G4_NAME_MAX]);

/* ---- tables.c ---- */
struct g4_fsck_cell *g4_fsck_find(const struct g4_fsck_table *table, uint64_t key);
/* The cell of key, made when there is none; NULL for lack of memory. Other cells' addresses change. */
struct g4_fsck_cell *g4_fsck_add(struct g4_fsck *fsck, struct g4_fsck_table *table, uint64_t key);
/* Room for one more; false for lack of memory. */
bool g4_fsck_reserve(struct g4_fsck *fsck, void **array, uint64_t count, uint64_t *room, size_t element_bytes);
/* The keys in ascending order, malloc'ed; NULL when there are none or for lack of memory. */
uint64_t *g4_fsck_keys(struct g4_fsck *fsck, const struct g4_fsck_table *table, uint64_t *count);
bool g4_fsck_bit(const uint64_t *bitmap, uint64_t bit);
/* Sets bits of a bitmap over pages, which is made when it is NULL; false for lack of memory. */
bool g4_fsck_set_bits(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t first, uint64_t count);
/* A page that is led to as metadata can not be used: a file that has it as contents may be wrong about that. */
void g4_fsck_note_broken(struct g4_fsck *fsck, uint64_t address);
/* Takes pages for one purpose; false, with a problem, when one of them is taken already. */
bool g4_fsck_claim(struct g4_fsck *fsck, uint64_t address, uint64_t pages, const struct g4_fsck_where *where,
		   const char *what);
/* The same for metadata, which must be read and found good before. */
bool g4_fsck_claim_metadata(struct g4_fsck *fsck, uint64_t address, const struct g4_fsck_where *where,
			    const char *what);

/* ---- super.c ---- */
/*
 * Opens the image as g4_image_open() does. Without any superblock in its place, and with fsck->find_superblock, it looks for
 * one elsewhere, and else makes one of what the rest of the metadata tells (fsck->made_superblock). Then fsck->foreign
 * says what else is on the device.
 */
int g4_fsck_open(struct g4_fsck *fsck, struct g4_image *image, const char *name, char *message, size_t bytes);

/* ---- space.c ---- */
void g4_fsck_superblocks(struct g4_fsck *fsck);
bool g4_fsck_load_maps(struct g4_fsck *fsck);
void g4_fsck_find_slabs(struct g4_fsck *fsck);
void g4_fsck_compare_maps(struct g4_fsck *fsck);
/* Pages of a word of the bitmaps that are marked as used, and that nothing has led to in any round. */
uint64_t g4_fsck_leaked(const struct g4_fsck *fsck, uint64_t word);

/* ---- hidden.c ---- */
/* Looks for slabs where the maps know none, if that is due and was not done; they join fsck->slabs. True: there are. */
bool g4_fsck_find_hidden(struct g4_fsck *fsck);
/* False: that this inode is alive was concluded from counts that do not tell which ones are. */
bool g4_fsck_is_proven(const struct g4_fsck *fsck, uint64_t ino);
/* An inode that was found by its looks is in doubt, and loses what its maker may have wanted it for. */
void g4_fsck_disarm(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where);
/* How many names a directory counted, less those that were taken from it and told, beyond those found. Sums them up. */
uint64_t g4_fsck_missing_names(struct g4_fsck *fsck, const struct g4_inode *inode, uint64_t dropped, uint64_t found);
/* After all rounds: says how many files are lost of which nothing but a count tells. */
void g4_fsck_tell_missing(struct g4_fsck *fsck);

/* ---- inode.c ---- */
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

/* ---- dir.c ---- */
/* Checks the pages of a directory, counts them in *pages, collects the entries. False when some could not be read. */
bool g4_fsck_read_directory(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			    uint64_t *pages);

/* ---- tree.c ---- */
/* For members of a team: a directory or some of its entries. What is found in them is handed out, not followed. */
void g4_fsck_do_job(struct g4_fsck *fsck, const struct g4_fsck_job *job);
void g4_fsck_orphans(struct g4_fsck *fsck);
void g4_fsck_tree(struct g4_fsck *fsck);
void g4_fsck_unreachable(struct g4_fsck *fsck);
void g4_fsck_link_counts(struct g4_fsck *fsck);

/* ---- team.c ---- */
/*
 * Checks everything behind the journal with fsck->threads threads. True: there is no problem, and *fsck is as if it had
 * found that alone. False: there is one, or something went wrong; what *fsck holds of this round means nothing.
 */
bool g4_fsck_check_together(struct g4_fsck *fsck);
/* Members: work for whoever is free. `entries` are copied. */
void g4_fsck_hand_out(struct g4_fsck *fsck, uint64_t dir, const struct g4_fsck_entry *entries, uint64_t count);
/* Members: a problem. Everybody stops. */
void g4_fsck_stop_team(struct g4_fsck *fsck);
/* Members have one table of links, the locked one's; also without a team. */
struct g4_fsck_table *g4_fsck_lock_links(struct g4_fsck *fsck);
void g4_fsck_unlock_links(struct g4_fsck *fsck);
/* Pages that the other members have met so far; 0 without a team. */
uint64_t g4_fsck_met_by_others(const struct g4_fsck *fsck);

/* ---- fix.c: changes of one page each, made at once ---- */
/* The page's patch, to be sealed after the change; NULL: out of memory, fatal. */
uint8_t *g4_fsck_edit(struct g4_fsck *fsck, uint64_t address);
/* Writes header and checksum of a page that is no indirect one. */
void g4_fsck_seal(struct g4_fsck *fsck, uint64_t address, uint32_t type);
/* An inode to be changed in its slab's patch; call g4_fsck_seal_inode() after. NULL: out of memory. */
struct g4_inode *g4_fsck_edit_inode(struct g4_fsck *fsck, uint64_t ino);
void g4_fsck_seal_inode(struct g4_fsck *fsck, uint64_t ino);
/* Puts right what can be told from the inode alone and the type that an entry names. False: nothing can be saved. */
bool g4_fsck_mend_inode(struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode, const struct g4_fsck_where *where);
void g4_fsck_free_slot(struct g4_fsck *fsck, uint64_t ino);
void g4_fsck_set_pointer(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_spot *spot, g4_ptr ptr);
/* Takes a pointer out of a map; what it led to is lost. */
void g4_fsck_cut(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item);
void g4_fsck_drop_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where);
void g4_fsck_retype_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t file_type);
/* The slab in a damaged page: slots that hold inodes go into a patch. 0, or `status` when there are none. */
int g4_fsck_salvage_slab(struct g4_fsck *fsck, uint64_t page, int status, struct g4_slab_header *slab);
/* An inode of a new directory, made now. */
void g4_fsck_empty_directory(struct g4_inode *inode, uint32_t permissions, uint64_t parent);
/* A root directory, empty, where mkfs puts it. */
uint64_t g4_fsck_make_root(struct g4_fsck *fsck);
bool g4_fsck_is_touched(const struct g4_fsck *fsck, uint64_t ino);

/* ---- task.c: what needs room or everybody's knowledge ---- */
void g4_fsck_add_task(struct g4_fsck *fsck, const struct g4_fsck_task *task);
void g4_fsck_do_tasks(struct g4_fsck *fsck);
/* `pages` pages in a row that nothing uses, aligned to their number; 0: there is no such room. */
uint64_t g4_fsck_find_room(struct g4_fsck *fsck, uint64_t pages);
void g4_fsck_add_name(struct g4_fsck *fsck, uint64_t dir, uint64_t ino, uint32_t file_type, const char *name);
/* Writes the orphan list anew. */
void g4_fsck_relink_orphans(struct g4_fsck *fsck);
/* Maps and descriptors as what was met says. */
void g4_fsck_rebuild_maps(struct g4_fsck *fsck);

/* ---- rebuild.c ---- */
/* Marks what can still be read of a directory as in use, so that it is not taken for lost. */
void g4_fsck_keep_directory(struct g4_fsck *fsck, uint64_t ino);
/* Finds pages of directories that nothing leads to, and whose they are. */
void g4_fsck_adopt_leaves(struct g4_fsck *fsck);
void g4_fsck_rebuild_directory(struct g4_fsck *fsck, uint64_t task);
/* Leaves whose directory is gone: a task for each with names of what nothing else names. True if there are any. */
bool g4_fsck_rescue_leaves(struct g4_fsck *fsck);

/* ---- journal.c ---- */
/*
 * The journal's problems: a damaged header, and records behind the end of the log, which only damage in between can
 * leave; says which inodes those would change.
 */
void g4_fsck_journal(struct g4_fsck *fsck, const struct g4_journal_state *journal);
/* A sequence behind all that the log holds. */
uint64_t g4_fsck_next_sequence(struct g4_image *image, const struct g4_journal_state *journal);

/* ---- write.c ---- */
/* Writes the header, if one is given, and brings the journal home with the engine's own replay. 0 or a negative code. */
int g4_fsck_replay(const struct g4_image *image, const struct g4_journal_header *header, struct g4_dev *target);
/* Writes what g4_fsck_repair() has prepared, and the superblocks. Nothing, when nothing is to be changed. */
int g4_fsck_write(struct g4_fsck *fsck, const struct g4_journal_state *journal);

/* ---- run.c ---- */
/* Runs all checks. 0, or -G4_E_NOMEM; the problems are counted in fsck->problems. */
int g4_fsck_run(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal);
/*
 * Rounds of checking and patching until a round finds nothing; fsck->found counts all problems, fsck->problems those of
 * the last round: 0 when the patches in `image` make it whole. With safe_only it stops after the first round if there is
 * more to repair than counts, maps and mirrors. Writes nothing. 0 or a negative code.
 */
int g4_fsck_repair(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal,
		   bool safe_only);
/*
 * All of a repair: opens the device, replays the journal, makes the rounds, and writes their outcome unless dry_run. The
 * image stays open for a summary (close it, also after a failure). 0, or a negative code with a sentence in message;
 * fsck->found and fsck->problems as above.
 */
struct g4_fsck_repair_options {
	bool dry_run;
	bool safe_only;
	bool force; /* also over fsck->foreign */
};
int g4_fsck_repair_device(struct g4_fsck *fsck, struct g4_image *image, const char *name,
			  const struct g4_fsck_repair_options *options, struct g4_journal_state *journal, char *message,
			  size_t bytes);
void g4_fsck_free(struct g4_fsck *fsck);

#endif
