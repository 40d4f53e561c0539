/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that signal handlers may call must not allocate memory of the program's heap: the handler may have come in the middle of its
 * malloc(). handlers DIRECTORY: the first line is for the caller to mount something inside of it. Prints what allocated.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void __libc_free(void *memory);

static volatile bool in_handler; /* the compiler takes it that stat() and the like call nothing in here */
static volatile int uses;

void *malloc(size_t bytes)
{
	uses += in_handler;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	uses += in_handler;
	return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	uses += in_handler;
	return __libc_realloc(memory, bytes);
}

void free(void *memory)
{
	uses += in_handler && memory;
	__libc_free(memory);
}

#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		uses = 0;                                                                                              \
		in_handler = true;                                                                                     \
		const long rc_ = (call);                                                                               \
		in_handler = false;                                                                                    \
		printf("%s %s%s\n", #call, rc_ < 0 ? "failed" : "passed", uses ? ", and allocated" : "");              \
	} while (0)

int main(int count, char **arguments)
{
	struct stat st, before;
	char byte[8] = "text";
	int fd, other;

	if (count < 2 || chdir(arguments[1]) != 0)
		return 2;
	for (int round = 0; round < 2; round++) { /* the first connects */
		TRY(fd = open("handled", O_RDWR | O_CREAT | O_TRUNC, 0644));
		TRY(write(fd, byte, 4));
		TRY(lseek(fd, 0, SEEK_SET));
		TRY(read(fd, byte, 4));
		TRY(fstat(fd, &st));
		TRY(other = dup(fd));
		TRY(close(other));
		TRY(fsync(fd));
		TRY(ftruncate(fd, 1));
		TRY(fchmod(fd, 0600));
		TRY(close(fd));
		TRY(stat("handled", &st));
		TRY(access("handled", R_OK));
		TRY(rename("handled", "renamed"));
		TRY(link("renamed", "linked"));
		TRY(unlink("linked"));
		TRY(symlink("renamed", "link"));
		TRY(readlink("link", byte, sizeof(byte)));
		TRY(unlink("link"));
		TRY(mkdir("directory", 0755));
		TRY(rmdir("directory"));
		TRY(unlink("renamed"));
	}
	TRY(mkdir("inside", 0755));
	TRY(stat("inside", &before));
	printf("now\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 2;
	const time_t last = time(NULL) + 60; /* until the library has seen it */
	do {
		uses = 0;
		in_handler = true;
		const int rc = stat("inside", &st);
		in_handler = false;
		if (rc != 0 || uses) {
			printf("stat of a new mount %s\n", uses ? "allocated" : "failed");
			break;
		}
	} while (st.st_dev == before.st_dev && time(NULL) < last);
	printf("it was %sseen\n", st.st_dev == before.st_dev ? "not " : "");
	return 0;
}
