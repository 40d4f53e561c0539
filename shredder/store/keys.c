/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/keys.h"
#include "store/pack_parity.h"

#define HEAD_BYTES 116
#define LABEL_BYTES 64
#define KEY_FILE_BYTES (HEAD_BYTES + STORE_KEY_BYTES + STORE_PROTECTION_BYTES)
#define PASSES 3
#define MEMORY_KIB (64 * 1024)
/* Key files that are tried: each costs the work of its password. */
#define TRIES_MAX 20
enum { KDF_ARGON2ID = 1, KDF_FILE = 2 };

struct key_file {
	uint8_t kdf;
	uint32_t passes, memory_kib;
	const uint8_t *salt, *protected_data;
	int64_t created;
	char label[LABEL_BYTES + 1];
};

static int parse(const struct store_buf *file, struct key_file *key)
{
	struct store_in in = store_in_of(file->data, file->size);
	const uint8_t *zeros, *label;

	store_in_bytes(&in, STORE_PREFIX_BYTES);
	key->kdf = store_in_u8(&in);
	zeros = store_in_bytes(&in, 3);
	key->passes = store_in_u32(&in);
	key->memory_kib = store_in_u32(&in);
	key->salt = store_in_bytes(&in, STORE_SALT_BYTES);
	key->created = (int64_t)store_in_u64(&in);
	label = store_in_bytes(&in, LABEL_BYTES);
	key->protected_data = store_in_bytes(&in, STORE_KEY_BYTES + STORE_PROTECTION_BYTES);
	if (!store_in_done(&in) || memcmp(zeros, "\0\0", 3) != 0 ||
	    (key->kdf != KDF_ARGON2ID && (key->kdf != KDF_FILE || key->passes != 0 || key->memory_kib != 0)))
		return store_fail(STORE_E_DAMAGED, "a key is damaged: it is none");
	memcpy(key->label, label, LABEL_BYTES);
	key->label[LABEL_BYTES] = 0;
	return 0;
}

static int wrapping_key(const struct store_secret *secret, const struct key_file *key, uint8_t wrap[STORE_KEY_BYTES])
{
	if (key->kdf == KDF_ARGON2ID)
		return store_password_key(secret->password, key->salt, key->passes, key->memory_kib, wrap);
	store_file_secret_key(secret->key, secret->key_bytes, key->salt, wrap);
	return 0;
}

int store_key_add(struct store *s, const struct store_secret *secret, struct store_id *name)
{
	const bool from_file = secret->key != NULL;
	char host[65], user[65], label[LABEL_BYTES + 1] = {0};
	uint8_t wrap[STORE_KEY_BYTES], salt[STORE_SALT_BYTES];
	struct key_file key = {.kdf = from_file ? KDF_FILE : KDF_ARGON2ID,
			       .passes = from_file ? 0 : PASSES,
			       .memory_kib = from_file ? 0 : MEMORY_KIB,
			       .salt = salt};
	struct store_buf file = {0};
	int rc;

	if (from_file && (secret->key_bytes < STORE_SECRET_BYTES_MIN || secret->key_bytes > STORE_SECRET_BYTES_MAX))
		return store_fail(STORE_E_INVAL, "a key file has 32 random bytes or more, up to 1 MiB");
	if (!from_file && secret->password[0] == 0)
		return store_fail(STORE_E_PASSWORD,
				  "an empty password is none; without encryption, say --no-encryption");
	store_random(salt, sizeof(salt));
	store_host(host);
	store_user(user);
	snprintf(label, sizeof(label), "%.31s@%.31s", user, host);
	rc = wrapping_key(secret, &key, wrap);
	if (rc != 0)
		return rc;
	store_prefix_make(store_buf_reserve(&file, KEY_FILE_BYTES), STORE_KEY, s->version, true);
	file.size = STORE_PREFIX_BYTES;
	store_buf_u32(&file, key.kdf);
	store_buf_u32(&file, key.passes);
	store_buf_u32(&file, key.memory_kib);
	store_buf_add(&file, salt, sizeof(salt));
	store_buf_u64(&file, (uint64_t)store_now().seconds);
	store_buf_add(&file, label, LABEL_BYTES);
	store_protect(wrap, file.data, HEAD_BYTES, s->master, sizeof(s->master), file.data + HEAD_BYTES);
	file.size = KEY_FILE_BYTES;
	if (s->parity > 0 && s->version >= STORE_VERSION_PARITY)
		store_parity_append(&file, store_parity_layout(s->version), s->parity);
	store_digest(file.data, file.size, name->bytes);
	rc = s->backend->ops->put(s->backend, STORE_KEY, name, file.data, file.size);
	store_wipe(wrap, sizeof(wrap));
	store_buf_free(&file);
	return rc;
}

/* 1: it opened; 0: another secret's; or an error. */
static int try_key(struct store *s, const struct store_id *name, const struct store_secret *secret, bool *right_kind)
{
	uint8_t wrap[STORE_KEY_BYTES];
	struct store_buf file = {0};
	struct key_file key;
	int rc = store_own_get(s, STORE_KEY, name, &file);

	*right_kind = false;
	if (rc == 0)
		rc = parse(&file, &key);
	if (rc == 0)
		*right_kind = key.kdf == (secret->key != NULL ? KDF_FILE : KDF_ARGON2ID);
	if (rc == 0 && *right_kind && (rc = wrapping_key(secret, &key, wrap)) == 0) {
		rc = store_unprotect(wrap, file.data, HEAD_BYTES, key.protected_data,
				     STORE_KEY_BYTES + STORE_PROTECTION_BYTES, s->master);
		store_wipe(wrap, sizeof(wrap));
		if (rc == 1)
			store_digest(file.data, file.size, s->key_digest);
	}
	store_buf_free(&file);
	return rc;
}

int store_key_find(struct store *s, const struct store_secret *secret)
{
	const char *what = secret->key != NULL ? "key file" : "password";
	char why[STORE_TEXT_BYTES] = "";
	struct store_listed *names;
	size_t count, tries = 0, damaged = 0;
	bool found = false, right_kind;
	int rc = store_list_all(s->backend, STORE_KEY, &names, &count);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count && !found && tries < TRIES_MAX; i++) {
		rc = try_key(s, &names[i].name, secret, &right_kind);
		tries += right_kind;
		found = rc == 1;
		if (found)
			s->key_name = names[i].name;
		if (rc == STORE_E_VERSION)
			break;
		if (rc < 0 && damaged++ == 0)
			snprintf(why, sizeof(why), "%s", store_message());
	}
	free(names);
	if (found) {
		store_derive(s);
		return 0;
	}
	if (rc == STORE_E_VERSION)
		return rc;
	if (count == 0)
		return store_fail(STORE_E_ABSENT,
				  "%s has no key left (keys/ is empty): nothing can be read without one",
				  s->backend->path);
	if (tries == 0 && damaged == 0)
		return store_fail(STORE_E_PASSWORD, "%s has no key that a %s opens", s->backend->path, what);
	if (damaged > 0)
		return store_fail(tries > damaged ? STORE_E_PASSWORD : STORE_E_DAMAGED,
				  "the %s opens no key of %s, of which %zu cannot be used: %s", what, s->backend->path,
				  damaged, why);
	return store_fail(STORE_E_PASSWORD, "wrong %s for %s", what, s->backend->path);
}

int store_key_list(struct store *s, struct store_key_info **list, size_t *count)
{
	struct store_listed *names;
	struct store_buf file = {0};
	size_t found, used = 0;
	int rc = store_list_all(s->backend, STORE_KEY, &names, &found);

	*list = NULL;
	*count = 0;
	if (rc != 0)
		return rc;
	*list = (struct store_key_info *)store_alloc(found * sizeof(**list));
	for (size_t i = 0; i < found && rc == 0; i++) {
		struct store_key_info *info = &(*list)[used];
		struct key_file key;

		rc = store_own_get(s, STORE_KEY, &names[i].name, &file);
		if (rc == 0)
			rc = parse(&file, &key);
		if (rc != 0)
			break;
		info->name = names[i].name;
		info->kdf = key.kdf;
		info->created = key.created;
		memcpy(info->label, key.label, sizeof(key.label));
		info->current = store_id_equal(&info->name, &s->key_name);
		used++;
	}
	*count = used;
	store_buf_free(&file);
	free(names);
	return rc;
}

int store_key_again(struct store *s)
{
	static const uint8_t none[sizeof(s->key_digest)] = {0};
	struct store_buf file = {0};
	struct store_listed *names;
	size_t count;
	uint64_t bytes;

	if (!s->encrypted || memcmp(s->key_digest, none, sizeof(none)) == 0)
		return 0;
	int rc = s->backend->ops->size(s->backend, STORE_KEY, &s->key_name, &bytes);
	if (rc != STORE_E_ABSENT)
		return rc;
	rc = store_list_all(s->backend, STORE_KEY, &names, &count);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		uint8_t digest[sizeof(s->key_digest)];

		if (store_own_get(s, STORE_KEY, &names[i].name, &file) != 0) /* what cannot be read opens nothing */
			continue;
		store_digest(file.data, file.size, digest);
		if (memcmp(digest, s->key_digest, sizeof(digest)) == 0)
			s->key_name = names[i].name;
	}
	free(names);
	store_buf_free(&file);
	return 0;
}

/*
 * A change of parity that was cut off leaves a key in two files with other parity: removing one of them would leave what it opens with open.
 * Of those the one that is named goes last, so that who is cut off here can name it again.
 */
int store_key_remove(struct store *s, const struct store_id *name)
{
	struct store_buf file = {0}, other = {0};
	struct store_listed *names;
	size_t count, twins = 0;
	int rc = store_list_all(s->backend, STORE_KEY, &names, &count);

	if (rc != 0)
		return rc;
	/* what cannot be read has no twin that could */
	const bool readable = store_own_get(s, STORE_KEY, name, &file) == 0;
	for (size_t i = 0; i < count && readable; i++) {
		const bool same = !store_id_equal(&names[i].name, name) &&
				  store_own_get(s, STORE_KEY, &names[i].name, &other) == 0 && other.size == file.size &&
				  memcmp(other.data, file.data, file.size) == 0;

		if (same)
			names[twins++].name = names[i].name;
	}
	if (count <= twins + 1)
		rc = store_fail(STORE_E_INVAL, "this is the last key: without it nothing could be read any more");
	for (size_t i = 0; i < twins && rc == 0; i++)
		rc = s->backend->ops->remove(s->backend, STORE_KEY, &names[i].name);
	if (rc == 0)
		rc = s->backend->ops->remove(s->backend, STORE_KEY, name);
	free(names);
	store_buf_free(&file);
	store_buf_free(&other);
	return rc == 0 ? s->backend->ops->settle(s->backend, STORE_KEY) : rc;
}

int store_key_replace(struct store *s, const struct store_secret *secret, struct store_id *name)
{
	const struct store_id old = s->key_name;
	uint64_t bytes;
	int rc = s->backend->ops->size(s->backend, STORE_KEY, &old, &bytes);

	if (rc == STORE_E_ABSENT) /* who has waited behind another change would open with two what one was to close */
		return store_fail(STORE_E_PASSWORD,
				  "the key that opened %s has been removed or changed meanwhile; no other one is made",
				  s->backend->path);
	if (rc == 0)
		rc = store_key_add(s, secret, name);
	return rc == 0 ? store_key_remove(s, &old) : rc;
}
