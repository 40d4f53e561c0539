/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Reader: fills the ring from a file, a pipe or a function, in a thread of its own. Files are read through io_uring,
 * several buffers at a time and with O_DIRECT; where the kernel or the file does not let it, with read(2). A file that fits
 * one buffer is read in the caller.
 *
 * A regular file is taken as it was when its reading began: the last buffer is passed on only after its size and
 * modification time were found unchanged, so an input that changed is never mistaken for a whole one.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chunk/chunker.h"

/* Reads in flight at most. */
#define DEPTH 8
/* What one read(2) asks for at most: files of /proc/sys refuse more than 4 MiB. */
#define READ_BYTES_MAX G4_MIB

/* ------------------------------------------------------------------------------------------------------- opening */

/* `error`: what the system said, 0: nothing. */
static int fail(struct shredder *s, int code, const char *what, int error)
{
	snprintf(s->message, sizeof(s->message), "%s: %s%s%s", what, shredder_strerror(code), error != 0 ? ": " : "",
		 error != 0 ? strerror(error) : "");
	return code;
}

int shredder_input_open(struct shredder *s, const char *path, int fd)
{
	const char *name = path != NULL ? path : "input";
	struct stat st;
	/* opening a FIFO would wait for its writer, and nobody could call that off; poll() waits for one, too (wait_readable()) */
	const int waits = path != NULL && stat(path, &st) == 0 && S_ISFIFO(st.st_mode) ? O_NONBLOCK : 0;

	s->fd = path == NULL ? fd : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | waits);
	s->fd_owned = path != NULL;
	s->direct = false;
	if (s->fd < 0) {
		s->fd_owned = false;
		return fail(s, SHREDDER_E_OPEN, name, path != NULL ? errno : EBADF);
	}

	int rc = 0;
	const int mode = fcntl(s->fd, F_GETFL);
	if (mode < 0 || fstat(s->fd, &st) != 0)
		rc = fail(s, SHREDDER_E_OPEN, name, errno);
	else if (S_ISDIR(st.st_mode))
		rc = fail(s, SHREDDER_E_ISDIR, name, 0);
	else if ((mode & O_ACCMODE) == O_WRONLY || (mode & O_PATH) != 0)
		rc = fail(s, SHREDDER_E_OPEN, name, EBADF);
	if (rc != 0 && s->fd_owned)
		close(s->fd);
	s->fd_owned = rc == 0 && path != NULL;
	return rc;
}

/* --------------------------------------------------------------------------------------------- what a file was */

struct source {
	struct shredder *s;
	struct stat st;	 /* when reading began */
	bool regular;	 /* of known size: it must not change */
	bool seekable;	 /* read by offset */
	uint64_t offset; /* where the next read begins */
	uint64_t read;	 /* bytes so far */
};

static void source_begin(struct source *source, struct shredder *s)
{
	memset(source, 0, sizeof(*source));
	source->s = s;
	if (s->read != NULL || fstat(s->fd, &source->st) != 0)
		return;
	const off_t at = lseek(s->fd, 0, SEEK_CUR);
	/* files of /proc have no size, and content all the same: they are read as streams are */
	source->regular = S_ISREG(source->st.st_mode) && source->st.st_size > 0;
	source->seekable = at >= 0 && (source->regular || S_ISBLK(source->st.st_mode));
	source->offset = source->seekable ? (uint64_t)at : 0;
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* At its end: is the file what it was? */
static bool source_unchanged(const struct source *source)
{
	const uint64_t size = (uint64_t)source->st.st_size;
	const uint64_t begin = source->offset - source->read;
	struct stat now;

	if (!source->regular)
		return true;
	return fstat(source->s->fd, &now) == 0 && now.st_size == source->st.st_size &&
	       same_time(now.st_mtim, source->st.st_mtim) && source->read == (begin < size ? size - begin : 0);
}

/* Passes on a buffer, the last one only of an unchanged file. */
static void pass_on(struct source *source, uint64_t bytes, bool last)
{
	struct shredder *s = source->s;
	const bool changed = last && !source_unchanged(source);

	pthread_mutex_lock(&s->lock);
	if (changed)
		shredder_fail(s, SHREDDER_E_CHANGED, "%s", shredder_strerror(SHREDDER_E_CHANGED));
	else if (s->error == 0)
		shredder_fill(s, bytes, last);
	pthread_mutex_unlock(&s->lock);
}

static void read_failed(struct source *source, int error)
{
	struct shredder *s = source->s;

	pthread_mutex_lock(&s->lock);
	shredder_fail(s, error == EISDIR ? SHREDDER_E_ISDIR : SHREDDER_E_IO, "%s: %s", shredder_strerror(SHREDDER_E_IO),
		      strerror(error));
	pthread_mutex_unlock(&s->lock);
}

/* The next slot; NULL when the input is given up. With `wait` false also when all are in use. */
static struct shredder_slot *next_slot(struct shredder *s, bool wait)
{
	struct shredder_slot *slot = NULL;

	pthread_mutex_lock(&s->lock);
	while (s->error == 0 && (slot = shredder_acquire(s)) == NULL && wait)
		shredder_wait(s);
	pthread_mutex_unlock(&s->lock);
	return slot;
}

static void add_read_time(struct shredder *s, uint64_t began_ns)
{
	const uint64_t took = shredder_now_ns() - began_ns;

	pthread_mutex_lock(&s->lock);
	s->stats.busy_ns[SHREDDER_STAGE_READ] += took;
	pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------------------------------------------- read(2) */

/* Waits until a pipe or socket has something to read; false when the input is given up. */
static bool wait_readable(struct shredder *s)
{
	struct pollfd fds[2] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->wake_fd, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0)
		if (errno != EINTR)
			return true; /* read() will say what is wrong */
	return fds[1].revents == 0;
}

/* Up to `bytes` bytes; 0 at the end, -1 on failure with errno, -2 when the input is given up. */
static int64_t read_some(struct source *source, uint8_t *to, uint64_t bytes)
{
	struct shredder *s = source->s;
	ssize_t got;

	if (s->read != NULL) {
		const int64_t answer = s->read(s->read_user, to, bytes);

		errno = EIO;
		return answer < 0 || (uint64_t)answer > bytes ? -1 : answer;
	}
	do {
		if (!source->seekable && !wait_readable(s))
			return -2;
		got = source->seekable ? pread(s->fd, to, bytes, (off_t)source->offset) : read(s->fd, to, bytes);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	return got;
}

/* Fills a buffer. 0, 1 at the end of the input, or negative when it is over because of an error. */
static int fill_by_read(struct source *source, uint8_t *to, uint64_t *bytes)
{
	struct shredder *s = source->s;
	const uint64_t began = shredder_now_ns();
	int end = 0;

	*bytes = 0;
	while (end == 0 && *bytes < s->buffer_bytes) {
		const int64_t got = read_some(source, to + *bytes, g4_min64(s->buffer_bytes - *bytes, READ_BYTES_MAX));

		if (got == -1)
			read_failed(source, errno);
		if (got < 0)
			return -1;
		*bytes += (uint64_t)got;
		source->offset += (uint64_t)got;
		source->read += (uint64_t)got;
		end = got == 0;
	}
	add_read_time(s, began);
	return end;
}

/* With `wait`, waits for free slots. False: there was none, and not the end either. */
static bool read_by_read(struct source *source, bool wait)
{
	struct shredder *s = source->s;
	struct shredder_slot *slot;
	uint64_t bytes;
	int end = 0;

	while (end == 0 && (slot = next_slot(s, wait)) != NULL) {
		end = fill_by_read(source, slot->memory + s->carry_bytes, &bytes);
		if (end >= 0)
			pass_on(source, bytes, end != 0);
	}
	return end != 0;
}

/* ------------------------------------------------------------------------------------------------------ io_uring */

/* A read that is under way into a slot. */
struct flight {
	uint8_t *to;
	uint64_t offset; /* in the file */
	uint64_t done;	 /* bytes that are there */
	int result;	 /* of the last completion */
	bool under_way;
};

struct uring {
	struct io_uring ring;
	struct flight flights[DEPTH];
	uint64_t begun, ended; /* how many were begun and passed on: flight n is flights[n % DEPTH] */
	uint64_t next_offset;
};

/* Asks for the rest of a buffer. */
static bool launch(struct source *source, struct uring *u, struct flight *flight)
{
	struct shredder *s = source->s;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (sqe == NULL)
		return false;
	io_uring_prep_read(sqe, s->fd, flight->to + flight->done, (unsigned)(s->buffer_bytes - flight->done),
			   flight->offset + flight->done);
	io_uring_sqe_set_data(sqe, flight);
	flight->under_way = true;
	return true;
}

/* Prepares a read for each free slot; waits for one when nothing is under way. */
static bool launch_all(struct source *source, struct uring *u)
{
	struct shredder *s = source->s;

	while (u->begun - u->ended < DEPTH) {
		struct shredder_slot *slot = next_slot(s, u->begun == u->ended);
		struct flight *flight = &u->flights[u->begun % DEPTH];

		if (slot == NULL)
			break;
		memset(flight, 0, sizeof(*flight));
		flight->to = slot->memory + s->carry_bytes;
		flight->offset = u->next_offset;
		if (!launch(source, u, flight))
			return false;
		u->next_offset += s->buffer_bytes;
		u->begun++;
	}
	return true;
}

/* Waits for one completion. */
static bool land(struct uring *u)
{
	struct io_uring_cqe *cqe;
	int rc;

	do {
		rc = io_uring_wait_cqe(&u->ring, &cqe);
	} while (rc == -EINTR);
	if (rc < 0)
		return false;
	struct flight *flight = (struct flight *)io_uring_cqe_get_data(cqe);
	flight->result = cqe->res;
	flight->under_way = false;
	io_uring_cqe_seen(&u->ring, cqe);
	return true;
}

/*
 * The oldest read has landed. 1: the buffer is full; 2: it ends the file; 0: the rest was asked for; negative: an error.
 * A read past the page cache that ends in the middle of a block stopped at the end of the file.
 */
static int judge(struct source *source, struct uring *u, struct flight *flight)
{
	struct shredder *s = source->s;

	if (flight->result == -EINVAL && s->direct) { /* the file system cannot do it for this place or at all */
		s->direct = false;
		if (fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) & ~O_DIRECT) != 0)
			return -errno;
		flight->result = -EAGAIN;
	}
	if (flight->result < 0 && flight->result != -EAGAIN && flight->result != -EINTR)
		return flight->result;
	if (flight->result == 0)
		return 2;
	flight->done += flight->result > 0 ? (uint64_t)flight->result : 0;
	if (flight->done == s->buffer_bytes)
		return 1;
	if (s->direct && flight->done % SHREDDER_DIRECT_ALIGN != 0)
		return 2;
	return launch(source, u, flight) && io_uring_submit(&u->ring) >= 0 ? 0 : -EIO;
}

/* Passes on the oldest read once it has landed. As judge(). */
static int pass_on_oldest(struct source *source, struct uring *u)
{
	struct flight *flight = &u->flights[u->ended % DEPTH];
	int verdict;

	if (io_uring_submit(&u->ring) < 0)
		return -EIO;
	do {
		while (flight->under_way)
			if (!land(u))
				return -EIO;
		verdict = judge(source, u, flight);
	} while (verdict == 0);
	if (verdict < 0)
		return verdict;
	source->offset += flight->done;
	source->read += flight->done;
	u->ended++;
	return verdict;
}

static void read_by_uring(struct source *source, struct uring *u)
{
	struct shredder *s = source->s;
	int verdict = 0;

	u->next_offset = source->offset;
	while (verdict != 2) {
		const struct flight *flight = &u->flights[u->ended % DEPTH];

		if (!launch_all(source, u)) {
			read_failed(source, EIO);
			break;
		}
		if (u->begun == u->ended) /* given up while it waited for a slot */
			break;
		const uint64_t began = shredder_now_ns();
		verdict = pass_on_oldest(source, u);
		add_read_time(s, began);
		if (verdict < 0) {
			read_failed(source, -verdict);
			break;
		}
		pass_on(source, flight->done, verdict == 2);
	}
	/* the buffers belong to the kernel until the reads beyond the end have landed, too */
	for (uint64_t i = u->ended; i < u->begun; i++)
		while (u->flights[i % DEPTH].under_way && land(u))
			;
}

/* ------------------------------------------------------------------------------------------------------- reader */

/* O_DIRECT where file system, offset and caller allow; the flag belongs to the caller's file, so only to our own. */
static void try_direct(struct source *source)
{
	struct shredder *s = source->s;

	if (!s->fd_owned || (s->flags & SHREDDER_NO_DIRECT) != 0 || source->offset % SHREDDER_DIRECT_ALIGN != 0)
		return;
	s->direct = fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_DIRECT) == 0;
}

static void *reader_main(void *chunker)
{
	struct shredder *s = (struct shredder *)chunker;
	struct source source;
	struct uring u;

	source_begin(&source, s);
	memset(&u, 0, sizeof(u));
	if (source.seekable && io_uring_queue_init(DEPTH, &u.ring, 0) == 0) {
		try_direct(&source);
		read_by_uring(&source, &u);
		io_uring_queue_exit(&u.ring);
	} else {
		read_by_read(&source, true);
	}
	return NULL;
}

/* What was to fit one buffer filled the whole ring. */
static void grew(struct shredder *s)
{
	pthread_mutex_lock(&s->lock);
	shredder_fail(s, SHREDDER_E_CHANGED, "%s", shredder_strerror(SHREDDER_E_CHANGED));
	pthread_mutex_unlock(&s->lock);
}

/* A regular file that is known to fit one buffer: no thread is worth it. */
static bool is_small(const struct shredder *s)
{
	struct stat st;

	return s->read == NULL && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	       (uint64_t)st.st_size < s->buffer_bytes;
}

int shredder_input_start(struct shredder *s)
{
	uint64_t value;

	while (read(s->wake_fd, &value, sizeof(value)) > 0) /* of the input before */
		;
	s->direct = false;
	if (is_small(s)) {
		struct source source;

		source_begin(&source, s);
		if (!read_by_read(&source, false))
			grew(s);
		return 0;
	}
	s->reader_runs = pthread_create(&s->reader, NULL, reader_main, s) == 0;
	return s->reader_runs ? 0 : SHREDDER_E_THREAD;
}

void shredder_input_stop(struct shredder *s)
{
	const uint64_t one = 1;

	if (s->reader_runs) {
		while (write(s->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		pthread_join(s->reader, NULL);
		s->reader_runs = false;
	}
	if (s->fd_owned)
		close(s->fd);
	s->fd_owned = false;
	s->fd = -1;
	s->read = NULL;
}
