/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the engine works on a GPU. The CPU engine makes a file system in memory and mounts it; image and mounted state
 * move to the GPU, which works on them; then twice:
 *   crash   only the image comes back, as after a power cut behind the last commit: the CPU engine replays the journal
 *           that the GPU wrote;
 *   clean   the mounted state comes back as well and the CPU engine unmounts it.
 * Each time the CPU engine compares every file with what the GPU was to write, and fsck checks the image.
 *
 * Usage: smoke [WARPS [FILES]]   (default: 256 warps, 40 files each). Exit status: 0 good, 1 not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "dev/dev_host.h"
#include "dev/dev_types.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "gpu/smoke.h"
#include "simt/simt_host.h"

#define IMAGE_NAME "smoke.img"
#define CACHE_BYTES (128 * G4_MIB)

struct smoke {
	struct g4_wg *wg;
	struct g4_dev *dev;
	struct g4_fs *fs;
	uint8_t *gpu_image, *gpu_fs;
	uint32_t warps, files;
};

static const struct g4_cred root = {.umask = 022};

static bool fail(const char *what, int code)
{
	fprintf(stderr, "smoke: %s: %s\n", what, g4_strerror(code));
	return false;
}

/* ------------------------------------------------------------------ there and back */

static bool mount(struct smoke *s)
{
	struct g4_fs_options options = {.cache_bytes = CACHE_BYTES};
	char message[256];
	int rc = g4_fs_mount(s->wg, s->dev, &options, &s->fs, message, sizeof(message));

	return rc == 0 || fail(message, rc);
}

static bool make(struct smoke *s)
{
	const struct g4_dev_open_options open = {.queues = 0};
	const struct g4_mkfs_options options = {.label = "smoke"};
	struct g4_superblock sb;
	char message[256];
	int rc = g4_dev_open("mem:1G", &open, &s->dev, message, sizeof(message));

	if (rc == 0)
		rc = g4_mkfs(s->dev, &options, &sb, message, sizeof(message));
	return rc == 0 ? mount(s) : fail(message, rc);
}

/* The bytes between the mounted state and its place on the GPU. */
static intptr_t distance(const struct smoke *s)
{
	return (intptr_t)s->gpu_fs - (intptr_t)s->fs;
}

static bool move_there(struct smoke *s)
{
	const uint64_t bytes = s->fs->memory_bytes, image_bytes = s->dev->props.size_bytes;
	struct g4_dev dev = *s->dev;

	if (!s->gpu_fs)
		s->gpu_fs = smoke_gpu_alloc(bytes + sizeof(dev)); /* behind it the device */
	if (!s->gpu_image)
		s->gpu_image = smoke_gpu_alloc(image_bytes);
	if (!s->gpu_fs || !s->gpu_image)
		return false;
	dev.map = s->gpu_image;
	dev.host = NULL;
	g4_fs_moved(s->fs, distance(s), (struct g4_dev *)(s->gpu_fs + bytes));
	return smoke_gpu_put(s->gpu_fs, s->fs, bytes) && smoke_gpu_put(s->gpu_fs + bytes, &dev, sizeof(dev)) &&
	       smoke_gpu_put(s->gpu_image, s->dev->map, image_bytes);
}

static bool image_back(struct smoke *s)
{
	return smoke_gpu_get(s->dev->map, s->gpu_image, s->dev->props.size_bytes);
}

static bool state_back(struct smoke *s)
{
	if (!smoke_gpu_get(s->fs, s->gpu_fs, s->fs->memory_bytes))
		return false;
	g4_fs_moved(s->fs, -distance(s), s->dev);
	return true;
}

/* ------------------------------------------------------------------ what the CPU engine finds */

static int look_up(struct smoke *s, uint64_t node, const char *name, uint16_t bytes, struct g4_attr *attr)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_LOOKUP, .node = node, .name = name, .name_bytes = bytes, .attr = attr, .cred = &root};
	return g4_execute(s->wg, s->fs, &cmd);
}

static bool check_file(struct smoke *s, uint64_t node, const char *name, uint16_t bytes, uint64_t seed, uint64_t size)
{
	struct g4_attr attr;
	int rc = look_up(s, node, name, bytes, &attr);
	uint8_t *data = malloc(size + 1);
	struct g4_cmd read = {.op = G4_CMD_READ, .node = attr.ino, .data = data, .length = size + 1};
	bool good = data != NULL && rc == 0 && g4_execute(s->wg, s->fs, &read) == 0 && read.value == size;

	for (uint64_t i = 0; good && i < size; i++)
		good = data[i] == smoke_byte(seed, i);
	free(data);
	if (!good)
		fprintf(stderr, "smoke: the file %.*s is not what the GPU was to write\n", bytes, name);
	return good;
}

static bool check_directory(struct smoke *s, uint32_t warp)
{
	char name[16];
	struct g4_attr dir, attr;
	uint32_t entries = 0;
	int rc = look_up(s, G4_NODE_ROOT, name, smoke_name(name, 'w', warp), &dir);

	if (rc < 0)
		return fail("the directory of a warp", rc);
	for (uint32_t f = 0; f < s->files; f++) {
		bool removed = smoke_is_removed(f), renamed = !removed && smoke_is_renamed(f);
		if (look_up(s, dir.ino, name, smoke_name(name, renamed ? 'f' : 'g', f), &attr) != -G4_E_NOENT)
			return fail("a name that must not be there", -G4_E_EXIST);
		uint16_t bytes = smoke_name(name, renamed ? 'g' : 'f', f);
		if (removed && look_up(s, dir.ino, name, bytes, &attr) != -G4_E_NOENT)
			return fail("a removed file", -G4_E_EXIST);
		if (!removed && !check_file(s, dir.ino, name, bytes, smoke_seed(warp, f), smoke_bytes(warp, f)))
			return false;
		entries += !removed;
	}
	return entries > 0 || s->files == 0 || fail("no file was left", -G4_E_NOENT);
}

static bool check_contents(struct smoke *s)
{
	bool good = check_file(s, G4_NODE_ROOT, "kept", 4, 3, SMOKE_KEPT_BYTES);

	for (uint32_t warp = 0; warp < s->warps && good; warp++)
		good = check_directory(s, warp);
	return good;
}

/* fsck as the gpu4fs program has it, in a process of its own: it is made to run once. */
static int run_fsck(void)
{
	char program[] = "fsck", image[] = IMAGE_NAME;
	char *arguments[] = {program, image, NULL};
	int status = -1;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		status = g4_cli_fsck(2, arguments);
		fflush(stdout);
		_exit(status);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static bool check_image(struct smoke *s)
{
	FILE *file = fopen(IMAGE_NAME, "wb");
	const uint64_t bytes = s->dev->props.size_bytes;
	bool written = file && fwrite(s->dev->map, 1, bytes, file) == bytes;

	written = file && fclose(file) == 0 && written;
	int status = written ? run_fsck() : -1;
	unlink(IMAGE_NAME);
	if (status != 0)
		fprintf(stderr, "smoke: the image %s\n",
			written ? "has problems" : "could not be written to " IMAGE_NAME);
	return status == 0;
}

/* ------------------------------------------------------------------ */

static bool on_the_gpu(struct smoke *s, bool checkpoint)
{
	struct smoke_report report;
	const uint32_t files = s->warps * s->files;

	if (!smoke_gpu_run(s->gpu_fs, s->warps, s->files, checkpoint, &report))
		return false;
	if (report.failed) {
		fprintf(stderr, "smoke: smoke.cu:%u, warp %u: got %lld, expected %lld\n", report.line, report.warp,
			(long long)report.got, (long long)report.wanted);
		if (report.got < 0)
			fprintf(stderr, "smoke: that is: %s\n", g4_strerror((int)report.got));
		return false;
	}
	printf("GPU: script %.1f ms; %u warps, %u files made, written, read: %.1f ms (%.0f files/s); commit %.1f ms; "
	       "%llu commits, %llu checkpoints\n",
	       report.script_ms, s->warps, files, report.many_ms, files / report.many_ms * 1000.0, report.sync_ms,
	       (unsigned long long)report.commits, (unsigned long long)report.checkpoints);
	return true;
}

static bool round_trip(struct smoke *s, bool crash)
{
	if (!make(s) || !move_there(s) || !on_the_gpu(s, !crash) || !image_back(s))
		return false;
	int rc = 0;
	if (crash)
		rc = g4_fs_unmount(s->wg, s->fs, false);
	else
		rc = state_back(s) ? g4_fs_unmount(s->wg, s->fs, true) : -G4_E_IO;
	if (rc < 0)
		return fail("unmounting", rc);
	if (!mount(s))
		return false;
	bool good = check_contents(s);
	rc = g4_fs_unmount(s->wg, s->fs, true);
	if (rc < 0)
		return fail("unmounting again", rc);
	good = good && check_image(s);
	g4_dev_close(s->dev);
	if (good)
		printf("%s: all files are right\n", crash ? "crash" : "clean");
	return good;
}

int main(int argc, char **argv)
{
	struct smoke s = {.warps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 256,
			  .files = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 40};

	if (s.warps == 0 || s.warps > 4096 || s.files == 0 || s.files > 100000 || !(s.wg = g4_wg_create(0))) {
		fprintf(stderr, "usage: smoke [WARPS [FILES]]\n");
		return 1;
	}
	bool good = round_trip(&s, true) && round_trip(&s, false);
	g4_wg_destroy(s.wg);
	puts(good ? "1 passed, 0 failed, 0 skipped" : "0 passed, 1 failed, 0 skipped");
	return good ? 0 : 1;
}
