/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ways to one engine at the same time, and one order of all that they do (tests/engine/linear.h): commands in the server's own
 * process, a program through the library, a program on the mount. In rounds; the workers meet at barriers in memory that they share.
 *
 *     linear prepare SHARED                           makes that memory, a file
 *     linear serve SHARED IMAGE MOUNTPOINT OPTIONS    a mount whose process has a worker beside the threads of FUSE and of the rings
 *     linear work SHARED NUMBER DIRECTORY             another worker, by calls of the C library
 *     linear judge SHARED DIRECTORY ROUNDS            makes the rounds and judges them; says how many there were in which steps overlapped
 *     linear count SHARED DIRECTORY                   looks at one file of the mount often; says how many lookups and looks at attributes were commands
 *
 * What the kernel does by several requests is of no single moment on any mount, and not asked of it here: a rename (it looks both names up and
 * compares what it found before it asks), the links that lstat(2) tells (a lookup, and then attributes by number), a listing with its end. A
 * directory's rename is the kernel's in the library, too, so that a round has directories or renames. All directories are alike.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/linear.h"
#include "fs/command.h"
#include "fuse/fuse.h"
#include "ring/serve_host.h"

#define DIRECTORY 1u /* stands for the number of each directory's inode */
#define ENOUGH 200u  /* rounds in which steps overlap */
#define LOOKS 1000

enum way { IN_PROCESS, LIBRARY, MOUNT };

struct shared {
	pthread_barrier_t ready, begin, end; /* of all workers and the judge */
	uint64_t now;			     /* a common clock */
	uint64_t round;
	uint64_t over;		       /* no more rounds */
	uint64_t asked;		       /* LOOKUP and GETATTR that threads of FUSE gave the engine */
	uint64_t directories[2], file; /* inodes' numbers, for the worker that has no paths */
	struct linear_step steps[LINEAR_WORKERS][LINEAR_STEPS];
};

static struct shared *shared;
static struct g4_engine *engine; /* of the server's process */

static void must(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "linear: %s: %s\n", what, strerror(errno));
		exit(2);
	}
}

static void map_shared(const char *name)
{
	const int fd = open(name, O_RDWR | O_CLOEXEC);

	must(fd >= 0, name);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(shared != MAP_FAILED, name);
	close(fd);
}

/* The engine's code for errno, of those that may come; what else comes is in no state. */
static int code_of(int error)
{
	static const struct {
		int error, code;
	} codes[] = {{ENOENT, -G4_E_NOENT}, {EEXIST, -G4_E_EXIST}, {EISDIR, -G4_E_ISDIR}, {ENOTDIR, -G4_E_NOTDIR}};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].error == error)
			return codes[i].code;
	return -10000 - error;
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* ------------------------------------------------------------------ by calls of the C library */

struct hands { /* what a worker has in its hands */
	enum way way;
	int top, file, known; /* known: a file that it made in this round, -1: none */
	uint64_t known_ino;
};

static const char *path_of(uint32_t place)
{
	static const char *const paths[] = {"d0/a", "d0/b", "d1/a", "d1/b"};

	return paths[place];
}

static void make(struct hands *hands, struct linear_step *step)
{
	struct stat st;
	const int fd = openat(hands->top, path_of(step->place), O_RDWR | O_CREAT | O_EXCL, 0600);

	step->code = fd < 0 ? code_of(errno) : 0;
	if (fd < 0)
		return;
	if (hands->known >= 0)
		close(hands->known);
	hands->known = fd;
	step->ino = hands->known_ino = fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void look(struct hands *hands, struct linear_step *step)
{
	struct stat st;

	step->code = fstatat(hands->top, path_of(step->place), &st, AT_SYMLINK_NOFOLLOW) != 0 ? code_of(errno) : 0;
	if (step->code == 0) {
		step->half_told = hands->way == MOUNT || S_ISDIR(st.st_mode);
		step->ino = S_ISDIR(st.st_mode) ? DIRECTORY : st.st_ino;
		step->value = st.st_nlink;
	}
}

/* Of a whole page that was read. */
static uint64_t value_of(const uint8_t *page, int64_t done)
{
	if (done != 0 && done != 4096)
		return 1000 + (uint64_t)done; /* no state is like that */
	for (int64_t k = 1; k < done; k++)
		if (page[k] != page[0])
			return 10000;
	return done ? page[0] : 256;
}

static void perform(struct hands *hands, struct linear_step *step)
{
	const char *path = path_of(step->place);
	uint8_t page[4096];
	struct stat st;
	int64_t done;

	switch (step->verb) {
	case LINEAR_MAKE:
		make(hands, step);
		return;
	case LINEAR_MAKE_DIR:
		done = mkdirat(hands->top, path, 0700);
		step->ino = DIRECTORY;
		break;
	case LINEAR_UNLINK:
		done = unlinkat(hands->top, path, 0);
		break;
	case LINEAR_RMDIR:
		done = unlinkat(hands->top, path, AT_REMOVEDIR);
		break;
	case LINEAR_RENAME:
	case LINEAR_NOREPLACE:
	case LINEAR_EXCHANGE:
		done = renameat2(hands->top, path, hands->top, path_of(step->to),
				 step->verb == LINEAR_RENAME	? 0 :
				 step->verb == LINEAR_NOREPLACE ? RENAME_NOREPLACE :
								  RENAME_EXCHANGE);
		break;
	case LINEAR_LOOKUP:
		look(hands, step);
		return;
	case LINEAR_STAT:
		step->ino = hands->known_ino;
		done = fstat(hands->known, &st);
		step->value = st.st_nlink;
		break;
	case LINEAR_WRITE:
		memset(page, step->byte, sizeof(page));
		done = pwrite(hands->file, page, sizeof(page), 0) == sizeof(page) ? 0 : -1;
		break;
	case LINEAR_READ:
		done = pread(hands->file, page, sizeof(page), 0);
		step->value = value_of(page, done);
		break;
	default:
		done = ftruncate(hands->file, 0);
		break;
	}
	step->code = done < 0 ? code_of(errno) : 0;
}

/* ------------------------------------------------------------------ by commands */

/* The linker has these called in place of the functions (cmake/G4Tests.cmake): threads of FUSE are seen, and their engine is the worker's, too. */
int __real_g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd);
int __wrap_g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd);
int __real_g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
				  char *message, size_t message_bytes);
int __wrap_g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
				  char *message, size_t message_bytes);

int __wrap_g4_engine_execute(struct g4_engine *of, struct g4_cmd *cmd)
{
	if (shared && (cmd->op == G4_CMD_LOOKUP || cmd->op == G4_CMD_GETATTR))
		__atomic_fetch_add(&shared->asked, 1, __ATOMIC_RELAXED);
	return __real_g4_engine_execute(of, cmd);
}

static void perform_here(struct linear_step *step)
{
	const uint64_t dir = shared->directories[step->place / 2], dir2 = shared->directories[step->to / 2];
	struct g4_attr attr = {0};
	struct g4_cred root = {0};
	uint8_t page[4096];
	struct g4_cmd cmd = {
		.cred = &root, .node = dir, .name = step->place % 2 ? "b" : "a", .name_bytes = 1, .attr = &attr};

	switch (step->verb) {
	case LINEAR_MAKE:
	case LINEAR_MAKE_DIR:
		cmd.op = step->verb == LINEAR_MAKE ? G4_CMD_MKNOD : G4_CMD_MKDIR;
		cmd.mode = step->verb == LINEAR_MAKE ? G4_S_IFREG | 0600 : 0700;
		break;
	case LINEAR_UNLINK:
		cmd.op = G4_CMD_UNLINK;
		break;
	case LINEAR_RMDIR:
		cmd.op = G4_CMD_RMDIR;
		break;
	case LINEAR_RENAME:
	case LINEAR_NOREPLACE:
	case LINEAR_EXCHANGE:
		cmd.op = G4_CMD_RENAME;
		cmd.node2 = dir2;
		cmd.name2 = step->to % 2 ? "b" : "a";
		cmd.name2_bytes = 1;
		cmd.flags = step->verb == LINEAR_RENAME	   ? 0 :
			    step->verb == LINEAR_NOREPLACE ? G4_RENAME_NOREPLACE :
							     G4_RENAME_EXCHANGE;
		break;
	case LINEAR_LOOKUP:
		cmd.op = G4_CMD_LOOKUP;
		break;
	case LINEAR_WRITE:
	case LINEAR_READ:
		cmd = (struct g4_cmd){.op = step->verb == LINEAR_WRITE ? G4_CMD_WRITE : G4_CMD_READ,
				      .cred = &root,
				      .node = shared->file,
				      .length = sizeof(page),
				      .data = page};
		memset(page, step->byte, sizeof(page));
		break;
	default:
		cmd = (struct g4_cmd){
			.op = G4_CMD_SETATTR, .cred = &root, .node = shared->file, .mask = G4_SET_SIZE, .attr = &attr};
		break;
	}
	step->code = __real_g4_engine_execute(engine, &cmd);
	if (step->verb == LINEAR_MAKE || step->verb == LINEAR_LOOKUP) {
		step->ino = g4_is_dir(attr.mode) ? DIRECTORY : attr.ino;
		step->half_told = g4_is_dir(attr.mode);
		step->value = attr.nlink;
	}
	if (step->verb == LINEAR_MAKE_DIR)
		step->ino = DIRECTORY;
	if (step->verb == LINEAR_READ)
		step->value = value_of(page, (int64_t)cmd.value);
}

/* ------------------------------------------------------------------ rounds */

static const enum linear_verb with_directories[] = {LINEAR_MAKE,  LINEAR_MAKE_DIR, LINEAR_UNLINK,
						    LINEAR_RMDIR, LINEAR_LOOKUP,   LINEAR_LOOKUP,
						    LINEAR_WRITE, LINEAR_READ,	   LINEAR_CUT};
static const enum linear_verb with_renames[] = {LINEAR_MAKE,	  LINEAR_MAKE,	   LINEAR_UNLINK, LINEAR_RENAME,
						LINEAR_NOREPLACE, LINEAR_EXCHANGE, LINEAR_LOOKUP, LINEAR_LOOKUP,
						LINEAR_STAT,	  LINEAR_WRITE,	   LINEAR_READ,	  LINEAR_CUT};

static enum linear_verb choose_verb(const struct hands *hands, uint64_t random)
{
	const bool directories = shared->round % 2;
	enum linear_verb verb =
		directories ? with_directories[random % (sizeof(with_directories) / sizeof(with_directories[0]))] :
			      with_renames[random % (sizeof(with_renames) / sizeof(with_renames[0]))];

	if (verb == LINEAR_STAT && hands->known < 0)
		return LINEAR_LOOKUP;
	if (hands->way == MOUNT && (verb == LINEAR_RENAME || verb == LINEAR_NOREPLACE || verb == LINEAR_EXCHANGE))
		return LINEAR_UNLINK;
	return verb;
}

static void work(struct hands *hands, struct linear_step *steps)
{
	uint64_t random = 0x9e3779b97f4a7c15 * (1 + hands->way);

	for (;;) {
		pthread_barrier_wait(&shared->ready);
		if (shared->over)
			return;
		if (hands->known >= 0)
			close(hands->known);
		hands->known = -1;
		pthread_barrier_wait(&shared->begin);
		for (uint32_t s = 0; s < LINEAR_STEPS; s++) {
			struct linear_step *step = &steps[s];
			const uint64_t chance = next_random(&random);

			*step = (struct linear_step){.verb = choose_verb(hands, chance >> 40),
						     .place = (uint32_t)(chance >> 8) % LINEAR_PLACES,
						     .to = (uint32_t)(chance >> 16) % LINEAR_PLACES,
						     .byte = (uint8_t)(chance >> 24)};
			step->begun = __atomic_fetch_add(&shared->now, 1, __ATOMIC_SEQ_CST);
			if (hands->way == IN_PROCESS)
				perform_here(step);
			else
				perform(hands, step);
			step->ended = __atomic_fetch_add(&shared->now, 1, __ATOMIC_SEQ_CST);
		}
		pthread_barrier_wait(&shared->end);
	}
}

static int work_by_calls(const char *name, int number, const char *directory)
{
	struct hands hands = {.way = (enum way)number, .known = -1};

	map_shared(name);
	hands.top = open(directory, O_RDONLY | O_DIRECTORY);
	hands.file = openat(hands.top, "file", O_RDWR);
	must(hands.top >= 0 && hands.file >= 0, directory);
	work(&hands, shared->steps[number]);
	return 0;
}

/* ------------------------------------------------------------------ the server */

static void *work_here(void *argument)
{
	struct hands hands = {.way = IN_PROCESS, .known = -1};

	(void)argument;
	work(&hands, shared->steps[IN_PROCESS]);
	return NULL;
}

int __wrap_g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
				  char *message, size_t message_bytes)
{
	const int rc = __real_g4_engine_mount_device(dev, options, out, message, message_bytes);
	pthread_t thread;

	if (rc != 0)
		return rc;
	engine = *out;
	must(pthread_create(&thread, NULL, work_here, NULL) == 0 && pthread_detach(thread) == 0, "a thread");
	return 0;
}

static int serve(const char *name, const char *image, const char *mountpoint, const char *words)
{
	struct g4_fuse_options options;
	const char *const devices[] = {image};

	map_shared(name);
	g4_fuse_options_init(&options);
	options.devices = devices;
	options.device_count = 1;
	options.mountpoint = mountpoint;
	options.foreground = true;
	char message[200];
	must(g4_fuse_parse_options(words, &options, message, sizeof(message)) == 0, "options");
	return g4_fuse_main(&options);
}

/* ------------------------------------------------------------------ the judge */

static void observe(int top, struct linear_state *state)
{
	uint8_t page[4096];
	struct stat st;
	const int fd = openat(top, "file", O_RDONLY);

	*state = (struct linear_state){.byte = value_of(page, pread(fd, page, sizeof(page), 0))};
	close(fd);
	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		if (fstatat(top, path_of(p), &st, AT_SYMLINK_NOFOLLOW) == 0)
			linear_put(state, p, S_ISDIR(st.st_mode) ? DIRECTORY : st.st_ino, S_ISDIR(st.st_mode));
}

static void clear(int top)
{
	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		if (unlinkat(top, path_of(p), 0) != 0 && errno == EISDIR)
			must(unlinkat(top, path_of(p), AT_REMOVEDIR) == 0, path_of(p));
}

/* Makes the shared memory, before anybody works. */
static int prepare(const char *name)
{
	const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	pthread_barrierattr_t between;

	must(fd >= 0 && ftruncate(fd, sizeof(*shared)) == 0, name);
	close(fd);
	map_shared(name);
	pthread_barrierattr_init(&between);
	pthread_barrierattr_setpshared(&between, PTHREAD_PROCESS_SHARED);
	must(pthread_barrier_init(&shared->ready, &between, LINEAR_WORKERS + 1) == 0, "a barrier");
	must(pthread_barrier_init(&shared->begin, &between, LINEAR_WORKERS + 1) == 0, "a barrier");
	must(pthread_barrier_init(&shared->end, &between, LINEAR_WORKERS + 1) == 0, "a barrier");
	return 0;
}

static int judge(const char *name, const char *directory, unsigned long rounds)
{
	struct linear_round round;
	struct linear_state start, found;
	unsigned long overlapped = 0, made = 0;
	struct stat st;
	const int top = open(directory, O_RDONLY | O_DIRECTORY);
	int wrong = 0;

	map_shared(name);
	for (int d = 0; d < 2; d++)
		shared->directories[d] = fstatat(top, d ? "d1" : "d0", &st, 0) == 0 ? st.st_ino : 0;
	shared->file = fstatat(top, "file", &st, 0) == 0 ? st.st_ino : 0;
	for (int w = 0; w < (int)LINEAR_WORKERS; w++)
		round.steps[w] = shared->steps[w];
	for (; !wrong && (made < rounds || (overlapped < ENOUGH && made < 50 * rounds)); made++) {
		shared->round = made;
		pthread_barrier_wait(&shared->ready);
		clear(top);
		observe(top, &start);
		pthread_barrier_wait(&shared->begin);
		pthread_barrier_wait(&shared->end);
		wrong = !linear_check(&round, &start);
		overlapped += linear_overlaps(&round);
		observe(top, &found);
		if (wrong || !linear_may_end_in(&round, &found)) {
			printf("round %lu: no order of these operations %s\n", made,
			       wrong ? "gives these answers" : "ends in what is there");
			linear_print(stdout, &round, &start);
			wrong = 1;
		}
	}
	shared->over = 1;
	pthread_barrier_wait(&shared->ready);
	printf("%lu rounds, operations overlapped in %lu\n", made, overlapped);
	return wrong ? 1 : overlapped ? 0 : 3;
}

/* Nothing changes meanwhile: what the server keeps of it holds. */
static int count_commands(const char *name, const char *directory)
{
	const int top = open(directory, O_RDONLY | O_DIRECTORY);
	struct stat st;

	map_shared(name);
	must(fstatat(top, "file", &st, 0) == 0, directory);
	const uint64_t before = shared->asked;
	for (int k = 0; k < LOOKS; k++)
		must(fstatat(top, "file", &st, 0) == 0, directory);
	printf("%lu\n", (unsigned long)(shared->asked - before));
	return 0;
}

int main(int count, char **arguments)
{
	if (count == 3 && !strcmp(arguments[1], "prepare"))
		return prepare(arguments[2]);
	if (count == 6 && !strcmp(arguments[1], "serve"))
		return serve(arguments[2], arguments[3], arguments[4], arguments[5]);
	if (count == 5 && !strcmp(arguments[1], "work"))
		return work_by_calls(arguments[2], atoi(arguments[3]), arguments[4]);
	if (count == 5 && !strcmp(arguments[1], "judge"))
		return judge(arguments[2], arguments[3], strtoul(arguments[4], NULL, 10));
	if (count == 4 && !strcmp(arguments[1], "count"))
		return count_commands(arguments[2], arguments[3]);
	fprintf(stderr, "linear: see its source\n");
	return 2;
}
