/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the socket (serve_host.h has the protocol). */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ring/client_host.h"
#include "ring/epochs_host.h"
#include "ring/serve_host.h"

#define ANSWER_MS 10000
#define FDS 3 /* that come with an answer, at most */
/* A call that a signal handler of the program has interrupted is made again. */
#define AGAIN(call)                                                                                                    \
	({                                                                                                             \
		__typeof__(call) again_;                                                                               \
		do                                                                                                     \
			again_ = (call);                                                                               \
		while (again_ < 0 && errno == EINTR);                                                                  \
		again_;                                                                                                \
	})

struct g4_connection {
	pthread_mutex_t asking; /* one question at a time: an answer does not say to which it belongs */
	bool unanswered;	/* a question has had no answer: whatever comes now may be that */
	int fd;
	void *ring, *data;
	uint64_t ring_bytes, data_bytes;
	struct g4_ring_client *client;
	const uint64_t *epochs; /* NULL: the server tells none */
	struct g4_mounted mounted;
};

void g4_connection_close(struct g4_connection *connection)
{
	g4_ring_client_free(connection->client);
	if (connection->ring)
		munmap(connection->ring, connection->ring_bytes);
	if (connection->data)
		munmap(connection->data, connection->data_bytes);
	g4_epochs_unmap(connection->epochs);
	if (connection->fd >= 0)
		close(connection->fd);
	pthread_mutex_destroy(&connection->asking);
	free(connection);
}

int g4_connection_socket(const struct g4_connection *connection)
{
	return connection->fd;
}

int g4_connection_move_socket(struct g4_connection *connection, int least)
{
	const int old = connection->fd, moved = fcntl(old, F_DUPFD_CLOEXEC, least);

	if (moved < 0)
		return -1;
	connection->fd = moved;
	g4_ring_client_watch(connection->client, moved, moved);
	return old;
}

/* Whatever else belongs to it may be locked by a thread that this process does not have. */
void g4_connection_forsake(struct g4_connection *connection, bool shared)
{
	munmap(connection->ring, connection->ring_bytes);
	munmap(connection->data, connection->data_bytes);
	g4_epochs_unmap(connection->epochs);
	connection->epochs = NULL;
	if (!shared)
		close(connection->fd);
}

void g4_connection_end(struct g4_connection *connection)
{
	g4_ring_client_stop(connection->client);
	shutdown(connection->fd, SHUT_RDWR); /* the thread that waits for an answer has the lock */
	pthread_mutex_lock(&connection->asking);
	connection->unanswered = true;
	g4_ring_client_watch(connection->client, -1, -1);
	close(connection->fd);
	connection->fd = -1;
	pthread_mutex_unlock(&connection->asking);
}

struct g4_ring_client *g4_connection_ring(const struct g4_connection *connection)
{
	return connection->client;
}

const uint64_t *g4_connection_epochs(const struct g4_connection *connection)
{
	return connection->epochs;
}

const struct g4_mounted *g4_connection_mounted(const struct g4_connection *connection)
{
	return &connection->mounted;
}

/* ------------------------------------------------------------------ connecting */

static int fail(char *message, size_t bytes, const char *path, int code, const char *why)
{
	snprintf(message, bytes, "%s: cannot connect: %s", path, why);
	return code;
}

static int reach(const char *path, int *fd, char *message, size_t message_bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		return fail(message, message_bytes, path, -G4_E_NAMETOOLONG, "the name is too long for a socket");
	strcpy(address.sun_path, path);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*fd >= 0 && AGAIN(connect(*fd, (struct sockaddr *)&address, sizeof(address))) == 0)
		return 0;
	return fail(message, message_bytes, path,
		    errno == ENOENT	  ? -G4_E_NOENT :
		    errno == EACCES	  ? -G4_E_ACCES :
		    errno == ECONNREFUSED ? -G4_E_DEV_OPEN :
					    -G4_E_IO,
		    errno == ECONNREFUSED ? "no server listens there" : strerror(errno));
}

/*
 * Waits for an answer of `least` to `most` bytes and takes its descriptors out of it; those that are not there are -1. room: as in
 * g4_connection_hand_over().
 */
static int receive(int fd, void *answer_bytes, size_t least, size_t most, int fds[FDS], const struct g4_make_room *room)
{
	union {
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = {.iov_base = answer_bytes, .iov_len = most};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	struct pollfd answer = {.fd = fd, .events = POLLIN};

	fds[0] = fds[1] = fds[2] = -1;
	if (AGAIN(poll(&answer, 1, ANSWER_MS)) != 1)
		return -G4_E_IO;
	if (room) /* what the kernel leaves out of a message for want of a number is lost, so room is made before */
		room->make(room->context);
	ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	/* a server that refused us and hung up before it saw the greeting: its answer lies behind the error */
	if (bytes < 0 && errno == ECONNRESET)
		bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = bytes >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len <= CMSG_LEN(FDS * sizeof(int)))
		memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	if (bytes < (ssize_t)least)
		return -G4_E_IO;
	return fds[0] < 0 && (message.msg_flags & MSG_CTRUNC) ? -G4_E_NO_NUMBER : 0;
}

static int receive_welcome(int fd, struct g4_welcome *welcome, int fds[FDS])
{
	memset(welcome, 0, sizeof(*welcome)); /* what an older server does not send */
	int rc = receive(fd, welcome, offsetof(struct g4_welcome, mount_device), sizeof(*welcome), fds, NULL);
	if (rc < 0)
		return rc;
	if (welcome->magic != G4_HELLO_MAGIC || welcome->version != G4_HELLO_VERSION)
		return -G4_E_INVAL;
	return welcome->status < 0 ? welcome->status : 0;
}

static struct g4_mounted mounted_of(const struct g4_welcome *welcome)
{
	return (struct g4_mounted){.is_there = welcome->features & G4_WELCOME_MOUNT,
				   .hands_over = welcome->features & G4_WELCOME_HANDS_OVER,
				   .device = welcome->mount_device,
				   .ino = welcome->mount_ino};
}

static void close_all(const int fds[FDS])
{
	for (int i = 0; i < FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Says hello, of which `asks` is the last part but one, and waits for the answer. */
static int say_hello(int fd, uint32_t asks, uint64_t data_bytes, struct g4_welcome *welcome, int fds[FDS])
{
	const struct g4_hello hello = {G4_HELLO_MAGIC, G4_HELLO_VERSION, asks, data_bytes};

	/* one that does not want us may have answered and hung up already */
	if (AGAIN(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL)) != sizeof(hello) && errno != EPIPE)
		return -G4_E_IO;
	return receive_welcome(fd, welcome, fds);
}

static void *map(int fd, uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int greet(struct g4_connection *c, uint32_t umask, uint64_t data_bytes, struct g4_cred *own)
{
	struct g4_welcome welcome;
	int fds[FDS] = {-1, -1, -1};
	int rc = say_hello(c->fd, (umask & 0777u) | G4_HELLO_EPOCHS, data_bytes, &welcome, fds);

	if (rc == 0 && (fds[0] < 0 || fds[1] < 0 || welcome.group_count > 64))
		rc = -G4_E_IO;
	if (rc == 0) {
		c->ring_bytes = welcome.ring_bytes;
		c->data_bytes = welcome.data_bytes;
		c->ring = map(fds[0], c->ring_bytes);
		c->data = map(fds[1], c->data_bytes);
		rc = c->ring && c->data ? 0 : -G4_E_NOMEM;
		if ((welcome.features & G4_WELCOME_EPOCHS) && fds[2] >= 0)
			c->epochs = g4_epochs_map(fds[2]);
		c->mounted = mounted_of(&welcome);
		*own = (struct g4_cred){
			.uid = welcome.uid, .gid = welcome.gid, .umask = umask, .group_count = welcome.group_count};
		memcpy(own->groups, welcome.groups, sizeof(own->groups));
	}
	close_all(fds);
	return rc;
}

static int why_not(const char *path, int rc, char *message, size_t message_bytes)
{
	return fail(message, message_bytes, path, rc,
		    rc == -G4_E_BUSY ? "the server has no place for another client of this user" : g4_strerror(rc));
}

int g4_connect(const char *path, uint32_t umask, uint64_t data_bytes, struct g4_connection **out, char *message,
	       size_t message_bytes)
{
	struct g4_connection *c = calloc(1, sizeof(*c));
	struct g4_cred own;
	int rc;

	if (!c)
		return fail(message, message_bytes, path, -G4_E_NOMEM, "out of memory");
	pthread_mutex_init(&c->asking, NULL);
	c->fd = -1;
	rc = reach(path, &c->fd, message, message_bytes);
	if (rc == 0) {
		rc = greet(c, umask, data_bytes, &own);
		if (rc == 0 && c->data_bytes >= G4_RING_MIN_DATA_BYTES)
			c->client = g4_ring_client_new(c->ring, c->data, c->fd, c->fd, &own);
		if (rc == 0 && !c->client)
			rc = -G4_E_NOMEM;
		if (rc < 0)
			why_not(path, rc, message, message_bytes);
	}
	if (rc < 0)
		g4_connection_close(c);
	else
		*out = c;
	return rc;
}

int g4_connect_to_look(const char *path, struct g4_mounted *mounted, char *message, size_t message_bytes)
{
	struct g4_welcome welcome;
	int fds[FDS] = {-1, -1, -1}, fd = -1;
	int rc = reach(path, &fd, message, message_bytes);

	if (rc == 0) {
		rc = say_hello(fd, G4_HELLO_LOOKS, 0, &welcome, fds);
		if (rc < 0)
			why_not(path, rc, message, message_bytes);
	}
	if (rc == 0)
		*mounted = mounted_of(&welcome);
	close_all(fds); /* an older server has made a session, which ends here */
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ------------------------------------------------------------------ a descriptor of the kernel */

static int ask(int fd, const struct g4_hand_over_ask *question, int fds[FDS], const struct g4_make_room *room)
{
	struct g4_hand_over_answer answer = {0};
	int rc;

	if (AGAIN(send(fd, question, sizeof(*question), MSG_NOSIGNAL)) != sizeof(*question))
		return -G4_E_IO;
	rc = receive(fd, &answer, sizeof(answer), sizeof(answer), fds, room);
	if (rc != -G4_E_IO && answer.magic != G4_HELLO_MAGIC)
		rc = -G4_E_IO;
	if (rc == 0)
		rc = answer.status;
	return rc == 0 && fds[0] < 0 ? -G4_E_IO : rc;
}

int g4_connection_hand_over(struct g4_connection *connection, uint64_t handle, uint32_t flags,
			    const struct g4_make_room *room)
{
	const struct g4_hand_over_ask question = {G4_HELLO_MAGIC, handle, flags & G4_HAND_OVER_FLAGS, 0};
	int fds[FDS] = {-1, -1, -1};
	int rc;

	pthread_mutex_lock(&connection->asking);
	rc = connection->unanswered ? -G4_E_IO : ask(connection->fd, &question, fds, room);
	connection->unanswered = rc == -G4_E_IO;
	pthread_mutex_unlock(&connection->asking);
	if (rc < 0 && fds[0] >= 0)
		close(fds[0]);
	close_all((const int[FDS]){-1, fds[1], fds[2]});
	return rc < 0 ? rc : fds[0];
}
