/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a caller's leader runs. Commands do the work; here is what libgpu4fs does around them on a CPU: walking again when
 * an inode is gone, and mapped pages.
 *
 * Mapped pages hold no lock, so nothing that a caller keeps can be waited for by others: the inode may be written,
 * cut or deleted, and the cache takes the name from a line that somebody still looks at (cache/README.md, rules 8 and 9).
 */
#include "device/caller.h"

/* One call moves at most so much, as the host's API says. */
#define MOST_BYTES (UINT64_C(0x80000000) - G4_PAGE_BYTES)

/* ------------------------------------------------------------------ slots */

G4_FN struct g4_caller *g4_caller_enter(struct g4_callers *callers, uint32_t hint)
{
	for (uint32_t at = hint % callers->count;; at = at + 1 < callers->count ? at + 1 : 0) {
		struct g4_caller *caller = &callers->caller[at];

		if (!g4_load32_rlx(&caller->busy) && g4_cas32(&caller->busy, 0, 1)) {
			caller->mark = g4_scratch_mark(caller->wg);
			caller->scratch = g4_scratch_take(caller->wg, G4_COPY_SCRATCH_BYTES);
			return caller;
		}
		if (at + 1 == callers->count)
			g4_pause();
	}
}

G4_FN void g4_caller_leave(struct g4_caller *caller)
{
	g4_scratch_release(caller->wg, caller->mark);
	g4_store32_rel(&caller->busy, 0);
}

/* ------------------------------------------------------------------ opening */

G4_FN static int release(struct g4_caller *caller, uint64_t handle)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RELEASE);

	cmd.handle = handle;
	return handle ? g4_caller_run(caller, &cmd) : -G4_E_BADF;
}

G4_FN static bool is_root(const struct g4_caller *caller)
{
	return caller->callers->cred.uid == 0;
}

/* Takes what OPEN or CREATE made, with the attributes in caller->attr, unless it is not what the caller may have. */
G4_FN static int take(struct g4_caller *caller, const struct g4_cmd *opened, const struct g4_caller_open *how)
{
	const struct g4_attr *attr = &caller->attr;
	struct g4_fs *fs = caller->callers->fs;
	int rc = 0;

	if (how->create && g4_is_dir(attr->mode))
		rc = -G4_E_ISDIR;
	else if (how->noatime && !is_root(caller) && caller->callers->cred.uid != attr->uid)
		rc = -G4_E_PERM;
	if (rc < 0) {
		release(caller, opened->handle);
		return rc;
	}
	caller->file.handle = opened->handle;
	caller->file.key = g4_icache_at(fs, g4_handle_index(opened->handle))->data_key;
	caller->file.ino = attr->ino;
	return 0;
}

G4_FN static int open_once(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
			   uint64_t path_bytes, const struct g4_caller_open *how)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_OPEN);
	int rc = g4_caller_stat(caller, at, path, path_bytes, how->nofollow);

	if (rc < 0)
		return rc;
	g4_caller_set_node(&cmd, caller);
	cmd.flags = how->flags;
	cmd.attr = &caller->attr;
	rc = g4_caller_run(caller, &cmd);
	return rc < 0 ? rc : take(caller, &cmd, how);
}

G4_FN static int create_once(struct g4_caller *caller, const struct g4_caller_path *path,
			     const struct g4_caller_open *how)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_CREATE);
	struct g4_caller_name ending;
	int rc = g4_caller_find(caller, path, &ending);

	if (rc < 0)
		return rc;
	if (ending.split.slash || ending.split.last != G4_LAST_NAME)
		return (how->flags & G4_OPEN_EXCL) && !ending.split.slash ? -G4_E_EXIST : -G4_E_ISDIR;
	g4_caller_set_name(&cmd, &ending);
	cmd.flags = how->flags;
	cmd.mode = G4_S_IFREG | (how->mode & 07777u);
	cmd.attr = &caller->attr;
	rc = g4_caller_run(caller, &cmd);
	return rc < 0 ? rc : take(caller, &cmd, how);
}

G4_FN int g4_caller_open(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
			 uint64_t path_bytes, const struct g4_caller_open *how)
{
	const struct g4_caller_path whole = {at, path, path_bytes};
	uint32_t attempts = 0;
	int rc;

	do {
		if (how->create)
			rc = create_once(caller, &whole, how);
		else
			rc = open_once(caller, at, path, path_bytes, how);
	} while (g4_caller_again(rc, &attempts));
	return rc;
}

G4_FN int g4_caller_close(struct g4_caller *caller, const struct g4_caller_file *file)
{
	return release(caller, file->handle);
}

/* ------------------------------------------------------------------ data */

G4_FN static int64_t transfer(struct g4_caller *caller, uint32_t op, const struct g4_caller_file *file, uint64_t offset,
			      void *data, uint64_t bytes)
{
	struct g4_cmd cmd = g4_caller_command(caller, op);

	if (file->handle == 0)
		return -G4_E_BADF;
	cmd.handle = file->handle;
	cmd.offset = offset;
	cmd.length = g4_min64(bytes, MOST_BYTES);
	cmd.data = data;
	int rc = g4_caller_run(caller, &cmd);
	return rc < 0 ? rc : (int64_t)cmd.value;
}

G4_FN int64_t g4_caller_read(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t offset, void *to,
			     uint64_t bytes)
{
	return transfer(caller, G4_CMD_READ, file, offset, to, bytes);
}

G4_FN int64_t g4_caller_write(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t offset,
			      const void *from, uint64_t bytes)
{
	return transfer(caller, G4_CMD_WRITE, file, offset, (void *)(uintptr_t)from, bytes);
}

G4_FN int g4_caller_fsync(struct g4_caller *caller, const struct g4_caller_file *file)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_FSYNC);

	cmd.handle = file->handle;
	return file->handle ? g4_caller_run(caller, &cmd) : -G4_E_BADF;
}

G4_FN int64_t g4_caller_readdir(struct g4_caller *caller, const struct g4_caller_file *dir, uint64_t cookie, void *to,
				uint64_t bytes)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_READDIR);
	uint64_t at = 0;

	if (!(g4_handle_flags(dir->handle) & G4_OPEN_READ)) /* opening it asked for the permission */
		return -G4_E_BADF;
	caller->cookie = cookie;
	cmd.node = dir->ino;
	cmd.cookie = g4_max64(cookie, G4_COOKIE_NAMES);
	cmd.data = to;
	cmd.length = g4_align_down(bytes, 8);
	int rc = g4_caller_run(caller, &cmd);
	if (rc < 0)
		return rc;
	while (at < cmd.value) {
		const struct g4_dirent *entry = (const struct g4_dirent *)(const void *)((uint8_t *)to + at);
		caller->cookie = entry->cookie;
		at += entry->record_bytes;
	}
	return (int64_t)cmd.value;
}

/* ------------------------------------------------------------------ mapped pages */

G4_FN bool g4_caller_may_read(const struct g4_caller_file *file)
{
	return (g4_handle_flags(file->handle) & G4_OPEN_READ) != 0;
}

G4_FN int g4_caller_index(struct g4_fs *fs, const struct g4_caller_file *file, uint32_t *inode)
{
	*inode = g4_handle_index(file->handle);
	if (file->handle == 0 || *inode >= fs->icache.count || g4_load32_acq(&g4_icache_at(fs, *inode)->opens) == 0 ||
	    g4_icache_at(fs, *inode)->data_key != file->key)
		return -G4_E_BADF;
	return 0;
}

/* Brings the page into the cache. */
G4_FN static int load(struct g4_caller *caller, struct g4_inode_core *inode, uint64_t page, uint32_t *line)
{
	int rc;

	g4_read_lock(&inode->lock);
	if (inode->dead)
		rc = -G4_E_STALE;
	else if (!g4_is_reg(inode->disk.mode))
		rc = g4_is_dir(inode->disk.mode) ? -G4_E_ISDIR : -G4_E_INVAL;
	else if (page >= g4_pages_for(inode->size))
		rc = -G4_E_NXIO;
	else
		rc = g4_page_get(caller->wg, caller->callers->fs, inode, page, line);
	g4_read_unlock(&inode->lock);
	return g4_check(caller->callers->fs, rc);
}

G4_FN static int map(struct g4_caller *caller, struct g4_inode_core *inode, uint64_t page, uint32_t *line)
{
	struct g4_fs *fs = caller->callers->fs;
	int rc = 0;

	*line = g4_cache_find(&fs->cache, inode->data_key, page);
	if (*line == G4_NO_LINE)
		rc = load(caller, inode, page, line);
	else
		g4_cache_count(caller->wg, &fs->cache, G4_CACHE_DATA, 1, 0);
	if (rc < 0)
		return rc;
	/* what a write that is under way brought in is not the file's yet */
	uint64_t size = g4_load64_acq(&inode->size), at = page << G4_PAGE_SHIFT;
	if (page >= g4_pages_for(size)) {
		g4_cache_put(&fs->cache, *line);
		return -G4_E_NXIO;
	}
	caller->page.data = g4_line_data(&fs->cache, *line);
	caller->page.line = *line;
	caller->page.bytes = (uint32_t)g4_min64(size - at, G4_PAGE_BYTES);
	return 0;
}

G4_FN int g4_caller_map(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t page, bool pin)
{
	struct g4_fs *fs = caller->callers->fs;
	uint32_t i, line;
	int rc = g4_caller_may_read(file) ? g4_caller_index(fs, file, &i) : -G4_E_BADF;

	if (rc < 0)
		return rc;
	if (pin && !g4_cache_pin(&fs->cache, 1))
		return -G4_E_NOMEM;
	rc = map(caller, g4_icache_at(fs, i), page, &line);
	if (rc < 0 && pin)
		g4_cache_unpin_none(&fs->cache, 1);
	return rc;
}

G4_FN void g4_caller_unmap(struct g4_callers *callers, uint32_t line, bool pinned)
{
	if (pinned)
		g4_cache_unpin(&callers->fs->cache, line);
	else
		g4_cache_put(&callers->fs->cache, line);
}

G4_FN const void *g4_caller_peek(struct g4_callers *callers, const struct g4_caller_file *file, uint64_t page,
				 uint32_t *line)
{
	struct g4_cache *cache = &callers->fs->cache;
	const uint64_t key = file->key; /* with the handle and the cache's place at once */
	const void *data = NULL;

	*line = G4_NO_LINE;
	if (g4_caller_may_read(file))
		data = g4_cache_peek_page(cache, key, page, line);
	if (data)
		g4_cache_count_peeked(cache, *line, 1);
	return data;
}

G4_FN void g4_caller_unpeek(struct g4_callers *callers, uint32_t line)
{
	g4_cache_put(&callers->fs->cache, line);
}
