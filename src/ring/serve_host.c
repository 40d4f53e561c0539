/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the socket: one thread accepts, greets, passes doorbells on and notices clients that are gone. Nothing there
 * waits for a client: sockets are not blocking, a client that does not greet in time is dropped, and what has to wait
 * for commands under way, ending a session, happens in a thread of its own. A session has its slot until that is done:
 * a client that leaves running commands behind does not get more sessions by that.
 */
#include "ring/serve_host.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log_host.h"
#include "base/thread_host.h"
#include "fs/node.h"
#include "ring/client_host.h"
#include "ring/session_host.h"
#include "simt/simt.h"

#define MAX_CLIENTS 64u
#define LIMIT_CLIENTS 4096u
#define MAX_DATA_BYTES (128 * G4_MIB)
#define GREETING_NS (UINT64_C(5) * 1000 * 1000 * 1000)
#define LOOK_MS 1000
#define REST_NS (UINT64_C(1000) * 1000 * 1000) /* without new clients, when there are no descriptors */
#define EVENTS 16
#define MESSAGES_AT_ONCE 64 /* of one client, before others have their turn */

struct client { /* a slot for one */
	struct g4_server *server;
	int fd;	     /* -1: nobody, or gone */
	bool ending; /* its commands may still run: the slot is not free. Guarded by the server's lock */
	uint32_t uid;
	struct g4_session_host *session;
	uint64_t since_ns; /* until it has greeted: when it came */
};

struct g4_server {
	const struct g4_session_engine *engine;
	struct g4_server_options options;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	int listener, events, stop_event;
	int mounts; /* the table of mounts, which is ready when it has changed; -1: nobody cares */
	pthread_t thread;
	struct client *clients;
	uint64_t rest_until_ns; /* the listener is not watched; 0: it is */

	pthread_mutex_t lock; /* of the two counters and client.ending */
	pthread_cond_t idle;
	uint32_t count;	  /* sessions */
	uint32_t closing; /* threads that end one */
};

/* ------------------------------------------------------------------ ending sessions */

static void *end_session(void *argument)
{
	struct client *client = argument;
	struct g4_server *server = client->server;

	g4_session_shut(client->session);
	pthread_mutex_lock(&server->lock);
	client->ending = false;
	server->closing--;
	pthread_cond_broadcast(&server->idle);
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

/* In a thread of its own, for it waits for the client's commands; here where there is none to be had. */
static void start_ending(struct client *client)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int rc = pthread_attr_init(&attributes);

	if (rc == 0) {
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		rc = pthread_create(&thread, &attributes, end_session, client);
		pthread_attr_destroy(&attributes);
	}
	if (rc != 0)
		end_session(client);
}

static void drop_client(struct g4_server *server, struct client *client)
{
	close(client->fd); /* which takes it out of the epoll set */
	client->fd = -1;
	pthread_mutex_lock(&server->lock);
	server->count--;
	server->closing += client->session != NULL;
	client->ending = client->session != NULL;
	pthread_mutex_unlock(&server->lock);
	if (client->session)
		start_ending(client);
}

/* ------------------------------------------------------------------ greeting */

/* The user at the other end, as the kernel says. */
static int identify(int fd, struct g4_cred *cred)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	gid_t groups[1024];
	socklen_t group_bytes = sizeof(groups);

	memset(cred, 0, sizeof(*cred));
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return -G4_E_ACCES;
	cred->uid = peer.uid;
	cred->gid = peer.gid;
	/* a client with more groups than the engine looks at has the first ones, as in an embedded session */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &group_bytes) != 0)
		return 0;
	for (uint32_t i = 0; i < group_bytes / sizeof(groups[0]) && i < G4_CRED_MAX_GROUPS; i++)
		cred->groups[cred->group_count++] = groups[i];
	return 0;
}

/* epochs: their descriptor, or -1. */
static int send_welcome(int fd, const struct g4_session_host *session, int epochs, const struct g4_welcome *welcome)
{
	char control[CMSG_SPACE(3 * sizeof(int))] = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)welcome, .iov_len = sizeof(*welcome)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (session) {
		message.msg_control = control;
		const int fds[3] = {g4_session_ring_fd(session), g4_session_data_fd(session), epochs};
		const size_t bytes = (epochs < 0 ? 2 : 3) * sizeof(int);
		message.msg_controllen = CMSG_SPACE(bytes);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(head), fds, bytes);
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*welcome) ? 0 : -G4_E_IO;
}

static int check_hello(const struct g4_hello *hello)
{
	return hello->magic == G4_HELLO_MAGIC && hello->version == G4_HELLO_VERSION ? 0 : -G4_E_INVAL;
}

static int open_session(struct g4_server *server, struct client *client, const struct g4_hello *hello,
			struct g4_welcome *welcome)
{
	struct g4_session_options options = {.entries = server->options.entries, .handles = server->options.handles};
	uint64_t most = server->options.max_data_bytes ? server->options.max_data_bytes : MAX_DATA_BYTES;
	int rc = identify(client->fd, &options.cred);

	if (rc == 0)
		rc = check_hello(hello);
	if (rc < 0)
		return rc;
	options.cred.umask = hello->umask & 0777u;
	options.flags = options.cred.uid == 0 ? G4_SESSION_MAY_ACT : 0;
	options.data_bytes = hello->data_bytes ? hello->data_bytes : G4_RING_DEFAULT_DATA_BYTES;
	options.data_bytes = g4_align_up(g4_min64(options.data_bytes, most), G4_PAGE_BYTES);
	rc = g4_session_open(server->engine, &options, &client->session);
	if (rc < 0)
		return rc;
	welcome->ring_bytes = g4_session_ring_bytes(client->session);
	welcome->data_bytes = g4_session_data_bytes(client->session);
	welcome->uid = options.cred.uid;
	welcome->gid = options.cred.gid;
	welcome->group_count = options.cred.group_count;
	memcpy(welcome->groups, options.cred.groups, sizeof(options.cred.groups));
	return 0;
}

static void tell_of_mount(struct g4_server *server, struct g4_welcome *welcome)
{
	struct g4_mounted mounted = {0};

	if (server->options.mounted)
		server->options.mounted(server->options.context, &mounted);
	if (!mounted.is_there)
		return;
	welcome->features |= G4_WELCOME_MOUNT | (mounted.hands_over ? G4_WELCOME_HANDS_OVER : 0);
	welcome->mount_device = mounted.device;
	welcome->mount_ino = mounted.ino;
}

/* False: there is no session, or it cannot be told. */
static bool greet(struct g4_server *server, struct client *client, const struct g4_hello *hello)
{
	struct g4_welcome welcome = {.magic = G4_HELLO_MAGIC, .version = G4_HELLO_VERSION};
	const bool looks = hello->umask & G4_HELLO_LOOKS;
	int epochs = -1;

	welcome.status = looks ? check_hello(hello) : open_session(server, client, hello, &welcome);
	if (client->session && (hello->umask & G4_HELLO_EPOCHS) && server->engine->epochs)
		epochs = server->engine->epochs(server->engine->context);
	welcome.features = epochs < 0 ? 0 : G4_WELCOME_EPOCHS;
	if (welcome.status == 0)
		tell_of_mount(server, &welcome);
	return send_welcome(client->fd, client->session, epochs, &welcome) == 0 && client->session;
}

/* ------------------------------------------------------------------ handing descriptors over */

static int open_handle(struct g4_server *server, struct client *client, const struct g4_hand_over_ask *ask)
{
	struct g4_session *session = g4_session_of(client->session);
	uint64_t handle;
	int rc;

	if (ask->magic != G4_HELLO_MAGIC || (ask->flags & ~(uint32_t)G4_HAND_OVER_FLAGS))
		return -G4_E_INVAL;
	if (!server->options.hand_over || !server->engine->unuse_handle)
		return -G4_E_NOTSUP;
	rc = g4_session_use_handle(session, ask->handle, &handle);
	if (rc < 0)
		return rc;
	uint32_t flags = ask->flags;
	if (!(g4_handle_flags(handle) & G4_OPEN_NOATIME)) /* owners have it, which an open looks at */
		flags &= ~(uint32_t)O_NOATIME;
	rc = server->options.hand_over(server->options.context, handle, flags);
	(void)server->engine->unuse_handle(server->engine->context, session,
					   ask->handle); /* or it is used until the end */
	return rc;
}

static bool hand_over(struct g4_server *server, struct client *client, const struct g4_hand_over_ask *ask)
{
	int fd = open_handle(server, client, ask);
	const struct g4_hand_over_answer answer = {.magic = G4_HELLO_MAGIC, .status = fd < 0 ? fd : 0};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec part = {.iov_base = (void *)(uintptr_t)&answer, .iov_len = sizeof(answer)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &fd, sizeof(int));
	}
	bool sent = sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(answer);
	if (fd >= 0)
		close(fd);
	return sent;
}

/* ------------------------------------------------------------------ the loop */

/* What a client sent. False: it goes. */
static bool receive(struct g4_server *server, struct client *client)
{
	struct g4_hello hello;
	uint64_t buffer[8];
	bool rung = false;

	for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
		ssize_t bytes = recv(client->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
		if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (bytes <= 0)
			return false;
		if (client->session && bytes == sizeof(struct g4_hand_over_ask)) {
			if (!hand_over(server, client, (const struct g4_hand_over_ask *)buffer))
				return false;
			continue;
		}
		if (client->session) {
			if (bytes != sizeof(uint64_t))
				return false;
			rung = true;
			continue;
		}
		if (bytes != sizeof(hello))
			return false;
		memcpy(&hello, buffer, sizeof(hello));
		if (!greet(server, client, &hello))
			return false;
	}
	if (rung)
		g4_session_rung(client->session);
	return true;
}

/* A free slot; NULL: there is none, or not for this user. */
static struct client *find_slot(struct g4_server *server, uint32_t uid)
{
	const uint32_t most = server->options.max_clients, share = (most + 1) / 2;
	struct client *slot = NULL;
	uint32_t own = 0;

	pthread_mutex_lock(&server->lock);
	for (uint32_t i = 0; i < most; i++) {
		struct client *client = &server->clients[i];
		if (client->fd < 0 && !client->ending)
			slot = client;
		else
			own += client->uid == uid;
	}
	pthread_mutex_unlock(&server->lock);
	return uid == 0 || own < share ? slot : NULL;
}

static int seat_client(struct g4_server *server, int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return -G4_E_ACCES;
	struct client *client = find_slot(server, peer.uid);
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = client};
	if (!client)
		return -G4_E_BUSY;
	if (epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event) != 0)
		return -G4_E_NOMEM;
	*client = (struct client){.server = server, .fd = fd, .uid = peer.uid, .since_ns = g4_monotonic_ns()};
	pthread_mutex_lock(&server->lock);
	server->count++;
	pthread_mutex_unlock(&server->lock);
	return 0;
}

/* The listener stays readable as long as somebody waits there, and would wake us without end. */
static void rest(struct g4_server *server)
{
	epoll_ctl(server->events, EPOLL_CTL_DEL, server->listener, NULL);
	server->rest_until_ns = g4_monotonic_ns() + REST_NS;
}

static void accept_client(struct g4_server *server)
{
	struct g4_welcome refusal = {.magic = G4_HELLO_MAGIC, .version = G4_HELLO_VERSION};
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			rest(server);
		return;
	}
	refusal.status = seat_client(server, fd);
	if (refusal.status < 0) {
		send_welcome(fd, NULL, -1, &refusal);
		close(fd);
	}
}

static void drop_silent_clients(struct g4_server *server)
{
	uint64_t now = g4_monotonic_ns();

	for (uint32_t i = 0; i < server->options.max_clients; i++) {
		struct client *client = &server->clients[i];
		if (client->fd >= 0 && !client->session && now - client->since_ns > GREETING_NS)
			drop_client(server, client);
	}
}

static bool some_are_silent(const struct g4_server *server)
{
	for (uint32_t i = 0; i < server->options.max_clients; i++)
		if (server->clients[i].fd >= 0 && !server->clients[i].session)
			return true;
	return false;
}

/* What is mounted inside of the server's mount is no part of it, and nobody asks the engine before that is done. */
static void tell_of_mounts(struct g4_server *server)
{
	for (uint32_t i = 0; i < server->options.max_clients; i++)
		if (server->clients[i].fd >= 0 && server->clients[i].session)
			g4_session_mounts_changed(server->clients[i].session);
}

static int watch(struct g4_server *server, int fd, void *what)
{
	/* the table of mounts can be read at all times, and has an exceptional condition when it has changed */
	struct epoll_event event = {.events = what == &server->mounts ? EPOLLPRI : EPOLLIN, .data.ptr = what};

	return epoll_ctl(server->events, EPOLL_CTL_ADD, fd, &event);
}

static void end_rest(struct g4_server *server)
{
	if (server->rest_until_ns && g4_monotonic_ns() >= server->rest_until_ns &&
	    watch(server, server->listener, &server->listener) == 0)
		server->rest_until_ns = 0;
}

static void *run(void *argument)
{
	struct g4_server *server = argument;
	struct epoll_event events[EVENTS];

	for (;;) {
		bool waits = server->rest_until_ns || some_are_silent(server);
		int count = epoll_wait(server->events, events, EVENTS, waits ? LOOK_MS : -1);
		for (int i = 0; i < count; i++) {
			struct client *client = events[i].data.ptr;
			if (events[i].data.ptr == &server->stop_event)
				return NULL;
			if (events[i].data.ptr == &server->listener)
				accept_client(server);
			else if (events[i].data.ptr == &server->mounts)
				tell_of_mounts(server);
			else if (client->fd >= 0 && !receive(server, client))
				drop_client(server, client);
		}
		drop_silent_clients(server);
		end_rest(server);
	}
}

/* ------------------------------------------------------------------ starting and stopping */

static int fail(char *message, size_t bytes, int code, const char *what, const char *path)
{
	snprintf(message, bytes, "%s: %s: %s", path, what, strerror(errno));
	return code;
}

/* A socket of that name that nobody listens to is left from a server that was killed. */
static bool is_leftover(const struct sockaddr_un *address)
{
	struct stat stat;
	int fd;
	bool refused;

	if (lstat(address->sun_path, &stat) != 0 || !S_ISSOCK(stat.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
		  errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return refused;
}

static int listen_at(struct g4_server *server, char *message, size_t message_bytes)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = server->options.path;

	if (strlen(path) >= sizeof(address.sun_path)) {
		snprintf(message, message_bytes, "%s: the name is too long for a socket", path);
		return -G4_E_NAMETOOLONG;
	}
	strcpy(address.sun_path, path);
	strcpy(server->path, path);
	server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listener < 0)
		return fail(message, message_bytes, -G4_E_NOMEM, "no socket", path);
	if (is_leftover(&address))
		unlink(path);
	if (bind(server->listener, (struct sockaddr *)&address, sizeof(address)) != 0) {
		server->path[0] = 0; /* not ours to remove */
		return fail(message, message_bytes, errno == EADDRINUSE ? -G4_E_BUSY : -G4_E_INVAL,
			    errno == EADDRINUSE ? "another server listens there, or it is no socket" :
						  "cannot make the socket",
			    path);
	}
	if (chmod(path, server->options.mode ? server->options.mode : 0666) != 0 || listen(server->listener, 128) != 0)
		return fail(message, message_bytes, -G4_E_IO, "cannot listen", path);
	return 0;
}

static void free_server(struct g4_server *server)
{
	const int fds[] = {server->listener, server->events, server->stop_event, server->mounts};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (server->path[0])
		unlink(server->path);
	pthread_cond_destroy(&server->idle);
	pthread_mutex_destroy(&server->lock);
	free(server->clients);
	free(server);
}

int g4_server_start(const struct g4_session_engine *engine, const struct g4_server_options *options,
		    struct g4_server **out, char *message, size_t message_bytes)
{
	struct g4_server *server = calloc(1, sizeof(*server));
	int rc;

	snprintf(message, message_bytes, "cannot serve: %s", g4_strerror(-G4_E_NOMEM));
	if (!server)
		return -G4_E_NOMEM;
	server->engine = engine;
	server->options = *options;
	server->options.max_clients =
		(uint32_t)g4_min64(options->max_clients ? options->max_clients : MAX_CLIENTS, LIMIT_CLIENTS);
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->idle, NULL);
	server->listener = -1;
	server->mounts = options->mounted ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1;
	server->events = epoll_create1(EPOLL_CLOEXEC);
	server->stop_event = eventfd(0, EFD_CLOEXEC);
	server->clients = calloc(server->options.max_clients, sizeof(*server->clients));
	rc = server->events < 0 || server->stop_event < 0 || !server->clients ? -G4_E_NOMEM : 0;
	for (uint32_t i = 0; rc == 0 && i < server->options.max_clients; i++)
		server->clients[i].fd = -1;
	if (rc == 0)
		rc = listen_at(server, message, message_bytes);
	if (rc == 0 && (watch(server, server->listener, &server->listener) != 0 ||
			watch(server, server->stop_event, &server->stop_event) != 0 ||
			(server->mounts >= 0 && watch(server, server->mounts, &server->mounts) != 0) ||
			g4_thread_start(&server->thread, run, server) != 0))
		rc = -G4_E_NOMEM;
	if (rc < 0) {
		free_server(server);
		return rc;
	}
	*out = server;
	return 0;
}

void g4_server_stop(struct g4_server *server)
{
	const uint64_t one = 1;

	/* an eventfd takes this as long as its counter does not overflow */
	while (write(server->stop_event, &one, sizeof(one)) != sizeof(one))
		;
	pthread_join(server->thread, NULL);
	for (uint32_t i = 0; i < server->options.max_clients; i++)
		if (server->clients[i].fd >= 0)
			drop_client(server, &server->clients[i]);
	pthread_mutex_lock(&server->lock);
	while (server->closing > 0)
		pthread_cond_wait(&server->idle, &server->lock);
	pthread_mutex_unlock(&server->lock);
	free_server(server);
}

uint32_t g4_server_clients(struct g4_server *server)
{
	pthread_mutex_lock(&server->lock);
	uint32_t count = server->count + server->closing;
	pthread_mutex_unlock(&server->lock);
	return count;
}
