/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executing what clients put into rings. Every build runs this: threads of a daemon, workgroups of the lanes tests,
 * warps of the persistent kernel.
 *
 * What a client can write at any time is read exactly once, into the workgroup's own memory: the slot, its text, and
 * the data of every command but READ and WRITE. Their data may change while they are moved; that spoils the client's
 * own bytes and nothing else, because no decision is made by them.
 */
#include "ring/ring.h"

#include "fs/execute.h"
#include "hash/siphash.h"

#define HANDLE_OPEN (UINT64_C(1) << 31)
#define HANDLE_CLOSING (UINT64_C(1) << 30)
#define HANDLE_READ (UINT64_C(1) << 29)
#define HANDLE_USERS UINT64_C(0x1fffffff)
#define HANDLE_RESERVED UINT64_C(1)
#define HANDLE_GENERATION(state) ((state) >> 32)

/* Commands whose data goes through the workgroup's own memory. */
#define STAGED_IN (G4_COMMANDS_THAT(G4_DATA_IN) & ~G4_COMMANDS_THAT(G4_DATA_IN_PLACE))
#define STAGED_OUT (G4_COMMANDS_THAT(G4_DATA_OUT) & ~G4_COMMANDS_THAT(G4_DATA_IN_PLACE))

/* ------------------------------------------------------------------ handles */

G4_FN static struct g4_session_handle *handle_of(struct g4_session *session, uint64_t number)
{
	uint32_t index = (uint32_t)number - 1;

	return index < session->handle_count ? &session->handles[index] : NULL;
}

/* Counts a user of an open handle in; the engine's handle. -G4_E_BADF where there is none. */
G4_FN int g4_session_use_handle(struct g4_session *session, uint64_t number, uint64_t *engine)
{
	struct g4_session_handle *entry = handle_of(session, number);

	if (!entry)
		return -G4_E_BADF;
	for (;;) {
		uint64_t state = g4_load64_acq(&entry->state);

		if (!(state & HANDLE_OPEN) || (state & HANDLE_CLOSING) || HANDLE_GENERATION(state) != number >> 32)
			return -G4_E_BADF;
		if (g4_cas64(&entry->state, state, state + 1))
			break;
	}
	*engine = entry->engine;
	return 0;
}

G4_FN static int release(struct g4_wg *wg, struct g4_fs *fs, struct g4_session_handle *entry)
{
	struct g4_cmd cmd;

	memset(&cmd, 0, sizeof(cmd));
	cmd.op = G4_CMD_RELEASE;
	cmd.handle = entry->engine;
	int rc = g4_execute(wg, fs, &cmd);
	uint64_t state = g4_load64_rlx(&entry->state);
	g4_store64_rel(&entry->state, (HANDLE_GENERATION(state) + 1) << 32);
	return rc;
}

/* The last user of a handle that is being closed closes it. */
G4_FN int g4_session_unuse_handle(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint64_t number)
{
	struct g4_session_handle *entry = handle_of(session, number);
	uint64_t old = g4_sub64(&entry->state, 1);

	return (old & HANDLE_CLOSING) && (old & HANDLE_USERS) == 1 ? release(wg, fs, entry) : 0;
}

/* Our own use is one of the users: the close happens in g4_session_unuse_handle(), ours or the last user's. */
G4_FN static int mark_closing(struct g4_session *session, uint64_t number)
{
	struct g4_session_handle *entry = handle_of(session, number);

	return g4_or64(&entry->state, HANDLE_CLOSING) & HANDLE_CLOSING ? -G4_E_BADF : 0;
}

/* A free entry, ours alone until put_handle() or drop_handle(). */
G4_FN static int reserve_handle(struct g4_session *session, uint32_t *index)
{
	uint32_t start = g4_load32_rlx(&session->handle_hint);

	for (uint32_t step = 0; step < session->handle_count; step++) {
		uint32_t i = (start + step) % session->handle_count;
		uint64_t state = g4_load64_rlx(&session->handles[i].state);

		if ((uint32_t)state == 0 && g4_cas64(&session->handles[i].state, state, state | HANDLE_RESERVED)) {
			g4_store32_rlx(&session->handle_hint, i + 1);
			*index = i;
			return 0;
		}
	}
	return -G4_E_NFILE;
}

G4_FN static void drop_handle(struct g4_session *session, uint32_t index)
{
	struct g4_session_handle *entry = &session->handles[index];

	g4_store64_rel(&entry->state, g4_load64_rlx(&entry->state) & ~HANDLE_RESERVED);
}

G4_FN static uint64_t put_handle(struct g4_session *session, uint32_t index, uint64_t engine)
{
	struct g4_session_handle *entry = &session->handles[index];
	uint64_t generation = HANDLE_GENERATION(g4_load64_rlx(&entry->state));

	entry->engine = engine;
	g4_store64_rel(&entry->state, generation << 32 | HANDLE_OPEN);
	return generation << 32 | (index + 1);
}

G4_FN void g4_session_close(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session)
{
	for (uint32_t i = 0; i < session->handle_count; i++)
		if (g4_load64_acq(&session->handles[i].state) & HANDLE_OPEN)
			release(wg, fs, &session->handles[i]);
}

/* ------------------------------------------------------------------ checking */

G4_FN static bool in_data(const struct g4_session *session, uint64_t at, uint64_t bytes)
{
	return at <= session->data_bytes && bytes <= session->data_bytes - at;
}

/* Copies the text to where the client cannot change it. */
G4_FN static int fetch_text(struct g4_wg *wg, const struct g4_session *session, struct g4_session_stage *stage,
			    const uint8_t **text)
{
	const struct g4_ring_command *c = &stage->slot.command;
	uint32_t bytes = (uint32_t)c->name_bytes + c->name2_bytes + c->cred_bytes + c->attr_bytes + c->walk_bytes;

	if (c->text_at == G4_RING_TEXT_INLINE) {
		*text = stage->slot.text;
		return bytes <= G4_RING_TEXT_BYTES ? 0 : -G4_E_INVAL;
	}
	if (bytes > G4_RING_MAX_TEXT || !in_data(session, c->text_at, bytes))
		return -G4_E_INVAL;
	g4_copy(wg, stage->text, session->data + c->text_at, bytes);
	*text = stage->text;
	return 0;
}

/* The credentials: what the engine knows of the client, or, from clients that may act for others, what the command says. */
G4_FN static int fetch_cred(const struct g4_session *session, struct g4_session_stage *stage, const uint8_t *text)
{
	const struct g4_ring_command *c = &stage->slot.command;
	const uint32_t head = offsetof(struct g4_cred, groups);

	stage->cmd.cred = &stage->cred;
	if (c->cred_bytes == 0 && c->umask == session->cred.umask) {
		stage->cmd.cred = &session->cred;
		return 0;
	}
	if (c->cred_bytes == 0) {
		stage->cred = session->cred;
		stage->cred.umask = c->umask & 0777u;
		return 0;
	}
	if (!(session->flags & G4_SESSION_MAY_ACT))
		return -G4_E_PERM;
	if (c->cred_bytes < head || c->cred_bytes > sizeof(stage->cred))
		return -G4_E_INVAL;
	memcpy(&stage->cred, text, c->cred_bytes);
	if (stage->cred.group_count > (c->cred_bytes - head) / sizeof(uint32_t))
		return -G4_E_INVAL;
	if (!(session->flags & G4_SESSION_IN_PROCESS))
		stage->cred.flags = 0;
	return 0;
}

G4_FN uint64_t g4_session_token(const struct g4_session *session, uint64_t ino, uint64_t generation)
{
	const uint64_t words[2] = {ino, generation};

	return g4_siphash13(session->token_key, words, sizeof(words));
}

G4_FN static int check_nodes(const struct g4_session *session, const struct g4_ring_command *c)
{
	const bool by_handle = g4_command_is(c->op, G4_TAKES_HANDLE | G4_NEEDS_HANDLE) && c->handle != 0;

	if (!by_handle && !g4_session_names(session, c->node, c->generation, c->token))
		return -G4_E_STALE;
	if (g4_command_is(c->op, G4_TWO_NODES) && !g4_session_names(session, c->node2, c->generation2, c->token2))
		return -G4_E_STALE;
	return 0;
}

/* What a listing needs, to which the engine's own callers have a right already. */
G4_FN static int check_listing(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct g4_cmd access;

	memset(&access, 0, sizeof(access));
	access.op = G4_CMD_ACCESS;
	access.node = cmd->node;
	access.generation = cmd->generation;
	access.flags = G4_ACCESS_READ | (cmd->flags & G4_READDIR_PLUS ? G4_ACCESS_EXEC : 0);
	access.cred = cmd->cred;
	return g4_execute(wg, fs, &access);
}

/* Commands of clients that are not this process: what the engine leaves to its caller is asked for here. */
G4_FN static int check_untrusted(struct g4_wg *wg, struct g4_fs *fs, const struct g4_session *session,
				 const struct g4_ring_command *c, struct g4_cmd *cmd)
{
	if (session->flags & G4_SESSION_IN_PROCESS)
		return 0;
	if (g4_command_is(cmd->op, G4_NEEDS_HANDLE) && cmd->handle == 0)
		return -G4_E_BADF;
	int rc = check_nodes(session, c);
	if (rc < 0)
		return rc;
	if (g4_command_is(cmd->op, G4_FOR_OWNER))
		return -G4_E_PERM;
	if (cmd->op == G4_CMD_MKNOD && cmd->cred->uid != 0) {
		uint32_t type = cmd->mode & G4_S_IFMT;
		if (type == G4_S_IFCHR || type == G4_S_IFBLK)
			return -G4_E_PERM;
	}
	if (cmd->op == G4_CMD_SETATTR && (cmd->mask & G4_SET_CTIME))
		return -G4_E_PERM;	/* only a kernel keeps this time for its files */
	if (cmd->op == G4_CMD_SETXATTR) /* the engine knows the client's groups itself */
		cmd->flags &= ~G4_XATTR_KILL_SGID;
	if (cmd->op == G4_CMD_WRITE)
		cmd->flags &= ~G4_WRITE_TAKEN;
	return cmd->op == G4_CMD_READDIR ? check_listing(wg, fs, cmd) : 0;
}

/* Whether the client wants to know what the answer depends on. */
G4_FN static bool tells_trail(const struct g4_cmd *cmd)
{
	return g4_command_is(cmd->op, G4_LOOKS_UP | G4_GIVES_ATTR) && (cmd->flags & G4_LOOK_TRAIL) && cmd->attr != NULL;
}

/* Where the command's data is. */
G4_FN static int place_data(struct g4_wg *wg, const struct g4_session *session, struct g4_session_stage *stage)
{
	const struct g4_ring_command *c = &stage->slot.command;
	struct g4_cmd *cmd = &stage->cmd;

	if (g4_command_is(c->op, G4_DATA_IN_PLACE)) {
		if (!in_data(session, c->data, c->length))
			return -G4_E_INVAL;
		cmd->data = session->data + c->data;
		return 0;
	}
	if (tells_trail(cmd)) {
		cmd->data = &stage->result.trail;
		g4_trail_begin(&stage->result.trail);
		return 0;
	}
	cmd->data = stage->data;
	if (g4_command_is_in(STAGED_IN, c->op)) {
		if (c->length > G4_SESSION_STAGE_BYTES)
			return -G4_E_XATTR_BIG;
		if (!in_data(session, c->data, c->length))
			return -G4_E_INVAL;
		g4_copy(wg, stage->data, session->data + c->data, c->length);
	} else if (g4_command_is_in(STAGED_OUT, c->op)) {
		cmd->length = g4_min64(c->length, G4_SESSION_STAGE_BYTES);
		return in_data(session, c->data, cmd->length) ? 0 : -G4_E_INVAL;
	}
	return 0;
}

/* What a later version may give a meaning is refused by this one: else a client would not learn that it is not understood. */
G4_FN static bool says_nothing_else(const struct g4_ring_command *c)
{
	uint32_t reserved = 0;

	for (uint32_t k = 0; k < sizeof(c->reserved) / sizeof(c->reserved[0]); k++)
		reserved |= c->reserved[k];
	return reserved == 0 && !(c->walk_flags & ~G4_WALK_KNOWN);
}

/* Makes the engine's command of the copied slot. Handles are still the client's. */
G4_FN static int translate(struct g4_wg *wg, const struct g4_session *session, struct g4_session_stage *stage)
{
	const struct g4_ring_command *c = &stage->slot.command;
	struct g4_cmd *cmd = &stage->cmd;
	const uint8_t *text;
	int rc;

	g4_zero16(cmd, sizeof(*cmd));
	cmd->op = c->op;
	if (c->op >= G4_COMMAND_COUNT)
		return -G4_E_NOSYS;
	if (!says_nothing_else(c))
		return -G4_E_INVAL;
	rc = fetch_text(wg, session, stage, &text);
	if (rc == 0)
		rc = fetch_cred(session, stage, text);
	if (rc < 0)
		return rc;
	text += c->cred_bytes + c->walk_bytes;
	cmd->node = c->node;
	cmd->node2 = c->node2; /* of a union, like two below: what lies there for this command */
	cmd->handle = g4_command_is(c->op, G4_TAKES_HANDLE | G4_NEEDS_HANDLE) ? c->handle : 0;
	cmd->offset = c->offset;
	cmd->offset2 = c->offset2;
	cmd->length = c->length;
	cmd->name = (const char *)text;
	cmd->name2 = (const char *)text + c->name_bytes;
	cmd->name_bytes = c->name_bytes;
	cmd->name2_bytes = c->name2_bytes;
	cmd->flags = c->flags;
	cmd->mode = c->mode;
	cmd->mask = c->mask;
	text += c->name_bytes + c->name2_bytes;
	if (g4_command_is(c->op, G4_ATTR_IN)) {
		if (c->attr_bytes != sizeof(stage->result.attr))
			return -G4_E_INVAL;
		memcpy(&stage->result.attr, text, sizeof(stage->result.attr));
		cmd->attr = &stage->result.attr;
	} else if (c->wants_attr || g4_command_is(c->op, G4_GIVES_ATTR)) {
		/* what the command leaves out shall not be another client's */
		g4_zero16(&stage->result.attr, sizeof(stage->result.attr));
		cmd->attr = &stage->result.attr;
	}
	return place_data(wg, session, stage);
}

/* ------------------------------------------------------------------ executing */

#define WALKS                                                                                                          \
	(UINT64_C(1) << G4_CMD_MKNOD | UINT64_C(1) << G4_CMD_MKDIR | UINT64_C(1) << G4_CMD_SYMLINK |                   \
	 UINT64_C(1) << G4_CMD_UNLINK | UINT64_C(1) << G4_CMD_RMDIR | UINT64_C(1) << G4_CMD_RENAME |                   \
	 UINT64_C(1) << G4_CMD_CREATE | UINT64_C(1) << G4_CMD_OPEN)

/* Puts the inode that the command's path leads to in the place of the one where it begins. The client may name that one by then. */
G4_FN static int walk(struct g4_wg *wg, struct g4_fs *fs, struct g4_session_stage *stage)
{
	const struct g4_ring_command *c = &stage->slot.command;
	struct g4_cmd *cmd = &stage->cmd, look;
	struct g4_attr attr;

	if (!g4_command_is_in(WALKS, c->op))
		return -G4_E_INVAL;
	memset(&look, 0, sizeof(look));
	look.op = G4_CMD_RESOLVE;
	look.flags = c->walk_flags & (G4_RESOLVE_NOFOLLOW | G4_RESOLVE_BENEATH);
	look.node = cmd->node;
	look.generation = cmd->generation;
	look.name = cmd->name - c->walk_bytes;
	look.name_bytes = c->walk_bytes;
	look.cred = cmd->cred;
	look.attr = &attr;
	int rc = g4_execute(wg, fs, &look);
	return rc < 0 ? rc : g4_walk_arrived(cmd, &attr, c->walk_flags);
}

struct used { /* the client's handles that a command uses */
	uint64_t number[2];
	uint32_t count;
};

/* Puts the engine's handles in the place of the client's. */
G4_FN static int use_handles(struct g4_session *session, struct g4_cmd *cmd, struct used *used)
{
	int rc = 0;

	used->count = 0;
	if (cmd->handle != 0) {
		used->number[0] = cmd->handle;
		rc = g4_session_use_handle(session, cmd->handle, &cmd->handle);
		used->count += rc == 0;
	}
	if (rc == 0 && g4_command_is(cmd->op, G4_TWO_HANDLES)) {
		used->number[used->count] = cmd->handle2;
		rc = g4_session_use_handle(session, cmd->handle2, &cmd->handle2);
		used->count += rc == 0;
	}
	return rc;
}

/* READ and WRITE count against the bytes that a client may have moving. */
G4_FN static bool begin_moving(struct g4_session *session, uint64_t bytes)
{
	if (g4_add64(&session->moving, bytes) + bytes <= session->bytes_limit)
		return true;
	g4_sub64(&session->moving, bytes);
	return false;
}

G4_FN static int run(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, struct g4_cmd *cmd)
{
	uint32_t index = 0;
	int rc;

	if (g4_command_is(cmd->op, G4_MAKES_HANDLE)) {
		rc = reserve_handle(session, &index);
		if (rc < 0)
			return rc;
		rc = g4_execute(wg, fs, cmd);
		if (rc < 0 || cmd->handle == 0)
			drop_handle(session, index);
		else
			cmd->handle = put_handle(session, index, cmd->handle);
		return rc;
	}
	if (g4_command_is(cmd->op, G4_DATA_IN_PLACE)) {
		uint64_t bytes = cmd->length;
		if (!begin_moving(session, bytes))
			return -G4_E_AGAIN;
		rc = g4_execute(wg, fs, cmd);
		g4_sub64(&session->moving, bytes);
		return rc;
	}
	return g4_execute(wg, fs, cmd);
}

/* Tokens of what the entries of a batch have led to. All other attributes there are zero: fs/batch.c. */
G4_FN static void seal_batch(const struct g4_session *session, const struct g4_cmd *cmd)
{
	struct g4_attr *attrs = (struct g4_attr *)(void *)((struct g4_batch_entry *)cmd->data + cmd->mask);

	if ((session->flags & G4_SESSION_IN_PROCESS) || !(cmd->flags & G4_BATCH_ATTR))
		return;
	for (uint32_t k = 0; k < cmd->mask; k++)
		if (attrs[k].ino != 0)
			attrs[k].token = g4_session_token(session, attrs[k].ino, attrs[k].generation);
}

/* And of what a tally tells one by one, which is the engine's alone. */
G4_FN static void seal_tally(const struct g4_session *session, const struct g4_cmd *cmd)
{
	const struct g4_tally *tally = (const struct g4_tally *)cmd->data;
	struct g4_tally_item *items = (struct g4_tally_item *)(void *)((uint8_t *)cmd->data + sizeof(*tally));

	if (session->flags & G4_SESSION_IN_PROCESS)
		return;
	for (uint32_t k = 0; k < tally->items; k++)
		items[k].token = g4_session_token(session, items[k].ino, items[k].generation);
}

/* A command that says why it fails has done so in `data` when it did. */
G4_FN static int run_and_say(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session,
			     struct g4_session_stage *stage)
{
	struct g4_cmd *cmd = &stage->cmd;
	const bool says = g4_command_is(cmd->op, G4_SAYS_WHY) && cmd->length > 0;

	if (says)
		*(char *)cmd->data = 0;
	const int rc = run(wg, fs, session, cmd);
	if (rc < 0 && says)
		g4_copy(wg, session->data + stage->slot.command.data, stage->data,
			g4_min64(cmd->value + 1, cmd->length));
	return rc;
}

/*
 * Nobody has read what is read ahead, where the client says so: of a file that it has read by this handle, and which has its time of access by that. Else
 * whoever may read a file could do so without leaving one, which O_NOATIME is for, and for owners.
 */
G4_FN static int read_noting(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint64_t number,
			     struct g4_session_stage *stage)
{
	struct g4_session_handle *entry = handle_of(session, number);
	const bool was_read = g4_load64_rlx(&entry->state) & HANDLE_READ;

	if (!was_read)
		stage->cmd.flags &= ~G4_READ_AHEAD;
	const int rc = run_and_say(wg, fs, session, stage);
	if (rc == 0 && !was_read)
		g4_or64(&entry->state, HANDLE_READ);
	return rc;
}

G4_FN static int execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, struct g4_session_stage *stage)
{
	struct g4_cmd *cmd = &stage->cmd;
	struct used used;
	int rc = translate(wg, session, stage);

	if (rc == 0)
		rc = check_untrusted(wg, fs, session, &stage->slot.command, cmd);
	if (rc == 0 && stage->slot.command.walk_bytes > 0)
		rc = walk(wg, fs, stage);
	if (rc < 0)
		return rc;
	rc = use_handles(session, cmd, &used);
	if (rc == 0 && cmd->op == G4_CMD_RELEASE)
		rc = used.count ? mark_closing(session, used.number[0]) : -G4_E_BADF;
	else if (rc == 0 && cmd->op == G4_CMD_READ && used.count > 0)
		rc = read_noting(wg, fs, session, used.number[0], stage);
	else if (rc == 0)
		rc = run_and_say(wg, fs, session, stage);
	for (uint32_t k = 0; k < used.count; k++) {
		int closed = g4_session_unuse_handle(wg, fs, session, used.number[k]);
		if (cmd->op == G4_CMD_RELEASE && rc == 0)
			rc = closed;
	}
	if (rc == 0 && cmd->op == G4_CMD_BATCH)
		seal_batch(session, cmd);
	if (rc == 0 && cmd->op == G4_CMD_TALLY)
		seal_tally(session, cmd);
	if (rc == 0 && g4_command_is_in(STAGED_OUT, cmd->op))
		g4_copy(wg, session->data + stage->slot.command.data, stage->data, g4_min64(cmd->value, cmd->length));
	return rc;
}

/* Makes the result's word, and the rest where the word does not hold it; how many bytes that is. */
G4_FN static uint32_t make_result(const struct g4_session *session, uint32_t number, int rc,
				  struct g4_session_stage *stage)
{
	const struct g4_cmd *cmd = &stage->cmd;
	const bool makes_handle =
		rc == 0 && g4_command_is(cmd->op, G4_MAKES_HANDLE); /* with an error it may be any number */
	/* the engine's own handle, which use_handles() put there, is not for the client */
	const uint64_t words[G4_RING_FEW_WORDS] = {cmd->value, makes_handle ? cmd->handle : stage->slot.command.handle,
						   cmd->offset};
	uint64_t small = rc < 0 ? (uint64_t)(uint32_t)rc : cmd->value;
	bool attr = rc == 0 && cmd->attr != NULL;
	const bool trail = tells_trail(cmd) && (rc == 0 || rc == -G4_E_NOENT || rc == -G4_E_ACCES) &&
			   g4_trail_is_good(&stage->result.trail);
	bool moved = rc == 0 && cmd->op == G4_CMD_WRITE && cmd->offset != stage->slot.command.offset;

	if (!trail && (rc < 0 || !(attr || moved || makes_handle || cmd->value > INT32_MAX))) {
		stage->result.word = (number & G4_RING_NUMBER_MASK) | small << 32;
		return 0;
	}
	if (!attr &&
	    trail) /* the words of attributes go there, too, and the walk may have come by an inode that has some */
		g4_zero16(&stage->result.attr, sizeof(stage->result.attr));
	const uint32_t bytes = g4_session_full_result(session, session->flags & G4_SESSION_IN_PROCESS, number, words,
						      attr, trail, &stage->result);
	if (rc < 0)
		stage->result.word |= small << 32;
	return bytes;
}

/*
 * What this thread wrote for the client comes before what another one writes to the same place, once the client has used
 * it again. The word below orders that by way of the client; a checker that sees only our side of the shared memory
 * (ThreadSanitizer) is told here, and by the thread that claims (session_host.c).
 */
G4_FN static void note_published(struct g4_session *session)
{
#if G4_CUDA
	(void)session;
#else
	g4_add32_rel(&session->published, 1);
#endif
}

G4_FN void g4_session_publish(struct g4_session *session, uint32_t number, const struct g4_session_stage *stage)
{
	note_published(session);
	g4_store64_rel_sys(&g4_ring_result_of(session->ring, session->entries, number)->word, stage->result.word);
	g4_add32(&session->done, 1);
}

G4_FN uint32_t g4_session_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint32_t number,
			      struct g4_session_stage *stage)
{
	if (stage->slot.command.op == G4_CMD_NOP) { /* nothing was done that the client would have to see before it */
		g4_store64_rlx_sys(&g4_ring_result_of(session->ring, session->entries, number)->word,
				   number & G4_RING_NUMBER_MASK);
		g4_add32(&session->done, 1);
		return 0;
	}
	int rc = execute(wg, fs, session, stage);
	uint32_t bytes = make_result(session, number, rc, stage);

	if (bytes == 0)
		g4_session_publish(session, number, stage);
	return bytes;
}
