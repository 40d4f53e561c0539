/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what the backup's parsers read behind the authentication, where only who has the key could have put it, and what they
 * read in front of it. What is taken must be written again as the same bytes, and hold what tree.h promises; the rest is refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay.h"
#include "store/backend.h"
#include "store/exclude.h"
#include "store/index.h"
#include "store/pack_parity.h"
#include "store/rest.h"
#include "store/resume.h"
#include "store/tree.h"
#ifdef SHREDDER_REMOTE
#include "site/heads.h"
#include "site/site.h"
#endif

#define TEXT_BYTES 300

static uint32_t outcome; /* of what was taken, a sum */

static void require(int true_thing)
{
	if (!true_thing)
		abort();
}

/* Owners that access control lists name. */
static void attributes(const struct store_node *node, struct store_owner_set *set, const struct store_owner_map *map)
{
	struct store_in in = store_in_of(node->attributes, node->attributes_bytes);
	char name[STORE_NAME_MAX + 1] = {0};
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;
	struct store_buf room = {0};

	while (in.at != in.end && store_attribute_next(&in, &key, &key_bytes, &value, &value_bytes)) {
		memcpy(name, key, key_bytes);
		name[key_bytes] = 0;
		require(store_attribute_there(node, name));
		store_owner_note_acl(set, key, key_bytes, value, value_bytes);
		const uint8_t *here = store_owner_acl_here(map, name, value, value_bytes, &room);
		for (size_t i = 0; i < value_bytes; i++)
			outcome += here[i];
	}
	require(!in.bad);
	store_buf_free(&room);
}

static void entries(const uint8_t *data, size_t size)
{
	static const uint8_t one_owner[] = {1, 0, 1, 4, 'r', 'o', 'o', 't'}; /* user 1, whose name is root's */
	struct store_in list = store_in_of(one_owner, sizeof(one_owner));
	struct store_owner_set *set = store_owner_set_new();
	struct store_owners owners = {0};
	struct store_in in = store_in_of(data, size);
	struct store_buf again = {0};
	struct store_node node;

	store_owners_read(&list, &owners);
	require(store_in_done(&list));
	struct store_owner_map *map = store_owner_map_new(&owners);
	while (in.at != in.end && store_node_read(&in, &node)) {
		require(node.name_bytes >= 1 && node.name_bytes <= STORE_NAME_MAX);
		require(memchr(node.name, '/', node.name_bytes) == NULL &&
			memchr(node.name, 0, node.name_bytes) == NULL);
		require(!(node.name[0] == '.' &&
			  (node.name_bytes == 1 || (node.name_bytes == 2 && node.name[1] == '.'))));
		require(node.raw >= data && node.raw + node.raw_bytes <= data + size);
		again.size = 0;
		store_node_write(&again, &node);
		require(again.size == node.raw_bytes && memcmp(again.data, node.raw, again.size) == 0);
		outcome += (uint32_t)node.raw_bytes + node.type;
		attributes(&node, set, map);
	}
	store_owner_map_free(map);
	store_owner_set_free(set);
	store_buf_free(&owners.list);
	store_buf_free(&again);
}

static void snapshot(const uint8_t *data, size_t size)
{
	const struct store_buf body = {(uint8_t *)data, size, size};
	struct store_snapshot parsed;

	for (uint32_t version = STORE_VERSION_OWNERS - 1; version <= STORE_VERSION_OWNERS; version++) {
		if (store_snapshot_parse(version, &body, &parsed) != 0)
			continue;
		outcome +=
			(uint32_t)(parsed.paths_count + 100 * parsed.tags_count + parsed.files + parsed.owners.count);
		store_owner_map_free(store_owner_map_new(&parsed.owners));
		store_snapshot_free(&parsed);
	}
}

static void header(const uint8_t *data, size_t size)
{
	struct store_in in = store_in_of(data, size);
	struct store_header_entry entry;
	struct store_header header;

	store_header_open(&header, &in, size % 2 + 1);
	while (store_header_next(&header, &entry)) {
		require((uint64_t)entry.inner + entry.raw <= STORE_GROUP_MAX || !entry.grouped);
		require(entry.offset + entry.stored <= STORE_PACK_MAX && entry.raw > 0 && entry.raw <= STORE_BLOB_MAX);
		outcome += entry.offset;
	}
}

static void body(const uint8_t *data, size_t size)
{
	struct store_buf out = {0};

	if (store_body_unpack(data, size, &out) == 0)
		outcome += (uint32_t)out.size;
	store_buf_free(&out);
}

/* A pack without encryption, whose checksum somebody who is not us made: the input is made right at its end. */
static void pack(const uint8_t *data, size_t size)
{
	const struct store s = {.version = size % 2 + 1, .encrypted = false};
	struct store_buf bytes = {0}, packed = {0}, out = {0};
	const struct store_buf raw = {(uint8_t *)data, size, size};

	store_prefix_make(store_buf_reserve(&bytes, STORE_PREFIX_BYTES), STORE_PACK, s.version, false);
	bytes.size = STORE_PREFIX_BYTES;
	for (size_t i = 0; i < size % 64; i++)
		store_buf_u8(&bytes, 0);
	store_body_pack(&raw, &packed);
	const size_t protected_data = packed.size + store_protection_bytes(false);
	uint8_t *to = store_buf_reserve(&bytes, protected_data);
	store_protect(NULL, bytes.data, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	bytes.size += protected_data;
	store_buf_u64(&bytes, protected_data);
	store_buf_add(&bytes, "packend\n", 8);
	if (store_pack_header(&s, bytes.data, bytes.size, "pack", &out) == 0)
		outcome += (uint32_t)out.size;
	if (store_pack_header(&s, data, size, "pack", &out) == 0)
		outcome += (uint32_t)out.size;
	store_buf_free(&bytes);
	store_buf_free(&packed);
	store_buf_free(&out);
}

/* A file whose parity somebody made who is not us: what is mended without a name has parity that fits, and the same size. */
static void parity(const uint8_t *data, size_t size)
{
	struct store_buf file = {0};
	const size_t damage = size == 0 ? 0 : data[0];
	uint64_t own;

	store_buf_add(&file, data, size);
	if (size >= STORE_PARITY_TAIL_BYTES && store_parity_split(data + size - STORE_PARITY_TAIL_BYTES, size, &own))
		require(own <= size);
	if (store_parity_fits(data, size))
		outcome += 1;
	if (store_parity_mend(file.data, file.size, NULL) == STORE_MENDED)
		outcome += (uint32_t)store_parity_fits(file.data, file.size) + 1;
	file.size = 0;
	store_buf_add(&file, data, size);
	if (size > 0) { /* one that is ours, with a damaged byte anywhere */
		store_parity_append(&file, (enum store_parity_layout)(damage / 64 % STORE_PARITY_LAYOUTS),
				    1 + damage % STORE_PARITY_MOST);
		require(store_parity_fits(file.data, file.size));
		file.data[damage * 257 % file.size] ^= 1;
		require(store_parity_mend(file.data, file.size, NULL) == STORE_MENDED);
		require(memcmp(file.data, data, size) == 0 && store_parity_fits(file.data, file.size));
	}
	store_buf_free(&file);
}

static void patterns(const uint8_t *data, size_t size)
{
	char pattern[TEXT_BYTES] = {0}, path[TEXT_BYTES] = {0};
	struct store_excludes excludes = {0};
	const size_t half = size / 2;

	memcpy(pattern, data, half < TEXT_BYTES ? half : TEXT_BYTES - 1);
	memcpy(path, data + half, size - half < TEXT_BYTES ? size - half : TEXT_BYTES - 1);
	store_exclude_add(&excludes, pattern);
	outcome += store_excluded(&excludes, path, false);
	store_exclude_add_folded(&excludes, pattern);
	outcome += store_excluded(&excludes, path, true);
	store_excludes_free(&excludes);
}

static int count_name(void *user, const struct store_id *name, uint64_t bytes)
{
	struct store_buf *again = (struct store_buf *)user;
	const struct store_listed listed = {*name, bytes};

	store_buf_add(again, &listed, sizeof(listed));
	return 0;
}

/* In pieces of so many bytes. */
static int parse_list(const uint8_t *data, size_t size, size_t piece, struct store_buf *names)
{
	struct store_rest_list list = {.most = G4_MIB};
	int rc = 0;

	for (size_t at = 0; at < size && rc == 0; at += piece)
		rc = store_rest_list_add(&list, data + at, g4_min64(piece, size - at));
	if (rc == 0)
		rc = store_rest_list_end(&list, count_name, names);
	store_rest_list_free(&list);
	return rc;
}

/* What a server says that a repository holds: printed again, it is the same list, and so it is however it is cut. */
static void rest_list(const uint8_t *data, size_t size)
{
	struct store_buf names = {0}, text = {0}, again = {0}, cut = {0};
	const int rc = parse_list(data, size, size + 1, &names);

	require(parse_list(data, size, size % 7 + 1, &cut) == rc);
	if (rc == 0) {
		require(cut.size == names.size && (names.size == 0 || memcmp(cut.data, names.data, names.size) == 0));
		store_rest_print(&text, (const struct store_listed *)names.data,
				 names.size / sizeof(struct store_listed));
		require(parse_list(text.data, text.size, text.size, &again) == 0);
		require(again.size == names.size &&
			(names.size == 0 || memcmp(again.data, names.data, names.size) == 0));
		outcome += (uint32_t)names.size;
	}
	store_buf_free(&names);
	store_buf_free(&text);
	store_buf_free(&again);
	store_buf_free(&cut);
}

/* An address with a password, as messages show it. */
static void address(const uint8_t *data, size_t size)
{
	char *text = (char *)store_alloc(size + 1);

	memcpy(text, data, size);
	char *shown = store_rest_shown(text);
	require(strlen(shown) <= strlen(text));
	outcome += (uint32_t)strlen(shown);
	free(shown);
	free(text);
}

/* ---- a repository without encryption that has one file of each kind, made by somebody who is not us */

struct holder {
	struct store_backend base;
	struct store_buf config, other;
};

static const struct store_buf *held(struct store_backend *b, enum store_kind kind)
{
	struct holder *h = (struct holder *)b;

	return kind == STORE_CONFIG ? &h->config : &h->other;
}

static int holder_open(struct store_backend *b)
{
	(void)b;
	return 0;
}

static int holder_size(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t *bytes)
{
	(void)name;
	*bytes = held(b, kind)->size;
	return 0;
}

static int holder_get(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		      void *to, size_t bytes)
{
	const struct store_buf *file = held(b, kind);

	(void)name;
	if (offset > file->size || bytes > file->size - offset)
		return store_fail(STORE_E_DAMAGED, "shorter");
	memcpy(to, file->data + offset, bytes);
	return 0;
}

static int holder_list(struct store_backend *b, enum store_kind kind, store_list_fn *each, void *user)
{
	const struct store_buf *file = held(b, kind);
	struct store_id name;

	store_digest(file->data, file->size, name.bytes);
	return each(user, &name, file->size);
}

static int holder_remove(struct store_backend *b, enum store_kind kind, const struct store_id *name)
{
	(void)b;
	(void)kind;
	(void)name;
	return 0;
}

static void holder_close(struct store_backend *b)
{
	(void)b;
}

/* prefix | protected(body), as the body may be anybody's: who can write there can make the check right. */
static void make_file(struct store_buf *file, enum store_kind kind, uint32_t version, const uint8_t *data, size_t size)
{
	const struct store_buf raw = {(uint8_t *)data, size, size};
	struct store_buf packed = {0};

	store_prefix_make(store_buf_reserve(file, STORE_PREFIX_BYTES), kind, version, false);
	file->size = STORE_PREFIX_BYTES;
	store_body_pack(&raw, &packed);
	const size_t protected_data = packed.size + store_protection_bytes(false);
	uint8_t *to = store_buf_reserve(file, protected_data);
	store_protect(NULL, file->data, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	file->size += protected_data;
	store_buf_free(&packed);
}

/* An id, created, rabin, 18 bits; polynomial, marker, sizes that the library chooses: zeros; parity 0. */
static void make_config(struct store_buf *file, uint32_t version)
{
	const uint8_t body[59] = {[24] = 1, [25] = 18};

	make_file(file, STORE_CONFIG, version, body, version >= 2 ? 59 : 58);
}

static int known(void *user, size_t number, uint64_t bytes, const struct store_buf *header)
{
	(void)user;
	require(number == 0 && header->size > 0 && bytes <= STORE_PACK_MAX);
	outcome += (uint32_t)header->size;
	return 0;
}

static void use_index(struct store *s, const uint8_t *data, size_t size)
{
	struct store_id pack = {{0}};

	if (store_index_load(s, NULL, NULL, NULL) == 0)
		outcome += (uint32_t)store_index_count(s) + store_pack_count(s);
	for (uint32_t i = 0; i < store_index_count(s); i++) {
		struct store_entry entry;
		uint32_t number;

		require(store_index_at(s, i, &entry) == 0 && entry.pack < store_pack_count(s));
		require(store_index_find(s, &entry.id, &number, &entry) == 0 && number == i);
	}
	memcpy(&pack, data + (size > 1), size > sizeof(pack) ? sizeof(pack) : 0);
	store_index_known(s, &pack, 1, known, NULL);
}

static void repository(const uint8_t *data, size_t size)
{
	static const struct store_backend_ops ops = {.open = holder_open,
						     .get = holder_get,
						     .size = holder_size,
						     .list = holder_list,
						     .remove = holder_remove,
						     .close = holder_close};
	static const enum store_kind kinds[] = {STORE_CONFIG, STORE_INDEX, STORE_LOCK, STORE_KEY};
	struct holder h = {.base = {.ops = &ops, .path = (char *)"here"}};
	const uint8_t chosen = size > 0 ? data[0] : 0;
	const enum store_kind kind = kinds[chosen % 4];
	const uint32_t version = 1 + chosen / 4 % STORE_VERSION;
	struct store_key_info *keys = NULL;
	uint64_t removed, left;
	struct store *s;
	size_t count;

	data += size > 0;
	size -= size > 0;
	if (kind == STORE_CONFIG)
		make_file(&h.config, kind, version, data, size);
	else
		make_config(&h.config, version);
	if (kind == STORE_KEY) { /* which is not protected as a whole */
		store_prefix_make(store_buf_reserve(&h.other, STORE_PREFIX_BYTES), kind, version, true);
		h.other.size = STORE_PREFIX_BYTES;
		store_buf_add(&h.other, data, size);
	} else if (kind != STORE_CONFIG) {
		make_file(&h.other, kind, version, data, size);
	}
	if (store_open_backend(&h.base, NULL, NULL, &s) == 0) {
		require(s->parity <= STORE_PARITY_MOST && s->params.max_bytes <= 2 * G4_MIB);
		if (kind == STORE_INDEX)
			use_index(s, data, size);
		else if (kind == STORE_LOCK && store_locks_clear(s, false, &removed, &left) == 0)
			outcome += (uint32_t)(removed + 2 * left);
		else if (kind == STORE_KEY && store_key_list(s, &keys, &count) == 0)
			outcome += (uint32_t)count;
		free(keys);
		outcome += s->version;
		store_close(s);
	} else {
		require(kind == STORE_CONFIG); /* ours can be opened */
	}
	store_buf_free(&h.config);
	store_buf_free(&h.other);
}

/* ---- notes about a large file (resume.h), in a file that somebody else may have written into */

/* A file that is none, but has times; and a folder without a name that others could find, for the notes about it. */
static const struct stat noted = {.st_ino = 7, .st_size = INT64_C(1) << 40};
static char notes_folder[64];

static void remove_notes(void)
{
	rmdir(notes_folder);
}

static void put_notes(const char *path, const void *data, size_t size)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static uint64_t read_notes(struct store *s, struct store_buf *content, uint64_t *count)
{
	struct store_resume r;
	uint64_t bytes = 0;

	content->size = 0;
	*count = 0;
	store_resume_begin(&r, s, notes_folder, &noted, content, count, &bytes);
	require(r.fd >= 0 && bytes <= (uint64_t)noted.st_size);
	store_resume_end(&r);
	return bytes;
}

/* The one file in the folder. */
static void notes_path(const struct store *s, char path[160])
{
	struct store_buf content = {0};
	struct store_resume r;
	char link[64];
	uint64_t count, bytes;

	store_resume_begin(&r, (struct store *)s, notes_folder, &noted, &content, &count, &bytes);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", r.fd);
	const ssize_t length = readlink(link, path, 159);
	require(length > 0);
	path[length] = 0;
	store_resume_end(&r);
	store_buf_free(&content);
}

/* As raw bytes, and as what a record says that is right; what is taken is taken again, the same. */
static void notes(const uint8_t *data, size_t size)
{
	struct store s = {.version = STORE_VERSION};
	struct store_buf content = {0}, again = {0}, given = {0};
	struct store_resume r;
	uint64_t count, bytes, count_again;
	char path[160];

	if (notes_folder[0] == 0) {
		const char *parent = getenv("TMPDIR");

		snprintf(notes_folder, sizeof(notes_folder), "%.40s/fuzz_store.XXXXXX",
			 parent != NULL ? parent : "/tmp");
		require(mkdtemp(notes_folder) != NULL);
		atexit(remove_notes);
	}
	store_index_new(&s);
	notes_path(&s, path);
	put_notes(path, data, size);
	outcome += (uint32_t)read_notes(&s, &content, &count);
	put_notes(path, data, 0);
	store_resume_begin(&r, &s, notes_folder, &noted, &given, &count, &bytes);
	require(bytes == 0 && count == 0);
	store_buf_add(&given, data, size);
	store_resume_note(&r, &s, &given, true);
	store_resume_end(&r);
	bytes = read_notes(&s, &content, &count);
	require(content.size <= size && (content.size == 0 || memcmp(content.data, data, content.size) == 0));
	require(read_notes(&s, &again, &count_again) == bytes && count_again == count && again.size == content.size);
	outcome += (uint32_t)(bytes + count);
	unlink(path);
	store_index_free(&s);
	store_buf_free(&content);
	store_buf_free(&again);
	store_buf_free(&given);
}

#ifdef SHREDDER_REMOTE
static void clients(const uint8_t *data, size_t size)
{
	struct site_clients parsed;
	char *text = (char *)store_alloc(size + 1);

	memcpy(text, data, size);
	if (site_clients_parse(text, &parsed) == 0) {
		for (size_t i = 0; i < parsed.count; i++) {
			const char *name = parsed.list[i].repository;

			require(name[0] != 0 && name[0] != '/' && name[0] != '.');
			require(strstr(name, "/.") == NULL && strstr(name, "//") == NULL);
		}
		outcome += (uint32_t)parsed.count;
		site_clients_free(&parsed);
	}
	free(text);
}

/* The head of a request, a word each line: an address, a range that is wanted, one that is sent. */
static void requests(const uint8_t *data, size_t size)
{
	char *text = (char *)store_alloc(size + 1), *save = NULL, hex[STORE_HEX_BYTES];
	const uint64_t file = size == 0 ? 0 : data[0] * UINT64_C(1000);
	struct site_address address;
	uint64_t from, bytes, total;

	memcpy(text, data, size);
	for (const char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (site_parse_address(line, size % 2 == 0, &address)) {
			require(address.whole || (address.kind >= STORE_CONFIG && address.kind <= STORE_LOCK));
			require(address.kind != STORE_CONFIG || (!address.list && strcmp(line, "config") == 0));
			if (!address.whole && !address.list && address.kind != STORE_CONFIG)
				require(strcmp(strchr(line, '/') + 1, store_hex(&address.name, hex)) == 0);
			outcome += address.kind + address.list;
		}
		if (site_parse_range(line, file, &from, &bytes)) {
			require(from <= file && bytes <= file - from);
			outcome += (uint32_t)(from + bytes);
		}
		if (site_parse_rest(line, &from, &total)) {
			require(from > 0 && from < total);
			outcome += (uint32_t)total;
		}
	}
	free(text);
}
#endif

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return store_crypto_init();
}

uint32_t fuzz_outcome(void)
{
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parsers[])(const uint8_t *, size_t) = {
		entries,  snapshot,   header, body, pack, patterns, rest_list, address,
#ifdef SHREDDER_REMOTE
		clients,
#endif
		parity,	  repository, notes,
#ifdef SHREDDER_REMOTE
		requests,
#endif
	};

	outcome = 0;
	if (size > 0)
		parsers[data[0] % (sizeof(parsers) / sizeof(*parsers))](data + 1, size - 1);
	return 0;
}
