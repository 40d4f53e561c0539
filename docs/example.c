/* SPDX-License-Identifier: Apache-2.0 */
/* cc example.c $(pkg-config --cflags --libs gpu4fs) -o example && ./example disk.img */
#include <gpu4fs/gpu4fs.h>
#include <stdio.h>
#include <stdlib.h>

static int64_t check(int64_t result, const char *what)
{
	if (result < 0) {
		const char *message = gpu4fs_last_message(); /* "" unless mounting failed */
		fprintf(stderr, "%s: %s\n", what, message[0] ? message : gpu4fs_strerror((int)result));
		exit(1);
	}
	return result;
}

int main(int argc, char **argv)
{
	const char *image = argc > 1 ? argv[1] : "mem:64M";
	struct gpu4fs_mkfs_options mkfs = {.size = sizeof(mkfs), .create_bytes = 64 << 20};
	struct gpu4fs_options options = {.size = sizeof(options), .format = argc > 1 ? NULL : &mkfs};
	struct gpu4fs_dirent entry;
	char text[64];
	gpu4fs *fs;
	gpu4fs_file *file;
	gpu4fs_dir *dir;

	check(gpu4fs_mount(&image, 1, &options, &fs), "mount");
	check(gpu4fs_open(fs, NULL, "/hello", O_RDWR | O_CREAT | O_TRUNC, 0644, &file), "open");
	check(gpu4fs_write(file, "Hello, file system!\n", 20), "write");
	check(gpu4fs_fsync(file), "fsync"); /* from here on it survives a power cut */
	printf("%.*s", (int)check(gpu4fs_pread(file, text, sizeof(text), 0), "read"), text);
	check(gpu4fs_close(file), "close");
	check(gpu4fs_opendir(fs, NULL, "/", GPU4FS_DIR_STAT, &dir), "opendir");
	while (check(gpu4fs_readdir(dir, &entry), "readdir") == 1)
		printf("%8lu %s\n", (unsigned long)entry.stat->size, entry.name);
	check(gpu4fs_closedir(dir), "closedir");
	check(gpu4fs_unmount(fs), "unmount");
	return 0;
}
