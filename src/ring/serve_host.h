/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving an engine to other processes over a Unix socket, and connecting to one that is served. Host only.
 *
 * The socket is of type SOCK_SEQPACKET. A client sends one struct g4_hello; the answer is one struct g4_welcome, with the
 * descriptors of ring and data area (SCM_RIGHTS) where status is 0, and of the epochs if it says so. It also says of which mount the server is a part.
 * A client that only asks for that (G4_HELLO_LOOKS) gets the welcome, no session, and the connection's end. A server without a place for it answers
 * -G4_E_BUSY at once and hangs up. After a welcome the client sends 8 bytes of anything when it finds G4_RING_DOORBELL in its ring, and the
 * connection's end is the session's end, for both sides. It may also send a struct g4_hand_over_ask: where the server has
 * a mount of the same file system, the answer is a struct g4_hand_over_answer with the kernel's descriptor of what the client
 * has open under that handle, opened anew by the server, so that neither the file's name nor its mode matters any more. The
 * server learns from the kernel which user the client is (SO_PEERCRED, SO_PEERGROUPS).
 */
#ifndef G4_SERVE_HOST_H
#define G4_SERVE_HOST_H

#include <fcntl.h>

#include "base/base.h"

struct g4_session_engine;
struct g4_server;

#define G4_HELLO_MAGIC UINT64_C(0x6f6c6c6568736667) /* "gfshello" */
#define G4_HELLO_VERSION 2u
/* Of hello.umask: the client would like to see the engine's epochs (inode/trail.h). A server that does not know of it does nothing. */
#define G4_HELLO_EPOCHS (1u << 31)
/* Of hello.umask: the client wants to know of the server's mount and no more. A server that does not know of it makes a session. */
#define G4_HELLO_LOOKS (1u << 30)
/* Of welcome.features */
#define G4_WELCOME_EPOCHS 1u	 /* a third descriptor has them, to be mapped for reading */
#define G4_WELCOME_MOUNT 2u	 /* mount_device and mount_ino are known */
#define G4_WELCOME_HANDS_OVER 4u /* the kernel's descriptors are handed over of that mount's files */
#define G4_HAND_OVER_FLAGS (O_APPEND | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_NONBLOCK)

struct g4_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t umask;	     /* for new files, where a command brings no credentials; and G4_HELLO_EPOCHS */
	uint64_t data_bytes; /* wanted; 0: the server's choice */
};

struct g4_welcome {
	uint64_t magic;
	uint32_t version;
	int32_t status; /* 0 or a negative code */
	uint64_t ring_bytes;
	uint64_t data_bytes;
	uint32_t uid, gid; /* as the server knows the client */
	uint32_t group_count;
	uint32_t groups[64];
	uint32_t features; /* G4_WELCOME_*; 0 of servers that do not know of any */
	/* of the root of a mount of the same file system, as stat(2) says them; servers that do not know of it end before them */
	uint64_t mount_device, mount_ino;
};

/* What a server says of its mount. */
struct g4_mounted {
	bool is_there;
	bool hands_over;      /* G4_WELCOME_HANDS_OVER */
	uint64_t device, ino; /* of its root */
};

struct g4_hand_over_ask {
	uint64_t magic; /* G4_HELLO_MAGIC */
	uint64_t handle;
	uint32_t flags; /* of open(2): those of G4_HAND_OVER_FLAGS it is to have; O_NOATIME: if the handle has it */
	uint32_t reserved;
};

struct g4_hand_over_answer {
	uint64_t magic;
	int32_t status; /* 0 or a negative code */
	uint32_t reserved;
};

struct g4_server_options {
	const char *path;	 /* of the socket; made, and removed at the end */
	uint32_t mode;		 /* its permission bits; 0: 0666, for the engine checks permissions */
	uint32_t max_clients;	 /* sessions, those that end included; 0: 64. Half of them for one user but root */
	uint32_t entries;	 /* commands that one client may have under way; 0: the default */
	uint64_t max_data_bytes; /* of one client's data area; 0: 128 MiB */
	uint32_t handles;	 /* files that one client may have open; 0: the default */
	/*
	 * Opens what the engine's handle stands for as a file of the kernel, readable and writable as the handle is: a descriptor,
	 * the server's to close, or a negative code. Called by the server's thread. NULL: this server has no mount.
	 */
	int (*hand_over)(void *context, uint64_t handle, uint32_t flags);
	/*
	 * Says of a mount of the same file system what clients are told. Called by the server's thread. NULL: there is none. Where there is one, clients are also told when something is mounted anywhere, which may be inside of it.
	 */
	void (*mounted)(void *context, struct g4_mounted *mounted);
	void *context;
};

/* Starts serving, in threads of its own. On failure: a negative code and one sentence in message. */
int g4_server_start(const struct g4_session_engine *engine, const struct g4_server_options *options,
		    struct g4_server **out, char *message, size_t message_bytes);
/* Ends all sessions, waits for their running commands and frees the server. The engine stays. */
void g4_server_stop(struct g4_server *server);
/* Sessions at the moment, those that are being ended included. */
uint32_t g4_server_clients(struct g4_server *server);

struct g4_connection;

/* Called when an answer is there, before its descriptor is taken in: so no number is closed, and no lock held, while the server is waited for. */
struct g4_make_room {
	void (*make)(void *context);
	void *context;
};

/*
 * Connects to a server. `umask` is for files that commands without credentials make; data_bytes 0: the server's choice.
 * On failure: a negative code and one sentence in message.
 */
int g4_connect(const char *path, uint32_t umask, uint64_t data_bytes, struct g4_connection **out, char *message,
	       size_t message_bytes);
/* Asks a server for its mount, without a session. As g4_connect(). */
int g4_connect_to_look(const char *path, struct g4_mounted *mounted, char *message, size_t message_bytes);
/* What the server has said of that when it was connected to. */
const struct g4_mounted *g4_connection_mounted(const struct g4_connection *connection);
/* The way in, until the connection is closed. */
struct g4_ring_client *g4_connection_ring(const struct g4_connection *connection);
/*
 * The kernel's descriptor of what this client has open, close-on-exec and the caller's, or a negative code: -G4_E_NOTSUP where
 * the server has none to give, -G4_E_NO_NUMBER where this process has no number for it. flags: of open(2). room: NULL, or who makes a number
 * free. Thread-safe.
 */
int g4_connection_hand_over(struct g4_connection *connection, uint64_t handle, uint32_t flags,
			    const struct g4_make_room *room);
/* The epochs of its server's engine, until the connection is closed or forsaken; NULL: it tells none. */
const uint64_t *g4_connection_epochs(const struct g4_connection *connection);
/* Its socket, which only the connection may use and close. */
int g4_connection_socket(const struct g4_connection *connection);
/* Goes on with a copy at `least` or above. The old number is the caller's to close or to replace; -1: there is no copy. */
int g4_connection_move_socket(struct g4_connection *connection, int least);
/*
 * In a process that was forked: lets go of the connection, which stays the parent's. Nothing may be done with it any more. shared: its
 * descriptors are the parent's as well, and stay open.
 */
void g4_connection_forsake(struct g4_connection *connection, bool shared);
/* Its server has ended: closes the socket, whose number is -1 then. What is asked later, or still waits, is -G4_E_IO. Once; thread-safe. */
void g4_connection_end(struct g4_connection *connection);
/* No call is running. */
void g4_connection_close(struct g4_connection *connection);

#endif
