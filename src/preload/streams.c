/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory streams of the process, and all that it has open becoming the kernel's. One of our streams begins with a word that the
 * C library's cannot begin with, and positions are those of the kernel's listing through the mount: so it can go on as the C library's
 * own, at the place where it was.
 *
 * The list has a lock of its own, taken before any other.
 */
#include "preload/streams.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct g4p_stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

void g4p_stream_add(struct g4p_stream *stream)
{
	pthread_mutex_lock(&streams_lock);
	stream->next = streams;
	stream->link = &streams;
	if (streams)
		streams->link = &stream->next;
	streams = stream;
	pthread_mutex_unlock(&streams_lock);
}

void g4p_stream_remove(struct g4p_stream *stream)
{
	pthread_mutex_lock(&streams_lock);
	*stream->link = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	pthread_mutex_unlock(&streams_lock);
}

void g4p_streams_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&streams_lock);
	else
		pthread_mutex_unlock(&streams_lock);
}

/* Each stream goes on as the C library's, in both processes of a fork. */
static void settle_stream(struct g4p_stream *stream)
{
	struct g4p_file *file = stream->file;

	if (stream->real || !file || g4p_settle_file(file) != 0)
		return;
	stream->real = G4P_NEXT(fdopendir)(stream->fd);
	if (!stream->real)
		return;
	if (stream->position)
		G4P_NEXT(seekdir)(stream->real, stream->position);
	gpu4fs_closedir(stream->dir);
	stream->dir = NULL;
	stream->file = NULL;
	g4p_put(file);
}

static void settle_streams(void)
{
	pthread_mutex_lock(&streams_lock);
	for (struct g4p_stream *stream = streams; stream; stream = stream->next)
		settle_stream(stream);
	pthread_mutex_unlock(&streams_lock);
}

/*
 * What cannot be settled is nothing's in another program; and here when the engine would take this process for somebody else, or another
 * process has the same numbers. A fork's child sees to it itself (g4p_files_forked()).
 */
static void settle_for(struct g4p_file *file, enum g4p_number number)
{
	g4p_count(number, G4P_SETTLED_ANSWER);
	if (g4p_settle_file(file) == 0)
		return;
	if (number == G4P_credentials || number == G4P_clone)
		g4p_lose_file(file);
	else if (number == G4P_exec || number == G4P_spawn)
		g4p_hide_file(file);
}

void g4p_settle_all(bool kept_by_exec, enum g4p_number number)
{
	struct g4p_calm calm;
	bool calmed = g4p_calm(&calm);

	/* an open that was under way when the mount was set off has its place in the table by now, or sees that in give_number() */
	g4p_files_lock(true);
	g4p_files_lock(false);
	if (!kept_by_exec)
		settle_streams();
	for (int fd = 0; fd < g4p_files_end(); fd++) {
		struct g4p_file *file = g4p_get(fd);

		if (!file)
			continue;
		if (!kept_by_exec || !((int)syscall(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC))
			settle_for(file, number);
		g4p_put(file);
	}
	if (calmed)
		g4p_restless(&calm);
}
