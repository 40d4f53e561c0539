/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/resume.h"

#define NOTE_EVERY_NS (UINT64_C(10) * 1000000000)
#define PATH_BYTES 4096

static void id_text(const struct store *s, char text[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", s->uuid[i]);
}

static void identity_of(const struct store *s, const struct stat *st, uint8_t identity[32])
{
	struct store_buf buf = {0};

	store_buf_add(&buf, "shredder resume", 15);
	store_buf_add(&buf, s->uuid, sizeof(s->uuid));
	store_buf_u64(&buf, st->st_dev);
	store_buf_u64(&buf, st->st_ino);
	store_buf_u64(&buf, (uint64_t)st->st_size);
	store_buf_u64(&buf, (uint64_t)st->st_mtim.tv_sec);
	store_buf_u64(&buf, (uint64_t)st->st_mtim.tv_nsec);
	store_buf_u64(&buf, (uint64_t)st->st_ctim.tv_sec);
	store_buf_u64(&buf, (uint64_t)st->st_ctim.tv_nsec);
	store_digest(buf.data, buf.size, identity);
	store_buf_free(&buf);
}

/* What a record is bound to. */
static void associated_of(const struct store_resume *r, uint8_t associated[40])
{
	memcpy(associated, r->identity, 32);
	memcpy(associated + 32, &r->records, 8);
}

static bool read_exactly(int fd, void *to, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		const ssize_t got = read(fd, (uint8_t *)to + have, bytes - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

/* The next record's parts behind `content`; false: there is none, or none that counts. */
static bool read_record(struct store_resume *r, const struct store *s, struct store_buf *content)
{
	const size_t overhead = store_protection_bytes(s->encrypted);
	uint8_t associated[40];
	struct store_buf protected_data = {0};
	struct stat st;
	uint32_t bytes;
	bool good = false;

	if (fstat(r->fd, &st) == 0 && read_exactly(r->fd, &bytes, sizeof(bytes)) && bytes > overhead &&
	    bytes <= st.st_size && read_exactly(r->fd, store_buf_reserve(&protected_data, bytes), bytes)) {
		associated_of(r, associated);
		good = store_unprotect(s->encrypted ? s->file_key : NULL, associated, sizeof(associated),
				       protected_data.data, bytes, store_buf_reserve(content, bytes - overhead));
		content->size += good ? bytes - overhead : 0;
		r->records += good;
	}
	store_buf_free(&protected_data);
	return good;
}

/* As much of `content` as the index has; *bytes: of the file. */
static void keep_known(struct store *s, struct store_buf *content, uint64_t *count, uint64_t *bytes, uint64_t size)
{
	struct store_in in = store_in_of(content->data, content->size);
	struct store_entry entry;
	struct store_part part;
	uint32_t number;
	size_t kept = 0;

	*count = 0;
	*bytes = 0;
	while (in.at != in.end && store_part_next(&in, &part) && part.bytes <= size - *bytes) {
		if (!part.hole && (store_index_find(s, &part.id, &number, &entry) != 0 || entry.type != STORE_DATA ||
				   entry.pack == STORE_PACK_PENDING || entry.raw != part.bytes))
			break;
		kept = (size_t)(in.at - content->data);
		*bytes += part.bytes;
		++*count;
	}
	content->size = kept;
}

/* All that lead to a path. Most are there; when one cannot be made, there are no notes. */
static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
}

void store_resume_begin(struct store_resume *r, struct store *s, const char *folder, const struct stat *st,
			struct store_buf *content, uint64_t *count, uint64_t *bytes)
{
	char path[PATH_BYTES], id[33], hex[STORE_HEX_BYTES];
	struct store_id name;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (folder == NULL)
		return;
	identity_of(s, st, r->identity);
	memcpy(name.bytes, r->identity, sizeof(name.bytes));
	id_text(s, id);
	if (snprintf(path, sizeof(path), "%s/%s-%.32s", folder, id, store_hex(&name, hex)) >= (int)sizeof(path))
		return;
	r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->fd < 0 && errno == ENOENT) {
		make_folders(path);
		r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (r->fd < 0)
		return;
	while (read_record(r, s, content))
		;
	keep_known(s, content, count, bytes, (uint64_t)st->st_size);
	/* written again as one record: what was behind it may be torn */
	r->records = 0;
	if (ftruncate(r->fd, 0) != 0 || lseek(r->fd, 0, SEEK_SET) != 0) {
		store_resume_end(r);
		return;
	}
	store_resume_note(r, s, content, true);
}

void store_resume_note(struct store_resume *r, struct store *s, const struct store_buf *content, bool last)
{
	const size_t bytes = content->size - r->noted;
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);
	uint8_t associated[40];
	struct store_buf record = {0};

	if (r->fd < 0 || (!last && now < r->due_ns))
		return;
	r->due_ns = now + NOTE_EVERY_NS;
	if (bytes == 0)
		return;
	const uint32_t protected_data = (uint32_t)(bytes + store_protection_bytes(s->encrypted));
	store_buf_add(&record, &protected_data, sizeof(protected_data));
	associated_of(r, associated);
	uint8_t *to = store_buf_reserve(&record, protected_data);
	store_protect(s->encrypted ? s->file_key : NULL, associated, sizeof(associated), content->data + r->noted,
		      bytes, to);
	record.size += protected_data;
	const bool written = bytes < STORE_BODY_MAX && write(r->fd, record.data, record.size) == (ssize_t)record.size;
	store_buf_free(&record);
	r->noted = content->size;
	r->records++;
	if (!written) /* what is there ends here */
		store_resume_end(r);
}

void store_resume_end(struct store_resume *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

void store_resume_clear(struct store *s, const char *folder)
{
	DIR *dir = folder == NULL ? NULL : opendir(folder);
	const struct dirent *entry;
	char id[33];

	if (dir == NULL)
		return;
	id_text(s, id);
	while ((entry = readdir(dir)) != NULL)
		if (strncmp(entry->d_name, id, 32) == 0 && entry->d_name[32] == '-')
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}
