/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the public API do with files, whatever the file system is behind it: api_fixture.c has that, or tests/preload/api_calls.c. */
#include "api_fixture.h"

void api_image(const char *name, uint64_t bytes)
{
	FILE *image;

	unlink(name);
	image = fopen(name, "w");
	assert_non_null(image);
	assert_int_equal(ftruncate(fileno(image), (off_t)bytes), 0);
	fclose(image);
}

void api_expect(int64_t result, int64_t wanted, const char *text, const char *file, int line)
{
	if (result == wanted)
		return;
	print_error("%s\n\tgave %lld (%s), not %lld (%s)\n", text, (long long)result,
		    result <= 0 ? gpu4fs_strerror((int)result) : "a count", (long long)wanted,
		    wanted <= 0 ? gpu4fs_strerror((int)wanted) : "a count");
	_fail(file, line);
}

/* ------------------------------------------------------------------ files */

gpu4fs_file *api_open_as(gpu4fs *session, const char *path, int flags, uint32_t mode)
{
	gpu4fs_file *file = NULL;
	int rc = gpu4fs_open(session, NULL, path, flags, mode, &file);

	if (rc) {
		print_error("open %.80s: %s\n", path, gpu4fs_strerror(rc));
		fail();
	}
	return file;
}

gpu4fs_file *api_open(const char *path, int flags, uint32_t mode)
{
	return api_open_as(fs, path, flags, mode);
}

void api_touch(const char *path, uint32_t mode)
{
	gpu4fs_file *file = api_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	ok(gpu4fs_fchmod(file, mode));
	ok(gpu4fs_close(file));
}

void api_pattern(void *to, uint64_t seed, uint64_t offset, size_t bytes)
{
	unsigned char *out = to;

	for (size_t i = 0; i < bytes; i++) {
		uint64_t word =
			((offset + i) / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xd1342543de82ef95);

		word = (word ^ word >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
		word ^= word >> 32;
		out[i] = (unsigned char)(word >> (offset + i) % 8 * 8);
	}
}

uint64_t api_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
	gpu4fs_file *file = api_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	gives(gpu4fs_write(file, data, bytes), bytes);
	ok(gpu4fs_close(file));
}

void api_write_text(const char *path, const char *text)
{
	write_file(path, text, strlen(text));
}

void api_write_pattern(const char *path, uint64_t seed, size_t bytes)
{
	void *data = malloc(bytes + 1);

	api_pattern(data, seed, 0, bytes);
	write_file(path, data, bytes);
	free(data);
}

void api_check_bytes(gpu4fs_file *file, const void *wanted, size_t bytes)
{
	unsigned char *found = malloc(bytes + 1);
	struct gpu4fs_stat stat;

	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(stat.size, bytes);
	gives(gpu4fs_pread(file, found, bytes + 1, 0), bytes);
	for (size_t i = 0; i < bytes; i++) {
		if (found[i] != ((const unsigned char *)wanted)[i]) {
			print_error("byte %zu of %zu is %02x, not %02x\n", i, bytes, found[i],
				    ((const unsigned char *)wanted)[i]);
			fail();
		}
	}
	free(found);
}

static void check_file(const char *path, const void *wanted, size_t bytes)
{
	gpu4fs_file *file = api_open(path, O_RDONLY, 0);

	api_check_bytes(file, wanted, bytes);
	ok(gpu4fs_close(file));
}

void api_check_text(const char *path, const char *text)
{
	check_file(path, text, strlen(text));
}

void api_check_pattern(const char *path, uint64_t seed, size_t bytes)
{
	void *data = malloc(bytes + 1);

	api_pattern(data, seed, 0, bytes);
	check_file(path, data, bytes);
	free(data);
}

struct gpu4fs_stat api_lstat(const char *path)
{
	struct gpu4fs_stat stat = {0};
	int rc = gpu4fs_lstat(fs, NULL, path, &stat);

	if (rc) {
		print_error("lstat %.80s: %s\n", path, gpu4fs_strerror(rc));
		fail();
	}
	return stat;
}

bool api_exists(const char *path)
{
	struct gpu4fs_stat stat;
	int rc = gpu4fs_lstat(fs, NULL, path, &stat);

	assert_true(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

uint32_t api_count_names(const char *path)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	uint32_t count = 0;
	int rc;

	ok(gpu4fs_opendir(fs, NULL, path, 0, &dir));
	while ((rc = gpu4fs_readdir(dir, &entry)) == 1)
		count++;
	ok(rc);
	ok(gpu4fs_closedir(dir));
	return count;
}
