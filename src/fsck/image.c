/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an image and reading its pages through a small cache of 64 KiB chunks. */
#include "fsck/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory_host.h"
#include "fs/mkfs_host.h"
#include "fsck/copies.h"
#include "journal/block.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define CACHE_SETS 128u
#define SHARED_CACHE_SETS 4u
#define CACHE_WAYS 8u
#define ONCE CACHE_SETS /* the set of what is read once: one chunk */
#define NO_CHUNK UINT64_MAX
#define CHUNK_PAGES (G4_CHUNK_BYTES / G4_PAGE_BYTES)

struct g4_chunk_cache {	 /* least recently used of a set's ways is replaced */
	uint8_t *memory; /* of all chunks, in huge pages: ONCE, then by ways, so that a small image needs few */
	uint64_t chunk[CACHE_SETS + 1][CACHE_WAYS];
	uint64_t used_at[CACHE_SETS + 1][CACHE_WAYS];
	uint32_t damaged[CACHE_SETS + 1][CACHE_WAYS]; /* bits of pages, as g4_image_read_copies() tells */
	uint64_t clock;
	uint32_t sets;	 /* in use */
	uint8_t *single; /* a page of a chunk that can not be read as a whole */
};

/* ------------------------------------------------------------------ pages */

static uint64_t memory_bytes(const struct g4_chunk_cache *cache)
{
	return ((uint64_t)cache->sets * CACHE_WAYS + 1) * G4_CHUNK_BYTES;
}

static uint8_t *data_of(const struct g4_chunk_cache *cache, uint32_t set, uint32_t way)
{
	return cache->memory + (set == ONCE ? 0 : (uint64_t)way * cache->sets + set + 1) * G4_CHUNK_BYTES;
}

static struct g4_chunk_cache *cache_create(uint32_t sets)
{
	struct g4_chunk_cache *cache = calloc(1, sizeof(*cache));

	if (cache == NULL)
		return NULL;
	cache->sets = sets;
	cache->memory = (uint8_t *)g4_memory_map(memory_bytes(cache));
	cache->single = cache->memory == NULL ? NULL : aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	memset(cache->chunk, 0xff, sizeof(cache->chunk));
	return cache;
}

static void cache_destroy(struct g4_chunk_cache *cache)
{
	if (cache == NULL)
		return;
	g4_memory_unmap(cache->memory, memory_bytes(cache));
	free(cache->single);
	free(cache);
}

static uint32_t victim_of(const struct g4_chunk_cache *cache, uint32_t set)
{
	uint32_t oldest = 0;

	for (uint32_t way = 1; way < CACHE_WAYS; way++) {
		if (cache->used_at[set][way] < cache->used_at[set][oldest])
			oldest = way;
	}
	return oldest;
}

/* The chunk's memory, and which of its pages are damaged in a copy; reads it when it is not there. */
static int get_chunk(struct g4_image *image, uint64_t chunk, const uint8_t **data, uint32_t *damaged)
{
	struct g4_chunk_cache *cache = image->cache;
	uint32_t set = (uint32_t)((chunk ^ chunk >> 7) % cache->sets), way = 0;

	while (way < CACHE_WAYS && cache->chunk[set][way] != chunk)
		way++;
	if (way == CACHE_WAYS && image->once) {
		set = ONCE;
		way = 0;
	}
	if (way == CACHE_WAYS || cache->chunk[set][way] != chunk) {
		way = set == ONCE ? 0 : victim_of(cache, set);
		const uint64_t start = chunk * G4_CHUNK_BYTES;
		const uint64_t bytes =
			g4_min64(G4_CHUNK_BYTES, g4_align_down(image->device_bytes, G4_PAGE_BYTES) - start);
		cache->chunk[set][way] = NO_CHUNK;
		const int status = g4_image_read_copies(image, g4_address_from(start), data_of(cache, set, way), bytes,
							&cache->damaged[set][way]);
		if (status < 0)
			return status;
		cache->chunk[set][way] = chunk;
	}
	cache->used_at[set][way] = ++cache->clock;
	*data = data_of(cache, set, way);
	*damaged = cache->damaged[set][way];
	return 0;
}

/* What was read before the tag of its pages was known may be the wrong copy. */
static void forget_chunks(struct g4_image *image)
{
	memset(image->cache->chunk, 0xff, sizeof(image->cache->chunk));
}

static bool is_page(const struct g4_image *image, struct g4_address address)
{
	return g4_address_starts_page(address) && g4_address_page(address) < image->device_bytes / G4_PAGE_BYTES;
}

int g4_image_raw_page(struct g4_image *image, struct g4_address address, const void **page)
{
	const uint8_t *data;
	uint32_t damaged;

	image->differs = false;
	if (!is_page(image, address))
		return -G4_E_DEV_RANGE;
	const uint64_t chunk = g4_address_page(address) / CHUNK_PAGES, inside = g4_address_page(address) % CHUNK_PAGES;
	if (get_chunk(image, chunk, &data, &damaged) == 0) {
		*page = data + inside * G4_PAGE_BYTES;
		image->differs = (damaged >> inside & 1) != 0;
		return 0;
	}
	/* One bad sector must not take its neighbours away. */
	const int status = g4_image_read_copies(image, address, image->cache->single, G4_PAGE_BYTES, &damaged);
	image->differs = status == 0 && damaged != 0;
	*page = image->cache->single;
	return status < 0 ? status : 0;
}

int g4_image_copy_page(struct g4_image *image, uint32_t copy, struct g4_address address, const void **page)
{
	if (image->buffer == NULL)
		return g4_image_raw_page(image, address, page);
	image->differs = false;
	if (!is_page(image, address))
		return -G4_E_DEV_RANGE;
	*page = image->cache->single;
	return g4_space_read_copy(image->wg, &image->space, copy, address, image->cache->single, G4_PAGE_BYTES);
}

/* What was read last is good metadata, and belongs at `address`. */
static void note_copies(struct g4_image *image, struct g4_address address)
{
	if (!image->differs ||
	    (image->damaged_count > 0 && g4_address_is(image->damaged[image->damaged_count - 1], address)))
		return;
	if (image->damaged_count == image->damaged_room) {
		const uint64_t room = image->damaged_room == 0 ? 64 : 2 * image->damaged_room;
		struct g4_address *larger = realloc(image->damaged, room * sizeof(*larger));
		if (larger == NULL)
			return; /* a check without memory ends elsewhere; the next one finds it again */
		image->damaged = larger;
		image->damaged_room = room;
	}
	image->damaged[image->damaged_count++] = address;
}

/* The newest image of a page in the log, if there is one. */
static bool overlay_find(const struct g4_overlay *overlay, uint64_t page, struct g4_overlay_page *found)
{
	if (overlay->room == 0)
		return false;
	*found = overlay->pages[g4_overlay_slot(overlay, page)];
	return found->page == page && !g4_address_is_none(found->image);
}

static uint64_t patch_slot(const struct g4_patches *patches, uint64_t page)
{
	uint64_t at = (page * UINT64_C(0x9e3779b97f4a7c15)) & (patches->room - 1);

	while (patches->keys[at] != 0 && patches->keys[at] != page)
		at = (at + 1) & (patches->room - 1);
	return at;
}

static bool grow_patches(struct g4_patches *patches)
{
	struct g4_patches larger = {.room = patches->room == 0 ? 256 : 2 * patches->room, .count = patches->count};

	larger.keys = calloc(larger.room, sizeof(*larger.keys));
	larger.pages = calloc(larger.room, sizeof(*larger.pages));
	if (larger.keys == NULL || larger.pages == NULL) {
		free(larger.keys);
		free(larger.pages);
		return false;
	}
	for (uint64_t i = 0; i < patches->room; i++) {
		if (patches->keys[i] == 0)
			continue;
		const uint64_t at = patch_slot(&larger, patches->keys[i]);
		larger.keys[at] = patches->keys[i];
		larger.pages[at] = patches->pages[i];
	}
	free(patches->keys);
	free(patches->pages);
	*patches = larger;
	return true;
}

uint8_t *g4_image_patch(struct g4_image *image, struct g4_address address)
{
	struct g4_patches *patches = &image->patches;
	const uint64_t page = g4_address_page(address);
	const void *contents;

	if (2 * patches->count >= patches->room && !grow_patches(patches))
		return NULL;
	const uint64_t at = patch_slot(patches, page);
	if (patches->keys[at] != 0)
		return patches->pages[at];
	uint8_t *copy = aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES);
	if (copy == NULL)
		return NULL;
	if (g4_image_page(image, address, &contents) == 0)
		memcpy(copy, contents, G4_PAGE_BYTES);
	else
		memset(copy, 0, G4_PAGE_BYTES);
	patches->keys[at] = page;
	patches->pages[at] = copy;
	patches->count++;
	return copy;
}

int g4_image_compare_addresses(const void *a, const void *b)
{
	const struct g4_address x = *(const struct g4_address *)a, y = *(const struct g4_address *)b;

	return g4_address_is_before(x, y) ? -1 : g4_address_is_before(y, x);
}

struct g4_address *g4_image_patched(const struct g4_image *image, uint64_t *count)
{
	const struct g4_patches *patches = &image->patches;
	struct g4_address *addresses = patches->count == 0 ? NULL : malloc(patches->count * sizeof(*addresses));

	*count = 0;
	for (uint64_t i = 0; addresses != NULL && i < patches->room; i++) {
		if (patches->keys[i] != 0)
			addresses[(*count)++] = g4_page_address(patches->keys[i]);
	}
	if (addresses != NULL)
		qsort(addresses, *count, sizeof(*addresses), g4_image_compare_addresses);
	return addresses;
}

static void free_patches(struct g4_patches *patches)
{
	for (uint64_t i = 0; i < patches->room; i++)
		free(patches->pages[i]);
	free(patches->keys);
	free(patches->pages);
}

int g4_image_page(struct g4_image *image, struct g4_address address, const void **page)
{
	struct g4_overlay_page in_log;

	if (image->patches.count != 0) {
		const uint64_t at = patch_slot(&image->patches, g4_address_page(address));
		if (image->patches.keys[at] != 0) {
			*page = image->patches.pages[at];
			image->differs = false;
			return 0;
		}
	}
	if (overlay_find(&image->overlay, g4_address_page(address), &in_log))
		return g4_image_copy_page(image, in_log.copy, in_log.image, page);
	return g4_image_raw_page(image, address, page);
}

/* Of the page that was read last: what its check has said. */
static int judged(struct g4_image *image, struct g4_address address, int status)
{
	if (status == 0)
		note_copies(image, address);
	return status;
}

int g4_image_block(struct g4_image *image, struct g4_address address, uint32_t type, void *copy)
{
	const void *page;
	const int status = g4_image_page(image, address, &page);

	if (status < 0)
		return status;
	memcpy(copy, page, G4_PAGE_BYTES);
	return judged(image, address, g4_block_verify(copy, type, address, image->fs_tag));
}

int g4_image_block_once(struct g4_image *image, struct g4_address address, uint32_t type, void *copy)
{
	image->once = true;
	const int status = g4_image_block(image, address, type, copy);
	image->once = false;
	return status;
}

int g4_image_indirect(struct g4_image *image, struct g4_address address, g4_le64 *slots,
		      struct g4_indirect_header *header)
{
	const void *page;
	const int status = g4_image_page(image, address, &page);

	if (status < 0)
		return status;
	memcpy(slots, page, G4_PAGE_BYTES);
	return judged(image, address, g4_indirect_verify(slots, address, image->fs_tag, header));
}

int g4_image_sums(struct g4_image *image, struct g4_address address, struct g4_sums_page *sums,
		  struct g4_sums_header *header)
{
	const void *page;
	const int status = g4_image_page(image, address, &page);

	if (status < 0)
		return status;
	memcpy(sums, page, G4_PAGE_BYTES);
	return judged(image, address, g4_sums_verify(sums, address, image->fs_tag, header));
}

static int check_children(const struct g4_image *image, const struct g4_dir_index *index)
{
	for (uint32_t i = 0; i < index->count; i++) {
		const struct g4_address address = g4_address_from(index->entries[i].page);
		if (g4_ptr_validate(g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID), &image->layout) != 0 ||
		    !g4_address_starts_page(address))
			return -G4_E_CORRUPT_DIR;
	}
	return 0;
}

int g4_image_directory_page(struct g4_image *image, struct g4_address address, void *copy, uint32_t *type)
{
	const struct g4_block_header *header = copy;
	const void *page;
	int status = g4_image_page(image, address, &page);

	if (status < 0)
		return status;
	memcpy(copy, page, G4_PAGE_BYTES);
	*type = header->type == G4_BLOCK_DIR_INDEX ? G4_BLOCK_DIR_INDEX : G4_BLOCK_DIR_LEAF;
	status = judged(image, address, g4_block_verify(copy, *type, address, image->fs_tag));
	if (status < 0)
		return status;
	if (*type == G4_BLOCK_DIR_LEAF)
		return g4_dir_leaf_validate(copy, &image->layout);
	status = g4_dir_index_validate(copy, UINT64_MAX);
	return status < 0 ? status : check_children(image, copy);
}

int g4_image_inode(struct g4_image *image, uint64_t ino, struct g4_inode *inode)
{
	const uint32_t slot = g4_slab_slot_of(g4_ptr_address(ino));
	uint8_t page[G4_PAGE_BYTES];
	struct g4_slab_header slab;

	if (!g4_ino_plausible(ino, &image->layout))
		return -G4_E_NOENT;
	int status = g4_image_block(image, g4_address_page_start(g4_ptr_address(ino)), G4_BLOCK_SLAB, page);
	if (status < 0)
		return status;
	memcpy(&slab, page, sizeof(slab));
	status = g4_slab_validate(&slab);
	if (status < 0)
		return status;
	if (slab.kind != G4_SLAB_INODES || (slab.used >> slot & 1) == 0)
		return -G4_E_NOENT;
	memcpy(inode, page + slot * G4_SLAB_SLOT_BYTES, sizeof(*inode));
	return g4_inode_validate(inode, &image->layout);
}

int g4_image_root(struct g4_image *image, struct g4_root *root)
{
	const int status = g4_image_block(image, g4_layout_root(&image->layout), G4_BLOCK_ROOT, root);

	if (status < 0)
		return status;
	return g4_ino_plausible(root->root_inode, &image->layout) ? 0 : -G4_E_CORRUPT_INODE;
}

/* ------------------------------------------------------------------ superblocks */

int g4_image_read_superblock(struct g4_image *image, struct g4_address address, struct g4_superblock *sb)
{
	const void *page;
	int status = g4_image_raw_page(image, address, &page);

	if (status < 0)
		return status;
	memcpy(sb, page, sizeof(*sb));
	if (sb->magic != G4_SUPERBLOCK_MAGIC)
		return -G4_E_SB_MAGIC;
	/* A newer version may seal its superblock differently: say so rather than "damaged". */
	if (sb->version > G4_FORMAT_VERSION)
		return -G4_E_SB_VERSION;
	status = g4_block_verify(sb, G4_BLOCK_SUPERBLOCK, address, g4_superblock_tag(sb));
	return status < 0 ? status : g4_superblock_validate(sb, image->device_bytes);
}

void g4_image_use_superblock(struct g4_image *image, const struct g4_superblock *sb)
{
	image->sb = *sb;
	g4_layout_of(&image->sb, &image->layout);
	image->fs_tag = g4_superblock_tag(&image->sb);
	if (image->buffer != NULL)
		forget_chunks(image);
}

/* Of a first superblock that is damaged the size may still be right, where the device has grown since. */
static bool says_where_backup_is(const struct g4_image *image)
{
	const uint64_t size = image->primary.size_bytes;

	return image->primary.magic == G4_SUPERBLOCK_MAGIC && size % G4_PAGE_BYTES == 0 &&
	       size >= G4_MIN_DEVICE_BYTES && size <= image->device_bytes;
}

/* In the last page of a file system of this size. */
static int read_backup(struct g4_image *image, uint64_t size_bytes)
{
	return g4_image_read_superblock(image, g4_page_address(size_bytes / G4_PAGE_BYTES - 1), &image->backup);
}

int g4_image_choose_superblock(struct g4_image *image)
{
	image->primary_status = g4_image_read_superblock(image, G4_SUPERBLOCK, &image->primary);
	image->backup_status =
		read_backup(image, image->primary_status == 0 ? image->primary.size_bytes : image->device_bytes);
	image->from_backup = image->primary_status < 0;
	if (image->from_backup && image->backup_status < 0 && says_where_backup_is(image))
		image->backup_status = read_backup(image, image->primary.size_bytes);
	if (image->from_backup && image->backup_status < 0)
		return image->primary_status;
	if (image->primary_status == 0 && image->backup_status == 0)
		image->from_backup = g4_superblock_is_newer(&image->primary, &image->backup);
	g4_image_use_superblock(image, image->from_backup ? &image->backup : &image->primary);
	return 0;
}

static void explain(struct g4_image *image, int status, char *message, size_t bytes)
{
	const char *foreign = status == -G4_E_SB_MAGIC ? g4_probe_foreign(image->dev) : NULL;

	if (foreign != NULL && strcmp(foreign, "gpu4fs") != 0)
		snprintf(message, bytes, "%s holds %s, not gpu4fs", image->name, foreign);
	else if (status == -G4_E_SB_TRUNCATED)
		snprintf(message, bytes, "%s: %s: it has %" PRIu64 " bytes and should have %" PRIu64, image->name,
			 g4_strerror(status), image->device_bytes, (uint64_t)image->primary.size_bytes);
	else
		snprintf(message, bytes, "%s: %s", image->name, g4_strerror(status));
}

/* Where copies are compared. False: there is no memory. */
static bool make_room(struct g4_image *image)
{
	image->buffer = NULL;
	if (g4_space_copies(&image->space) > 1)
		image->buffer = aligned_alloc(G4_PAGE_BYTES, G4_CHUNK_BYTES + G4_PAGE_BYTES);
	return image->buffer != NULL || g4_space_copies(&image->space) == 1;
}

int g4_image_open_device(struct g4_image *image, const char *name, char *message, size_t bytes)
{
	const struct g4_dev_open_options options = {.flags = G4_DEV_READ_ONLY, .queues = 1};

	memset(image, 0, sizeof(*image));
	image->name = name;
	int status = g4_set_open_one(name, &options, &image->dev, message, bytes);
	if (status < 0)
		return status;
	image->device_bytes = g4_dev_props(image->dev)->size_bytes;
	g4_space_init(&image->space, image->dev);
	image->wg = g4_wg_create(0);
	image->cache = cache_create(CACHE_SETS);
	if (!make_room(image) || image->wg == NULL || image->cache == NULL || image->cache->single == NULL)
		status = -G4_E_NOMEM;
	else if (image->device_bytes < G4_MIN_DEVICE_BYTES)
		status = -G4_E_SB_MAGIC;
	if (status < 0)
		explain(image, status, message, bytes);
	return status;
}

int g4_image_open(struct g4_image *image, const char *name, char *message, size_t bytes)
{
	int status = g4_image_open_device(image, name, message, bytes);

	if (status == 0) {
		status = g4_image_choose_superblock(image);
		if (status < 0)
			explain(image, status, message, bytes);
	}
	if (status < 0)
		g4_image_close(image);
	return status;
}

int g4_image_share(const struct g4_image *image, uint32_t index, struct g4_image *other)
{
	*other = *image;
	other->borrowed = true;
	other->wg = g4_wg_create(index);
	other->cache = cache_create(SHARED_CACHE_SETS);
	other->damaged = NULL;
	other->damaged_count = other->damaged_room = 0;
	if (make_room(other) && other->wg != NULL && other->cache != NULL && other->cache->single != NULL)
		return 0;
	g4_image_close(other);
	return -G4_E_NOMEM;
}

void g4_image_close(struct g4_image *image)
{
	cache_destroy(image->cache);
	free(image->buffer);
	free(image->damaged);
	if (image->wg != NULL)
		g4_wg_destroy(image->wg);
	if (!image->borrowed) {
		free_patches(&image->patches);
		free(image->overlay.pages);
		if (image->dev != NULL)
			g4_dev_close(image->dev);
	}
	memset(image, 0, sizeof(*image));
}
