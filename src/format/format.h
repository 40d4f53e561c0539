/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format version 1: every structure that reaches a disk. FORMAT.md draws them; this header is the authority.
 *
 * Everything is little-endian and naturally aligned. Every 4 KiB metadata page starts with struct g4_block_header
 * (an indirect page carries the same header in its pointers' spare bits, see struct g4_indirect_header). Structures
 * come with validate functions in validate.c, which check what the structure itself can say: bounds, types, counts.
 * They never dereference anything outside the page given.
 */
#ifndef G4_FORMAT_H
#define G4_FORMAT_H

#include "base/error.h"
#include "format/address.h"
#include "format/job.h"

#define G4_FORMAT_VERSION 1u
#define G4_UUID_BYTES 16
#define G4_LABEL_BYTES 64
#define G4_SET_GENERATION_MOST (UINT64_MAX >> 1) /* there is always a next one */
#define G4_MAX_DISKS 64
#define G4_NAME_MAX 255
#define G4_PATH_MAX 4096
#define G4_LINK_MAX UINT32_C(4000000000)
#define G4_FILE_MAX_BYTES ((UINT64_C(1) << 63) - 1) /* Linux's own limit, so that it is the one that refuses */
#define G4_XATTR_VALUE_MAX 65536u

/* ------------------------------------------------------------------ block pointer
 *   63                                   7   6     5      4      3      2     1 0
 *  +--------------------------------------+-----+------+------+------+------+-----+
 *  | offset, 128 B aligned                |spare|chksum| phys |valid |indir.| tag |
 *  +--------------------------------------+-----+------+------+------+------+-----+
 * When physical, the top disk_index_bits (superblock) bits of the offset are the disk's index.
 * offset != 0 with valid = 0: space is allocated but holds no data yet (fallocate): reads give zeros.
 * A pointer of 0 is a hole. The spare bit is 0 in memory; on disk it carries an indirect page's header.
 */
typedef uint64_t g4_ptr;
enum g4_tag { G4_TAG_SMALL = 0, G4_TAG_4K = 1, G4_TAG_2M = 2, G4_TAG_1G = 3 }; /* SMALL: 128 or 256 B, by superblock */
#define G4_PTR_TAG_MASK UINT64_C(0x3)
#define G4_PTR_INDIRECT (UINT64_C(1) << 2)
#define G4_PTR_VALID (UINT64_C(1) << 3)
#define G4_PTR_PHYSICAL (UINT64_C(1) << 4)
#define G4_PTR_CHECKSUM (UINT64_C(1) << 5)
#define G4_PTR_SPARE (UINT64_C(1) << 6)
#define G4_PTR_OFFSET_MASK (~UINT64_C(0x7f))

G4_FN G4_INLINE g4_ptr g4_ptr_make(struct g4_address address, uint32_t tag, uint64_t bits)
{
	return (g4_address_stored(address) & G4_PTR_OFFSET_MASK) | tag | bits | G4_PTR_PHYSICAL;
}
G4_FN G4_INLINE struct g4_address g4_ptr_address(g4_ptr ptr)
{
	return g4_address_from(ptr & G4_PTR_OFFSET_MASK);
}
/* The same with numbers: bytes of an image, for tests. */
G4_FN G4_INLINE uint64_t g4_ptr_offset(g4_ptr ptr)
{
	return ptr & G4_PTR_OFFSET_MASK;
}
G4_FN G4_INLINE g4_ptr g4_ptr_at(uint64_t offset, uint32_t tag, uint64_t bits)
{
	return g4_ptr_make(g4_address_from(offset), tag, bits);
}
G4_FN G4_INLINE uint32_t g4_ptr_tag(g4_ptr ptr)
{
	return (uint32_t)(ptr & G4_PTR_TAG_MASK);
}
/* Pages (4 KiB) that a data pointer covers. */
G4_FN G4_INLINE uint64_t g4_tag_pages(uint32_t tag)
{
	return tag == G4_TAG_2M ? 512 : tag == G4_TAG_1G ? 512 * 512 : 1;
}

/* ------------------------------------------------------------------ block header, 32 B */
#define G4_BLOCK_TYPES(X)                                                                                              \
	X(SUPERBLOCK, 1, "superblock")                                                                                 \
	X(JOURNAL_HEADER, 2, "journal header")                                                                         \
	X(JOURNAL_DESCRIPTOR, 3, "journal descriptor")                                                                 \
	X(JOURNAL_COMMIT, 4, "journal commit")                                                                         \
	X(ROOT, 5, "root block")                                                                                       \
	X(GROUPS, 6, "group descriptors")                                                                              \
	X(ALLOC, 7, "allocation map")                                                                                  \
	X(SLAB, 8, "slab")                                                                                             \
	X(INDIRECT, 9, "indirect")                                                                                     \
	X(DIR_LEAF, 10, "directory leaf")                                                                              \
	X(DIR_INDEX, 11, "directory index")                                                                            \
	X(XATTR, 12, "extended attributes")                                                                            \
	X(XATTR_VALUE, 13, "extended attribute value")                                                                 \
	X(CHECKSUMS, 14, "checksums")                                                                                  \
	X(LISTING, 15, "listing of pages")                                                                             \
	X(CHUNKS, 16, "chunks of a set")                                                                               \
	X(SHARES, 18, "shares of a group")                                                                             \
	X(OWNERS, 19, "owners of pages")                                                                               \
	X(PARITY_LOG, 20, "parity log")                                                                                \
	X(BUFFERED, 21, "buffered owners of pages")
enum g4_block_type {
	G4_BLOCK_NONE = 0,
#define G4_BLOCK_ENUM(name, number, text) G4_BLOCK_##name = (number),
	G4_BLOCK_TYPES(G4_BLOCK_ENUM)
#undef G4_BLOCK_ENUM
};
#define G4_BLOCK_MAGIC UINT32_C(0x53463447) /* "G4FS" */

struct g4_block_header {
	g4_le32 magic;
	g4_le16 type;	    /* enum g4_block_type */
	g4_le16 check;	    /* of address and generation (space/sealed.c); 0 in pages of versions before */
	g4_le32 crc32c;	    /* of the whole 4 KiB page with this field zero */
	g4_le32 fs_tag;	    /* first 4 bytes of the file system's UUID: an old file system's block is not ours */
	g4_le64 address;    /* where this page belongs */
	g4_le64 generation; /* sequence number of the transaction that wrote it */
};
G4_STATIC_ASSERT(sizeof(struct g4_block_header) == 32, "block header");

/* ------------------------------------------------------------------ superblock, 4 KiB, at 4 KiB and in the last page */
#define G4_SUPERBLOCK_ADDRESS UINT64_C(4096)
#define G4_SUPERBLOCK g4_address_from(G4_SUPERBLOCK_ADDRESS)
#define G4_MIN_DEVICE_BYTES (UINT64_C(8) << 20)
#define G4_SUPERBLOCK_MAGIC UINT64_C(0x3153463455504721) /* "!GPU4FS1" */

enum g4_sb_state { G4_STATE_CLEAN = 1, G4_STATE_MOUNTED = 2, G4_STATE_ERROR = 4 };

/* What sums of data are made by. Names are what users write. */
#define G4_CHECKSUMS(X)                                                                                                \
	X(NONE, 0, "none")                                                                                             \
	X(BLAKE3, 1, "blake3")                                                                                         \
	X(CRC32C, 2, "crc32c")                                                                                         \
	X(XXH3, 3, "xxh3")
enum g4_checksum_algorithm {
#define G4_CHECKSUM_ENUM(name, number, text) G4_CHECKSUM_##name = (number),
	G4_CHECKSUMS(G4_CHECKSUM_ENUM)
#undef G4_CHECKSUM_ENUM
		G4_CHECKSUM_COUNT,
	/* on no disk: what an entry is that is no sum of these */
	G4_CHECKSUM_LOST = 253,	  /* it was one, and stood in a page that is damaged */
	G4_CHECKSUM_LARGE = 254,  /* of a large page: it leads to others */
	G4_CHECKSUM_UNKNOWN = 255 /* of some other algorithm */
};

/*
 * Policy: how the data of a file that is written from now on is kept; a word in each inode, inherited from the directory, and
 * in the superblock. A field of 0: as the superblock says; there: off. Bits 8 to 31 are for what version 1 does not have, 0.
 */
#define G4_POLICY_CHECKSUM UINT32_C(0xf) /* 1 + enum g4_checksum_algorithm */
#define G4_POLICY_DEDUP UINT32_C(0xf0)	 /* whether pages that are there already are shared; of those with BLAKE3 */
#define G4_POLICY_DEDUP_OFF UINT32_C(0x10)
#define G4_POLICY_DEDUP_ON UINT32_C(0x20)
#define G4_POLICY_DEDUP_DOMAIN UINT32_C(0x30) /* among the files of one domain (g4_inode_domain()); of inodes alone */
#define G4_POLICY_RAID UINT32_C(0xf00)	      /* enum g4_level of the chunks that data goes to; of inodes alone */
#define G4_POLICY_RAID_SHIFT 8
#define G4_POLICY_KNOWN (G4_POLICY_CHECKSUM | G4_POLICY_DEDUP | G4_POLICY_RAID)
/* Levels of chunks that were assigned, and of files that go there. OWN: what mkfs made, and disks that were added. */
enum g4_level {
	G4_LEVEL_OWN,
	G4_LEVEL_NONE,
	G4_LEVEL_STRIPED,
	G4_LEVEL_COPIES,
	G4_LEVEL_PARITY, /* and one more for each further parity */
	G4_LEVELS = G4_LEVEL_PARITY + 4
};
/* Pools of pages: one for each level, and that of pages that no disk has (chunks without places), which nobody gets. */
#define G4_POOL_GONE G4_LEVELS
#define G4_POOLS (G4_LEVELS + 1)
/* Their words but that for OWN, in the order of their numbers. */
#define G4_LEVEL_WORDS(X) X("none") X("0") X("1") X("5") X("6") X("triple") X("quadruple")
G4_FN G4_INLINE uint32_t g4_policy_of(uint32_t algorithm)
{
	return algorithm + 1;
}

/* feature bits: unknown compat: ignored; unknown ro_compat: mount read-only; unknown incompat: refuse */
#define G4_FEATURE_INCOMPAT_HTREE (UINT64_C(1) << 0)	/* directories may have index blocks */
#define G4_FEATURE_INCOMPAT_RESIZING (UINT64_C(1) << 1) /* the root block says how large it is; the next mount looks */
#define G4_FEATURE_INCOMPAT_TAG (UINT64_C(1) << 2)	/* pages do not have the UUID's beginning as their tag */
#define G4_FEATURE_INCOMPAT_SUMS (UINT64_C(1) << 3)	/* pages of files may have sums */
#define G4_FEATURE_INCOMPAT_SHARED (UINT64_C(1) << 4)	/* pages of data may have several owners */
#define G4_FEATURE_INCOMPAT_DISKS (UINT64_C(1) << 5)	/* several disks: addresses are those of their chunks */
#define G4_FEATURE_INCOMPAT_PARITY (UINT64_C(1) << 6)	/* chunks may have parity, and a log for it */
#define G4_FEATURE_INCOMPAT_LISTED (UINT64_C(1) << 7) /* pages of data may be listed: others find them by their sums */
#define G4_FEATURE_INCOMPAT_REBUILD                                                                                    \
	(UINT64_C(1) << 8) /* a disk is being rebuilt: it has what lies before rebuild_position */
#define G4_FEATURE_INCOMPAT_DOMAINS (UINT64_C(1) << 9) /* within domains: sums of listed pages are keyed */
#define G4_FEATURE_INCOMPAT_CHUNKS                                                                                     \
	(UINT64_C(1) << 10) /* chunks were added: their table is either of two, and may be of more than total_bytes */
#define G4_FEATURE_INCOMPAT_BUFFERED (UINT64_C(1) << 11) /* owners of pages may be buffered */
/* the disk is a spare of the set, and holds nothing: no file system has it, so it is none of G4_FEATURES_INCOMPAT */
#define G4_FEATURE_INCOMPAT_SPARE (UINT64_C(1) << 12)
/* places were moved: they may be in any order on a disk, and chunks may have none */
#define G4_FEATURE_INCOMPAT_MOVED (UINT64_C(1) << 13)
#define G4_FEATURE_INCOMPAT_SHARED_MAPS                                                                                \
	(UINT64_C(1) << 14) /* indirect pages may have several owners, and be another file's: of level 1 and 2 */
#define G4_FEATURE_INCOMPAT_WHOLE (UINT64_C(1) << 15)	     /* owners may be counted for a region as a whole */
#define G4_FEATURE_INCOMPAT_ROWS (UINT64_C(1) << 16)	     /* pages of sums of a large page may have several owners */
#define G4_FEATURE_INCOMPAT_EQUAL_HASHES (UINT64_C(1) << 17) /* names of one hash may lie in several leaves */
/* What copies by reference need. */
#define G4_FEATURES_REFLINK (G4_FEATURE_INCOMPAT_SHARED | G4_FEATURE_INCOMPAT_WHOLE | G4_FEATURE_INCOMPAT_ROWS)
/* What deduplication of what is written needs. */
#define G4_FEATURES_DEDUP (G4_FEATURE_INCOMPAT_SHARED | G4_FEATURE_INCOMPAT_LISTED | G4_FEATURE_INCOMPAT_BUFFERED)
#define G4_FEATURES_COMPAT UINT64_C(0)
#define G4_FEATURES_RO_COMPAT UINT64_C(0)
#define G4_FEATURES_INCOMPAT                                                                                           \
	(G4_FEATURE_INCOMPAT_HTREE | G4_FEATURE_INCOMPAT_RESIZING | G4_FEATURE_INCOMPAT_TAG |                          \
	 G4_FEATURE_INCOMPAT_SUMS | G4_FEATURE_INCOMPAT_SHARED | G4_FEATURE_INCOMPAT_DISKS |                           \
	 G4_FEATURE_INCOMPAT_PARITY | G4_FEATURE_INCOMPAT_LISTED | G4_FEATURE_INCOMPAT_REBUILD |                       \
	 G4_FEATURE_INCOMPAT_DOMAINS | G4_FEATURE_INCOMPAT_CHUNKS | G4_FEATURE_INCOMPAT_BUFFERED |                     \
	 G4_FEATURE_INCOMPAT_MOVED | G4_FEATURE_INCOMPAT_SHARED_MAPS | G4_FEATURE_INCOMPAT_WHOLE |                     \
	 G4_FEATURE_INCOMPAT_ROWS | G4_FEATURE_INCOMPAT_EQUAL_HASHES)
/* What copies of large files need: with all of them shared indirect pages can be written (docs/design/deduplication.md). */
#define G4_FEATURES_REFLINK_MAPS (G4_FEATURES_REFLINK | G4_FEATURE_INCOMPAT_SHARED_MAPS | G4_FEATURE_INCOMPAT_BUFFERED)
/* Those that a mounted file system adds when it first needs them: what is made anew says that they may be needed. */
#define G4_FEATURES_ADDED                                                                                              \
	(G4_FEATURE_INCOMPAT_SUMS | G4_FEATURES_DEDUP | G4_FEATURES_REFLINK | G4_FEATURE_INCOMPAT_DOMAINS |            \
	 G4_FEATURE_INCOMPAT_EQUAL_HASHES)

struct g4_superblock {
	struct g4_block_header header;
	g4_le64 magic;
	g4_le32 version;
	g4_le32 state;
	g4_le64 features_compat;
	g4_le64 features_ro_compat;
	g4_le64 features_incompat;
	uint8_t uuid[G4_UUID_BYTES];
	uint8_t label[G4_LABEL_BYTES]; /* zero-padded UTF-8 */
	g4_le64 size_bytes;	       /* of this disk's part, a multiple of 4 KiB */
	g4_le64 total_bytes;	       /* of the file system */
	g4_le64 journal_address;       /* journal header page; the log follows */
	g4_le64 journal_bytes;	       /* header included */
	g4_le64 groups_address;	       /* group descriptor pages */
	g4_le64 alloc_address;	       /* allocation map pages, one a group */
	g4_le64 group_count;
	g4_le64 data_address; /* first page that is not part of the fixed area */
	g4_le64 root_address; /* the root block */
	g4_le64 created_ns;
	g4_le64 mounted_ns; /* last mount */
	g4_le64 written_ns; /* last superblock write */
	g4_le64 mount_count;
	g4_le64 hash_key[2]; /* SipHash key of directory hashes */
	g4_le32 inode_bytes; /* 256 (128 is reserved for a later version) */
	g4_le32 small_bytes; /* 256: size of a small block */
	g4_le32 policy;	     /* of files and directories that have none of their own */
	g4_le32 disk_count;
	g4_le32 disk_index;
	g4_le32 disk_index_bits;
	g4_le64 dedup_quota;	  /* bytes that pages of sums of listed pages may take; 0: no limit */
	g4_le64 chunk_tree_root;  /* 0 */
	g4_le64 chunk_list_head;  /* with G4_FEATURE_INCOMPAT_DISKS: the first page of chunks, the same on each disk */
	g4_le32 metadata_tag;	  /* with G4_FEATURE_INCOMPAT_TAG: fs_tag of all pages */
	g4_le32 parity_log_bytes; /* with G4_FEATURE_INCOMPAT_PARITY: of each disk, from 1 MiB on */
	uint8_t reserved[296];
	uint8_t disk_uuids[G4_MAX_DISKS][G4_UUID_BYTES]; /* in order of the disks' indices */
	/* with G4_FEATURE_INCOMPAT_DISKS, else 0 */
	g4_le64 set_generation; /* raised when a disk misses writes from then on, or has caught up */
	g4_le32 chunk_count;
	g4_le32 copies;			    /* of everything, or of what has no parity */
	g4_le64 disk_bytes[G4_MAX_DISKS];   /* what is used of each, a multiple of 4 KiB */
	g4_le64 disk_since[G4_MAX_DISKS];   /* 0, or the set_generation since which it has missed writes */
	g4_le64 disk_mended[G4_MAX_DISKS];  /* pages of it that were not what was written and came from another copy */
	g4_le64 disk_damaged[G4_MAX_DISKS]; /* pages of it that were met damaged, and no copy was right */
	/* with G4_FEATURE_INCOMPAT_REBUILD, else 0 */
	g4_le64 rebuild_position; /* an address on that disk: what it has before is as it should be */
	g4_le32 rebuild_disk;	  /* 1 + the index of the one that is being rebuilt */
	g4_le32 reserved1;
	/* with G4_FEATURE_INCOMPAT_DISKS: a bit for each disk that is not used because an order said so: no spare takes its place */
	g4_le64 disk_by_hand;
	uint8_t tail[360];
};
G4_STATIC_ASSERT(sizeof(struct g4_superblock) == 4096, "superblock");
G4_STATIC_ASSERT(offsetof(struct g4_superblock, rebuild_position) == 3712, "superblock");
G4_STATIC_ASSERT(offsetof(struct g4_superblock, disk_by_hand) == 3728, "superblock");
G4_STATIC_ASSERT(offsetof(struct g4_superblock, disk_bytes) == 1664, "superblock");

/* ------------------------------------------------------------------ chunks: what lies where on several disks */
#define G4_CHUNK_PLACES 11u
#define G4_COPIES_MAX G4_CHUNK_PLACES
#define G4_CHUNKS_PER_PAGE 30u
#define G4_CHUNKS_MAX 2048u
#define G4_CHUNKS_ADDRESS UINT64_C(8192) /* of the first page of chunks, on each disk */
/*
 * With G4_FEATURE_INCOMPAT_CHUNKS the table is there or here, behind the longest that fits there: which, chunk_list_head
 * says.
 */
#define G4_CHUNKS_SECOND                                                                                               \
	(G4_CHUNKS_ADDRESS + (G4_CHUNKS_MAX + G4_CHUNKS_PER_PAGE - 1) / G4_CHUNKS_PER_PAGE * UINT64_C(4096))
#define G4_CHUNK_UNIT (UINT64_C(1) << 20) /* places begin at multiples of it, not at 0 */
#define G4_STRIPE_MIN (UINT64_C(16) << 10)
#define G4_STRIPE_MAX G4_CHUNK_UNIT

/*
 * A piece of the address space: columns, each of which has `copies` places on as many disks. Its stripes go to the columns in
 * turn. Place c of column k is places[k * copies + c]. With parity the last `parity` columns are that, and copies is 1; column
 * c of stripe s is in places[(c + s) % columns] then.
 */
struct g4_chunk {
	g4_le64 address;
	g4_le64 bytes;	      /* columns * place_bytes, without the columns of parity */
	g4_le64 place_bytes;  /* a multiple of G4_CHUNK_UNIT; of rows that are gone of G4_GONE_ROWS_UNIT */
	g4_le32 stripe_bytes; /* a power of 2; 0 with one column */
	g4_le16 columns;
	g4_le16 copies;
	g4_le16 parity; /* at most 4 */
	g4_le16 level;	/* enum g4_level: OWN, or what it was assigned as, which it is then */
	g4_le16 reserved[2];
	g4_le64 places[G4_CHUNK_PLACES]; /* the address on the disk, and in the low 6 bits the disk's index */
};
G4_STATIC_ASSERT(sizeof(struct g4_chunk) == 128, "chunk");
#define G4_GONE_ROWS_UNIT (UINT64_C(8) << 20) /* a bit of the parity log's map each */
G4_FN G4_INLINE uint32_t g4_place_disk(uint64_t place)
{
	return (uint32_t)(place & (G4_MAX_DISKS - 1));
}
G4_FN G4_INLINE uint64_t g4_place_address(uint64_t place)
{
	return place & ~(uint64_t)(G4_MAX_DISKS - 1);
}

/*
 * Pages of the parity log: its header, page 0; descriptors of entries, behind which stand their pages; at its end the map,
 * which has bits in the place of slots.
 */
enum g4_parity_log_kind {
	G4_PARITY_LOG_HEADER = 1,
	G4_PARITY_LOG_PAGES = 2,
	G4_PARITY_LOG_MARK = 3,
	G4_PARITY_LOG_MAP = 4
};
#define G4_PARITY_LOG_SLOTS 252u
#define G4_PARITY_MARK_TELLS 1u
#define G4_PARITY_MARK_ENDED 4u
struct g4_parity_slot {
	/*
	 * PAGES: where the page belongs, as in a chunk; MARK: of slot 0 chunk << 40 | which 8 MiB of its places, of slot 1 which parts; if slot 2 has
	 * G4_PARITY_MARK_TELLS slot 3 has those of them where pages may have been in use, else all may. Then pairs from slot G4_PARITY_MARK_ENDED on, up to one
	 * without parts: of which 8 MiB those where pages were said to be in use before, and what was written there is durable since
	 */
	g4_le64 place;
	g4_le32 crc32c; /* of the page */
	g4_le32 reserved;
};
G4_STATIC_ASSERT(sizeof(struct g4_parity_slot) == 16, "parity slot");
struct g4_parity_log {
	struct g4_block_header
		header; /* address: on the disk; generation: number of the entry in its epoch, from 1 on */
	g4_le64 epoch;
	g4_le32 kind;
	g4_le32 count; /* of PAGES and MARK, slots that are used; of MAP, which page of it this is */
	uint8_t reserved[16];
	struct g4_parity_slot slots[G4_PARITY_LOG_SLOTS];
};
G4_STATIC_ASSERT(sizeof(struct g4_parity_log) == 4096, "parity log");

struct g4_chunks_page {
	struct g4_block_header header; /* address: on the disk */
	g4_le32 first;		       /* number of the first chunk here */
	g4_le32 count;
	uint8_t reserved[216];
	struct g4_chunk chunks[G4_CHUNKS_PER_PAGE];
};
G4_STATIC_ASSERT(sizeof(struct g4_chunks_page) == 4096, "chunks");

/* ------------------------------------------------------------------ root block: the journaled roots */
struct g4_root {
	struct g4_block_header header;
	g4_le64 root_inode;  /* g4_ptr of the root directory */
	g4_le64 orphan_head; /* g4_ptr of the first orphan inode, 0: none; linked through g4_inode.orphan_next */
	g4_le64 ddt_root;
	g4_le64 ddt_directory;
	g4_le64 size_bytes;    /* of the file system, by the last resize that was committed; 0: never resized */
	g4_le64 damaged_pages; /* met since mkfs, not always different ones; see struct g4_finding for which */
	g4_le64 job_count;     /* jobs started since mkfs */
	g4_le64 findings_lost; /* of the last scrub: those that there was no room for */
	g4_le64 domains;       /* of deduplication that were made: the highest number of one */
	g4_le64 reserved[19];
	struct g4_job_record jobs[G4_JOBS];
	struct g4_finding findings[G4_FINDINGS]; /* of the last scrub */
	g4_le64 reserved1[64];
};
G4_STATIC_ASSERT(sizeof(struct g4_root) == 4096, "root block");
G4_STATIC_ASSERT(offsetof(struct g4_root, jobs) == 256, "jobs");

/* ------------------------------------------------------------------ space
 * A region is 512 pages = 2 MiB. A group is 31 regions, described by one allocation map page and one descriptor.
 */
#define G4_REGION_PAGES 512u
#define G4_REGION_BYTES (UINT64_C(2) << 20)
#define G4_GROUP_REGIONS 31u
#define G4_GROUP_PAGES (G4_GROUP_REGIONS * G4_REGION_PAGES)
#define G4_GROUP_BYTES (G4_GROUP_REGIONS * G4_REGION_BYTES)
#define G4_GROUPS_PER_PAGE 504u
G4_FN G4_INLINE bool g4_address_starts_region(struct g4_address address)
{
	return g4_address_stored(address) % G4_REGION_BYTES == 0;
}

struct g4_region { /* 128 B; bit i of word i / 64: page i of the region */
	g4_le64 used[8];
	g4_le64 slab[8]; /* page is a slab with at least one free slot */
};
struct g4_alloc_page {
	struct g4_block_header header;
	g4_le64 group;
	g4_le64 shares; /* address of the group's struct g4_shares_page; 0: each page has one owner at most */
	uint8_t reserved[80];
	struct g4_region regions[G4_GROUP_REGIONS];
};
G4_STATIC_ASSERT(sizeof(struct g4_alloc_page) == 4096, "allocation map page");

#define G4_GROUP_INITIALISED 1u /* its allocation map page was written; otherwise all its pages are free */
struct g4_group_descriptor {
	g4_le16 free_pages;
	g4_le16 slabs; /* bits set in all its regions' slab maps */
	g4_le16 flags;
	g4_le16 reserved;
};
struct g4_groups_page {
	struct g4_block_header header;
	g4_le64 first_group;
	uint8_t reserved[24];
	struct g4_group_descriptor groups[G4_GROUPS_PER_PAGE];
};
G4_STATIC_ASSERT(sizeof(struct g4_groups_page) == 4096, "group descriptor page");

/* A slab: a page cut into 256 B slots; slot 0 is its header. Inodes and small blocks live in slabs. */
#define G4_SLAB_SLOT_BYTES 256u
#define G4_SLAB_SLOTS 16u
/* Which slot of its slab an address is. */
G4_FN G4_INLINE uint32_t g4_slab_slot_of(struct g4_address address)
{
	return (uint32_t)(g4_address_stored(address) % G4_PAGE_BYTES / G4_SLAB_SLOT_BYTES);
}
enum g4_slab_kind { G4_SLAB_INODES = 1, G4_SLAB_SMALL = 2 };
struct g4_slab_header {
	struct g4_block_header header;
	g4_le32 kind;
	g4_le16 used; /* bit i: slot i is in use; bit 0 always set */
	uint8_t reserved[218];
};
G4_STATIC_ASSERT(sizeof(struct g4_slab_header) == 256, "slab header");

/* ------------------------------------------------------------------ inode, 256 B; its number is its g4_ptr */
#define G4_MAP_SLOTS 16u
#define G4_INLINE_BYTES 128u
#define G4_INDIRECT_SLOTS 512u
#define G4_MAP_MAX_HEIGHT 6u /* 16 * 512^6 pages > 2^63 bytes */

#define G4_INODE_INLINE (1u << 0)    /* contents are in inline_data, size <= 128 */
#define G4_INODE_IMMUTABLE (1u << 1) /* chattr +i */
#define G4_INODE_APPEND (1u << 2)    /* chattr +a */
#define G4_INODE_NODUMP (1u << 3)
#define G4_INODE_NOATIME (1u << 4)
#define G4_INODE_ORPHAN (1u << 5)      /* on the orphan list */
#define G4_INODE_SUMS_INLINE (1u << 6) /* map[] is struct g4_few_pages */
#define G4_INODE_GAP (1u << 7)	       /* `parent` pages from page `rdev` on go, and what is behind them moves down */
#define G4_INODE_SHARES_MAP (1u << 8)  /* its indirect pages may have other owners, and another maker */
#define G4_INODE_KNOWN ((1u << 9) - 1)

struct g4_sum_entry { /* of a page: "sums of pages" below */
	union {
		uint8_t bytes[32];
		g4_le64 words[4]; /* so that it is copied and compared by words */
	};
};
#define G4_FEW_PAGES 3u
struct g4_few_pages { /* the map of a file of so many pages, at height 0, with their sums */
	g4_le64 map[G4_FEW_PAGES];
	g4_le64 reserved;
	struct g4_sum_entry sums[G4_FEW_PAGES];
};
G4_STATIC_ASSERT(sizeof(struct g4_few_pages) == G4_INLINE_BYTES, "all of a map");

struct g4_inode {
	g4_le16 mode; /* S_IFMT and permission bits as in stat(2) */
	uint8_t map_height;
	uint8_t reserved0;
	g4_le32 flags;
	g4_le32 uid;
	g4_le32 gid;
	g4_le64 size;
	g4_le64 pages; /* allocated 4 KiB pages, mapping and attributes included */
	g4_le32 nlink;
	g4_le32 generation; /* guards against reuse of the number */
	g4_le64 atime_ns;   /* signed, since 1970-01-01 UTC */
	g4_le64 mtime_ns;
	g4_le64 ctime_ns;
	g4_le64 btime_ns;
	g4_le64 rdev;	      /* Linux dev_t of device files; G4_INODE_GAP: where it is; directories: domain */
	g4_le64 parent;	      /* directories: number of the parent; the root is its own. G4_INODE_GAP: its pages */
	g4_le64 xattr;	      /* g4_ptr of the first attribute page, 0: none */
	g4_le64 checksums;    /* address of the block of sums of map[], two slots of a slab; 0: none */
	g4_le64 orphan_next;  /* g4_ptr */
	g4_le64 change_count; /* grows with every change of the inode or its contents */
	g4_le32 entries;      /* directories: names in it, without . and ..; others: domain */
	g4_le32 policy;	      /* how data is kept that is written from now on; inherited */
	union {
		g4_le64 map[G4_MAP_SLOTS]; /* each slot covers 512^map_height pages */
		struct g4_few_pages few;   /* G4_INODE_SUMS_INLINE */
		uint8_t inline_data[G4_INLINE_BYTES];
	};
};
G4_STATIC_ASSERT(sizeof(struct g4_inode) == 256, "inode");
G4_STATIC_ASSERT(offsetof(struct g4_inode, map) == 128, "inode map");
/* The domain of deduplication, with G4_POLICY_DEDUP_DOMAIN in the policy; else 0. */
G4_FN G4_INLINE uint64_t g4_inode_domain(const struct g4_inode *inode)
{
	if ((inode->policy & G4_POLICY_DEDUP) != G4_POLICY_DEDUP_DOMAIN)
		return 0;
	return (inode->mode & G4_S_IFMT) == G4_S_IFDIR ? (uint64_t)inode->rdev : (uint64_t)inode->entries;
}
/* After the mode; of no directory beyond 32 bits. */
G4_FN G4_INLINE void g4_inode_set_domain(struct g4_inode *inode, uint64_t domain)
{
	if ((inode->mode & G4_S_IFMT) == G4_S_IFDIR)
		inode->rdev = domain;
	else
		inode->entries = (uint32_t)domain;
}
/* How many of map[] are pointers. */
G4_FN G4_INLINE uint32_t g4_inode_slots(const struct g4_inode *inode)
{
	return inode->flags & G4_INODE_SUMS_INLINE ? G4_FEW_PAGES : G4_MAP_SLOTS;
}

/* ------------------------------------------------------------------ indirect page: 512 pointers, nothing else
 * Its header is spread over the pointers' spare bits: bit b of the header (byte b / 8, bit b % 8) is the spare bit of
 * pointer b. In memory the spare bits are clear. A quarter of its slots whose pages have sums has a page of sums, anywhere.
 */
#define G4_SUMS_SLOTS 128u /* of an indirect page, that have their sums in one page */
#define G4_SUMS_QUARTERS (G4_INDIRECT_SLOTS / G4_SUMS_SLOTS)
struct g4_sums_places {			       /* where the pages of sums of an indirect page are: 40 bits each */
	uint8_t distance[G4_SUMS_QUARTERS][5]; /* signed pages from the indirect page; 0: there is none */
};
struct g4_indirect_header {
	struct g4_block_header header;
	g4_le64 inode;	  /* number of the inode it was made for; with G4_INODE_SHARES_MAP others lead to it, too */
	uint8_t level;	  /* 1: points to data pages */
	uint8_t below[3]; /* of level 2 with several owners: the pages of a file from this one down; else 0 */
	struct g4_sums_places sums;
};
G4_STATIC_ASSERT(sizeof(struct g4_indirect_header) == 64, "indirect header");

/* ------------------------------------------------------------------ sums of pages
 * 32 bytes beside each slot of a map. The top four bits of the last byte belong to the page that they stand in: its header, as in
 * an indirect page. An entry of zeros: no sum. BLAKE3 has bits 0 to 250 and bit 251 set; others have a number in bits 243 to 250
 * (1 CRC-32C, 2 XXH3-128) and their sum in the lowest bits; the rest is 0. With 255 there it is that of a page of 2 MiB or 1 GiB: bits
 * 0 to 50 have the number of the first of four pages of sums in a row, those of its parts, and bits 51 to 242 a hash of 48 bits of each.
 */
struct g4_sums_header {
	struct g4_block_header header;
	g4_le64 inode;
	g4_le32 level;	 /* of the indirect page, or of the one that a large page stands for */
	g4_le32 quarter; /* of its slots */
	uint8_t reserved[16];
};
G4_STATIC_ASSERT(sizeof(struct g4_sums_header) * 2 == G4_SUMS_SLOTS, "four bits of each entry");
struct g4_sums_page {
	struct g4_sum_entry entries[G4_SUMS_SLOTS];
};
G4_STATIC_ASSERT(sizeof(struct g4_sums_page) == 4096, "page of sums");
/* The sums of the slots in an inode: two slots of a slab of small blocks, which gives out no single ones. */
struct g4_sums_block {
	struct g4_sum_entry entries[G4_MAP_SLOTS];
};
G4_STATIC_ASSERT(sizeof(struct g4_sums_block) == 2 * G4_SLAB_SLOT_BYTES, "block of sums");

/* ------------------------------------------------------------------ directories
 * A directory is a tree of 4 KiB pages; map[0] of the inode points to its root: a leaf (small directory) or an index page
 * of the H-tree. The other slots are 0.
 */
#define G4_DIR_UNITS 256u
#define G4_DIR_UNIT_BYTES 16u
#define G4_DIR_HEADER_UNITS 4u
struct g4_dir_entry { /* 16 B and the name; takes as many 16 B units as it needs */
	g4_le64 inode;
	g4_le32 hash;	   /* low 32 bits of SipHash-1-3 of the name */
	g4_le16 collision; /* tells entries of equal hash apart: the readdir cookie is (hash, collision) */
	uint8_t name_bytes;
	uint8_t file_type; /* DT_* */
};
G4_STATIC_ASSERT(sizeof(struct g4_dir_entry) == 16, "directory entry");
struct g4_dir_leaf {
	struct g4_block_header header;
	g4_le64 used[4]; /* bit u: unit u is in use; the header's units are set */
	uint8_t units[(G4_DIR_UNITS - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
};
G4_STATIC_ASSERT(sizeof(struct g4_dir_leaf) == 4096, "directory leaf");

#define G4_DIR_INDEX_ENTRIES 252u
struct g4_dir_index_entry { /* covers positions from (hash, collision) on, up to the next entry's */
	g4_le32 hash;
	g4_le32 collision; /* below 2^16; 0 without G4_FEATURE_INCOMPAT_EQUAL_HASHES */
	g4_le64 page;	   /* address of the child page */
};
struct g4_dir_index {
	struct g4_block_header header;
	g4_le32 count;
	g4_le32 level; /* 1: points to leaves */
	uint8_t reserved[24];
	struct g4_dir_index_entry
		entries[G4_DIR_INDEX_ENTRIES]; /* sorted by position; that of the first is the page's bound */
};
G4_STATIC_ASSERT(sizeof(struct g4_dir_index) == 4096, "directory index");
#define G4_DIR_MAX_LEVEL 3u

/* ------------------------------------------------------------------ extended attributes
 * A chain of pages of packed records, each 8 B aligned: header, name (without prefix), value or value pointer.
 */
enum g4_xattr_space {
	G4_XATTR_USER = 1,
	G4_XATTR_TRUSTED = 2,
	G4_XATTR_SECURITY = 3,
	G4_XATTR_ACL_ACCESS = 4,  /* system.posix_acl_access, empty name */
	G4_XATTR_ACL_DEFAULT = 5, /* system.posix_acl_default, empty name */
};
#define G4_XATTR_EXTERNAL 1u /* the value is in a chain of value pages; the record holds its g4_ptr */
#define G4_XATTR_INLINE_MAX 1024u
struct g4_xattr_record {
	g4_le16 record_bytes; /* multiple of 8, this header included */
	uint8_t space;
	uint8_t flags;
	uint8_t name_bytes;
	uint8_t reserved[3];
	g4_le32 value_bytes;
	g4_le32 reserved1;
};
G4_STATIC_ASSERT(sizeof(struct g4_xattr_record) == 16, "xattr record");
#define G4_XATTR_PAYLOAD 4032u
struct g4_xattr_page { /* also the layout of value pages */
	struct g4_block_header header;
	g4_le64 next;  /* g4_ptr, 0: last */
	g4_le64 inode; /* owner */
	g4_le32 bytes; /* of payload in use */
	uint8_t reserved[12];
	uint8_t payload[G4_XATTR_PAYLOAD];
};
G4_STATIC_ASSERT(sizeof(struct g4_xattr_page) == 4096, "xattr page");

/* ------------------------------------------------------------------ journal
 * Page 0 of the area is the header; the log of journal_bytes / 4096 - 1 pages is circular and starts at page 1. A
 * record is: descriptor pages, block images in the descriptor's order, one commit page. The commit's crc covers all.
 * The last record of the log counts only when the data pages it names have the checksums it names: that lets a small
 * commit make data and journal durable with one flush.
 */
struct g4_journal_header {
	struct g4_block_header header;
	g4_le64 tail_sequence; /* of the oldest record that may not be home yet */
	g4_le64 tail_page;     /* where it starts, as an index into the log */
	uint8_t reserved[4048];
};
G4_STATIC_ASSERT(sizeof(struct g4_journal_header) == 4096, "journal header");
#define G4_JOURNAL_TAGS 504u
struct g4_journal_descriptor {
	struct g4_block_header header; /* address: the page's own; generation: the sequence */
	g4_le64 sequence;
	g4_le32 block_count;  /* images in this record */
	g4_le32 revoke_count; /* addresses whose older images must not be replayed; after the tags */
	g4_le32 page_index;   /* of this descriptor page in the record */
	g4_le32 page_count;   /* descriptor pages in the record, at least what the tags need */
	g4_le32 data_count;   /* data pages that this record relies on and that were not flushed before it */
	g4_le32 reserved;
	/* home addresses, revoked addresses, data pages as (address, crc32c) pairs; continued over the pages */
	g4_le64 tags[G4_JOURNAL_TAGS];
};
G4_STATIC_ASSERT(sizeof(struct g4_journal_descriptor) == 4096, "journal descriptor");
struct g4_journal_commit {
	struct g4_block_header header;
	g4_le64 sequence;
	g4_le64 record_pages;  /* this one included */
	g4_le32 record_crc32c; /* of all pages before this one */
	g4_le32 reserved0;
	g4_le64 time_ns;
	uint8_t reserved[4032];
};
G4_STATIC_ASSERT(sizeof(struct g4_journal_commit) == 4096, "journal commit");

/* ------------------------------------------------------------------ layout and validation (format.c, validate.c) */
struct g4_layout; /* format/layout.h */
/* What all pages of the file system have as fs_tag. */
G4_FN uint32_t g4_superblock_tag(const struct g4_superblock *sb);
/* Gives a superblock another size: what follows from it follows. -G4_E_SB_GEOMETRY: it has no room for that. */
G4_FN int g4_superblock_resize(struct g4_superblock *sb, uint64_t size_bytes);
/*
 * The newest transaction that is home for certain, as are all before it; 0: the superblock does not tell. It is written
 * when the log is empty, at mount and unmount; only an unmount that failed writes one while the log may hold more.
 */
G4_FN uint64_t g4_superblock_home(const struct g4_superblock *sb);
/* Of two copies with right checksums: whether they are of one file system and the second was written later. */
G4_FN bool g4_superblock_is_newer(const struct g4_superblock *first, const struct g4_superblock *second);
/* Checks a superblock whose checksum is right against the device it came from. */
G4_FN int g4_superblock_validate(const struct g4_superblock *sb, uint64_t device_bytes);

G4_FN void g4_indirect_embed(g4_le64 *slots, const struct g4_indirect_header *header);
G4_FN void g4_indirect_extract(const g4_le64 *slots, struct g4_indirect_header *header);
G4_FN void g4_indirect_strip(g4_le64 *slots);
/* Only the part of the header that says where the pages of sums are; the rest of the spare bits stay. */
G4_FN void g4_indirect_embed_places(g4_le64 *slots, const struct g4_sums_places *places);
/* The same of the part that says how many pages of a file there are from it down. */
G4_FN void g4_indirect_embed_below(g4_le64 *slots, uint32_t pages);
/* Whether a policy, of an inode or a superblock, says nothing but what this version knows. */
G4_FN bool g4_policy_is_known(uint32_t policy);
/* What pages get by a file's policy and the superblock's: enum g4_checksum_algorithm, UNKNOWN where one is not known. */
G4_FN uint32_t g4_policy_checksum(uint32_t policy, uint32_t super);
/* Whether they say that pages are shared with what is there. */
G4_FN bool g4_policy_dedup(uint32_t policy, uint32_t super);

/* Each: 0 or the negative code of the structure. The page's checksum was verified before. */
G4_FN int g4_inode_validate(const struct g4_inode *inode, const struct g4_layout *layout);
/* Whether what an inode says of a gap (G4_INODE_GAP) can be; true where it says nothing. */
G4_FN bool g4_inode_gap_is_possible(const struct g4_inode *inode);
G4_FN int g4_ptr_validate(g4_ptr ptr, const struct g4_layout *layout); /* a non-zero data or indirect pointer */
G4_FN int g4_slab_validate(const struct g4_slab_header *slab);
/* Whether a block of sums lies so many bytes behind a slab's beginning. */
G4_FN bool g4_sums_block_is_used(const struct g4_slab_header *slab, uint32_t offset);
G4_FN int g4_dir_leaf_validate(const struct g4_dir_leaf *leaf, const struct g4_layout *layout);
G4_FN int g4_dir_index_validate(const struct g4_dir_index *index, uint64_t dir_pages);
G4_FN int g4_xattr_page_validate(const struct g4_xattr_page *page, const struct g4_layout *layout);
G4_FN int g4_alloc_page_validate(const struct g4_alloc_page *page, uint64_t group);
/* Whether a job can be gone on with. One that is empty can. */
G4_FN bool g4_job_is_valid(const struct g4_job_record *job);
G4_FN bool g4_finding_is_valid(const struct g4_finding *finding);
G4_FN int g4_groups_page_validate(const struct g4_groups_page *page, uint64_t first_group, uint64_t group_count);

/* An inode number that can exist: canonical flag bits, inside the data area, on a slot boundary, not slot 0. */
G4_FN bool g4_ino_plausible(uint64_t ino, const struct g4_layout *layout);
G4_FN G4_INLINE uint64_t g4_ino_make(struct g4_address address)
{
	return g4_ptr_make(address, G4_TAG_SMALL, G4_PTR_VALID);
}
/* Of the inode in a slot of a slab. */
G4_FN G4_INLINE uint64_t g4_ino_of_slot(struct g4_address slab, uint32_t slot)
{
	return g4_ino_make(g4_address_after(slab, slot * G4_SLAB_SLOT_BYTES));
}
G4_FN G4_INLINE uint64_t g4_ino_at(uint64_t offset)
{
	return g4_ptr_at(offset, G4_TAG_SMALL, G4_PTR_VALID);
}

const char *g4_block_type_name(uint32_t type); /* host only */
/* As users write it; "unknown": it is none. Host only. */
const char *g4_checksum_name(uint32_t algorithm);

#endif
