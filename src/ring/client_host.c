/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a ring (ring.h has the protocol). A call takes the next number under the submit lock, so that
 * tail only grows over filled slots; the result is waited for without it.
 *
 * The data area is the client's to divide: buffers of two sizes that calls borrow, and behind them what
 * g4_ring_client_alloc() gave away for good. A transfer that lies in there already is not copied.
 *
 * Commands ahead (ahead_host.c) are given before anybody waits for them. Such a result is taken from its slot by whoever wants the slot.
 */
#include "ring/client_parts_host.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock_host.h"

#define SMALL_BYTES (16 * G4_KIB)
#define LARGE_BYTES G4_MIB
#define LARGE_MAX 64u

/* What takes longer as a rule is slept for: where the engine wakes us, where it does not, and where data is moved. */
#define SPIN_WOKEN_NS 50000u
#define SPIN_NS 200000u /* a GPU needs some tens of microseconds for most operations */
#define SPIN_DATA_NS 50000u
#define DATA_BYTES (64 * G4_KIB)
#define LATE_LOOKS 96u	 /* some microseconds: a command that is not begun by then was left to an engine that is busy */
#define LOOKS 4096	 /* at the words of a result, before one whether the engine is gone */
#define POSTED_NS 50000L /* between two looks for the result of a posted command whose slot is wanted */
#define GONE_NS 1000000000L /* and whether the engine is there, where a slot is wanted that a thread has */
#define LIVES_MS 10u
#define FUTEX_NS 100000000L /* after so long a sleeper looks whether the engine is there */

/* ------------------------------------------------------------------ buffers */

static void init_buffers(struct g4_ring_buffers *b, uint64_t first, uint64_t bytes, uint32_t count)
{
	b->first = first;
	b->bytes = bytes;
	b->count = b->free_count = count;
	for (uint32_t i = 0; i < count; i++)
		b->free_list[i] = count - 1 - i;
}

static struct g4_ring_buffers *buffers_for(struct g4_ring_client *client, uint64_t bytes)
{
	return bytes <= SMALL_BYTES ? &client->small : &client->large;
}

/* Borrows a buffer; its offset in the data area. Waits for one. */
static uint64_t borrow(struct g4_ring_client *client, struct g4_ring_buffers *b)
{
	pthread_mutex_lock(&client->buffer_lock);
	while (b->free_count == 0)
		pthread_cond_wait(&client->buffer_free, &client->buffer_lock);
	uint64_t at = b->first + b->free_list[--b->free_count] * b->bytes;
	pthread_mutex_unlock(&client->buffer_lock);
	return at;
}

static void give_back(struct g4_ring_client *client, struct g4_ring_buffers *b, uint64_t at)
{
	pthread_mutex_lock(&client->buffer_lock);
	b->free_list[b->free_count++] = (uint32_t)((at - b->first) / b->bytes);
	pthread_cond_broadcast(&client->buffer_free);
	pthread_mutex_unlock(&client->buffer_lock);
}

void *g4_ring_client_alloc(struct g4_ring_client *client, uint64_t bytes)
{
	void *memory = NULL;

	pthread_mutex_lock(&client->buffer_lock);
	bytes = g4_align_up(bytes, G4_PAGE_BYTES);
	if (bytes <= client->data_bytes - client->alloc_next) {
		memory = client->data + client->alloc_next;
		client->alloc_next += bytes;
	}
	pthread_mutex_unlock(&client->buffer_lock);
	return memory;
}

/* ------------------------------------------------------------------ making */

static bool header_is_good(const struct g4_ring_header *h)
{
	return h->magic == G4_RING_MAGIC && h->version == G4_RING_VERSION && h->entries >= 2 &&
	       h->entries <= G4_RING_MAX_ENTRIES && (h->entries & (h->entries - 1)) == 0 &&
	       h->data_bytes >= G4_RING_MIN_DATA_BYTES;
}

struct g4_ring_client *g4_ring_client_new(void *ring, void *data, int doorbell, int watched, const struct g4_cred *own)
{
	struct g4_ring_header *header = ring;
	struct g4_ring_client *client;

	if (!header_is_good(header))
		return NULL;
	client = calloc(1, sizeof(*client));
	if (!client)
		return NULL;
	client->taken = calloc(header->entries, sizeof(*client->taken));
	if (!client->taken) {
		free(client);
		return NULL;
	}
	client->ring = ring;
	client->data = data;
	client->header = header;
	client->entries = header->entries;
	client->data_bytes = header->data_bytes;
	client->may_act = header->may_act;
	client->doorbell = doorbell;
	client->watched = watched;
	client->own = *own;
	client->tail = header->tail;
	for (uint32_t i = 0; i < G4_RING_POLLINGS; i++)
		client->pollings[i].usual_ns = G4_POLLING_START_NS;
	/* a quarter for small buffers and texts, half for large ones, what is left for any request */
	uint32_t small =
		(uint32_t)g4_min64(client->data_bytes / 4 / SMALL_BYTES - G4_RING_TEXT_COUNT, G4_RING_SMALL_MAX);
	uint32_t large = (uint32_t)g4_min64(client->data_bytes / 2 / LARGE_BYTES, LARGE_MAX);
	init_buffers(&client->text, 0, SMALL_BYTES, G4_RING_TEXT_COUNT);
	init_buffers(&client->small, G4_RING_TEXT_COUNT * SMALL_BYTES, SMALL_BYTES, small);
	init_buffers(&client->large, (G4_RING_TEXT_COUNT + small) * SMALL_BYTES, LARGE_BYTES, large);
	client->alloc_next = client->large.first + large * LARGE_BYTES;
	client->reads.polling.usual_ns = client->lookups.polling.usual_ns = G4_POLLING_START_NS;
	pthread_mutex_init(&client->submit_lock, NULL);
	pthread_cond_init(&client->slot_free, NULL);
	pthread_mutex_init(&client->buffer_lock, NULL);
	pthread_cond_init(&client->buffer_free, NULL);
	return client;
}

void g4_ring_client_deliver_by(struct g4_ring_client *client, bool (*deliver)(void *to, const void *from, size_t bytes))
{
	client->deliver = deliver;
}

void g4_ring_client_watch(struct g4_ring_client *client, int doorbell, int watched)
{
	__atomic_store_n(&client->doorbell, doorbell, __ATOMIC_RELAXED);
	__atomic_store_n(&client->watched, watched, __ATOMIC_RELAXED);
}

void g4_ring_client_ring_by(struct g4_ring_client *client, void (*ring_doorbell)(void *context), void *context)
{
	client->ring_doorbell = ring_doorbell;
	client->context = context;
}

void g4_ring_client_free(struct g4_ring_client *client)
{
	if (!client)
		return;
	pthread_cond_destroy(&client->buffer_free);
	pthread_mutex_destroy(&client->buffer_lock);
	pthread_cond_destroy(&client->slot_free);
	pthread_mutex_destroy(&client->submit_lock);
	free(client->taken);
	free(client);
}

void g4_ring_client_stop(struct g4_ring_client *client)
{
	g4_store32_rel(&client->stopped, 1);
}

/* ------------------------------------------------------------------ submitting and waiting */

bool g4_ring_client_is_stopped(const struct g4_ring_client *client)
{
	return g4_load32_acq(&client->stopped) != 0 || g4_load32_acq(&client->header->state) != G4_RING_RUNS;
}

uint32_t g4_ring_client_mount_changes(const struct g4_ring_client *client)
{
	return g4_load32_acq(&client->header->mount_changes);
}

/* Looked at by waiters after some time: the engine said so itself, or its process is gone. */
static bool is_gone(struct g4_ring_client *client)
{
	struct pollfd watched = {.fd = client->watched, .events = POLLRDHUP};

	if (g4_load32_acq(&client->stopped))
		return true;
	if (g4_load32_acq(&client->header->state) != G4_RING_RUNS ||
	    (client->watched >= 0 && poll(&watched, 1, 0) > 0 &&
	     (watched.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))))
		g4_ring_client_stop(client);
	return g4_load32_acq(&client->stopped);
}

bool g4_ring_client_lives(struct g4_ring_client *client)
{
	struct timespec now;

	if (g4_ring_client_is_stopped(client))
		return false;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (ms - g4_load64_rlx(&client->looked_ms) < LIVES_MS)
		return true;
	g4_store64_rlx(&client->looked_ms, ms);
	return !is_gone(client);
}

/*
 * Whether a worker looks for each command up to this one. A worker that looks takes one, and may be long with it.
 * engine_claimed is loaded first: a worker that
 * has stored that looks no more.
 */
static bool all_are_looked_for(const struct g4_ring_header *header, uint32_t number)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* tail before engine_looks and engine_waits */
	const uint32_t pending = number - g4_load32_acq(&header->engine_claimed);

	return g4_load32_acq(&header->engine_looks) >= pending;
}

/* Wakes one that sleeps. Whether a doorbell has to be rung for that. Behind a fence, as above. */
static bool wake(struct g4_ring_header *header)
{
	switch (g4_load32_acq(&header->engine_waits)) {
	case G4_RING_AWAKE:
		return false;
	case G4_RING_FUTEX:
	case G4_RING_FUTEX_SOME:
		syscall(SYS_futex, &header->tail, FUTEX_WAKE, 1, NULL, NULL, 0);
		return false;
	default:
		return true;
	}
}

/* Whether the engine will come to the command in a moment, without being woken. */
static bool comes_soon(struct g4_ring_header *header)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* as above */
	return g4_load32_acq(&header->engine_looks) || g4_load32_acq(&header->engine_waits) == G4_RING_FUTEX_SOME;
}

static bool is_begun(const struct g4_ring_header *header, uint32_t number)
{
	return (int32_t)(g4_load32_acq(&header->engine_claimed) - number) >= 0;
}

static void ring(int doorbell)
{
	const uint64_t one = 1;

	/* a doorbell that takes nothing rings already, or nobody listens: is_gone() finds out */
	if (send(doorbell, &one, sizeof(one), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == ENOTSOCK &&
	    write(doorbell, &one, sizeof(one)) < 0)
		return;
}

void g4_ring_wake(struct g4_ring_header *header, int doorbell)
{
	if (!all_are_looked_for(header, g4_load32_rlx(&header->tail)) && wake(header))
		ring(doorbell);
}

/* For a command that no worker may be looking for, or whose worker does not come: it has no processor. */
static void wake_engine(struct g4_ring_client *client)
{
	if (!wake(client->header))
		return;
	if (client->ring_doorbell)
		client->ring_doorbell(client->context);
	else
		ring(client->doorbell);
}

static bool has_result(struct g4_ring_result *result, uint32_t number, uint64_t *word)
{
	*word = g4_load64_acq(&result->word);
	return (*word & G4_RING_NUMBER_MASK) == (number & G4_RING_NUMBER_MASK);
}

static void set_small(uint64_t word, struct g4_cmd *cmd)
{
	const int32_t small = (int32_t)(word >> 32);

	cmd->status = small < 0 ? small : 0;
	cmd->value = small < 0 ? 0 : (uint64_t)small;
}

static void set_full(const struct g4_ring_result *result, struct g4_cmd *cmd)
{
	cmd->value = result->value;
	cmd->handle = result->handle;
	cmd->offset = result->offset;
	if (cmd->attr && (result->tops & G4_RING_HAS_ATTR))
		*cmd->attr = result->attr;
	if ((result->tops & G4_RING_HAS_TRAIL) && g4_command_is(cmd->op, G4_LOOKS_UP | G4_GIVES_ATTR) &&
	    g4_trail_of(cmd))
		*g4_trail_of(cmd) = result->trail;
}

/* Takes the result of a command that nobody waits for, if it is there. The submit lock is held. */
static bool take_unawaited(struct g4_ring_client *client, uint32_t number, struct g4_cmd *cmd)
{
	struct g4_ring_result *from = g4_ring_result_of(client->ring, client->entries, number), full;
	uint64_t word;

	if (!has_result(from, number, &word))
		return false;
	set_small(word, cmd);
	if (!(word & G4_RING_WORD_FULL))
		return true;
	if (!g4_ring_result_take(from, &full))
		return false;
	set_full(&full, cmd);
	return true;
}

struct g4_cmd g4_ahead_command(struct g4_ahead *ahead)
{
	const bool reads = ahead->op == G4_CMD_READ;

	return (struct g4_cmd){.op = ahead->op,
			       .flags = reads ? 0 : G4_LOOK_TRAIL,
			       .length = ahead->length,
			       .attr = reads ? NULL : &ahead->attr,
			       .data = reads ? NULL : &ahead->trail};
}

void g4_ahead_set(struct g4_ahead *ahead, const struct g4_cmd *cmd)
{
	ahead->status = cmd->status;
	ahead->value = cmd->value;
}

bool g4_ahead_is_done(struct g4_ring_client *client, struct g4_ahead *ahead)
{
	struct g4_cmd cmd = g4_ahead_command(ahead);

	if (ahead->state == G4_AHEAD_UNDER_WAY && take_unawaited(client, ahead->number, &cmd)) {
		client->taken[ahead->number & (client->entries - 1)] = G4_SLOT_FREE;
		g4_ahead_set(ahead, &cmd);
		ahead->state = G4_AHEAD_DONE;
	}
	return ahead->state == G4_AHEAD_DONE;
}

/* Those of one kind: whether that command is one of them; *done: it has its result. */
static bool is_ahead(struct g4_ring_client *client, struct g4_aheads *aheads, uint32_t number, bool *done)
{
	for (uint32_t i = 0; i < aheads->count; i++) {
		struct g4_ahead *ahead = &aheads->places[i];
		if (ahead->state != G4_AHEAD_UNDER_WAY || ahead->number != number)
			continue;
		*done = g4_ahead_is_done(client, ahead);
		return true;
	}
	return false;
}

/* Whether the slot of the next command may be filled. The submit lock is held. */
static bool next_is_free(struct g4_ring_client *client)
{
	const uint32_t next = client->tail + 1, before = next - client->entries;
	struct g4_cmd nobodys = {.op = G4_CMD_NOP};
	bool done = false;

	switch (client->taken[next & (client->entries - 1)]) {
	case G4_SLOT_FREE:
		return true;
	case G4_SLOT_AWAITED:
		return false;
	case G4_SLOT_POSTED:
		return take_unawaited(client, before, &nobodys);
	default:
		return (is_ahead(client, &client->reads, before, &done) ||
			is_ahead(client, &client->lookups, before, &done)) &&
		       done;
	}
}

/* With the submit lock, which is free meanwhile. False: the engine is gone. */
static bool await_slot(struct g4_ring_client *client)
{
	bool posted = client->taken[(client->tail + 1) & (client->entries - 1)] != G4_SLOT_AWAITED;
	/* nobody says when what was posted has its result */
	const struct timespec until = g4_clock_after(CLOCK_REALTIME, posted ? POSTED_NS : GONE_NS);

	return pthread_cond_timedwait(&client->slot_free, &client->submit_lock, &until) != ETIMEDOUT ||
	       !is_gone(client);
}

bool g4_ring_client_submit(struct g4_ring_client *client, const struct g4_ring_slot *slot, uint32_t text_bytes,
			   uint32_t *number, bool *left, struct g4_ahead *ahead)
{
	pthread_mutex_lock(&client->submit_lock);
	while (!next_is_free(client)) {
		if (!await_slot(client)) {
			pthread_mutex_unlock(&client->submit_lock);
			return false;
		}
	}
	*number = ++client->tail;
	client->taken[*number & (client->entries - 1)] = ahead ? G4_SLOT_AHEAD :
							 left  ? G4_SLOT_AWAITED :
								 G4_SLOT_POSTED;
	if (ahead) {
		ahead->number = *number;
		ahead->state = G4_AHEAD_UNDER_WAY;
	}
	memcpy(g4_ring_slot_of(client->ring, client->entries, *number), slot, sizeof(slot->command) + text_bytes);
	g4_store32_rlx(&client->header->client_runs_on, g4_runs_on());
	g4_store32_rel(&client->header->tail, *number);
	pthread_mutex_unlock(&client->submit_lock);
	if (left)
		*left = comes_soon(client->header);
	if (left ? !*left : !all_are_looked_for(client->header, *number))
		wake_engine(client);
	return true;
}

void g4_ring_client_free_slot(struct g4_ring_client *client, uint32_t number)
{
	pthread_mutex_lock(&client->submit_lock);
	client->taken[number & (client->entries - 1)] = G4_SLOT_FREE;
	if (((client->tail + 1 - number) & (client->entries - 1)) == 0) /* somebody may wait for this very slot */
		pthread_cond_broadcast(&client->slot_free);
	pthread_mutex_unlock(&client->submit_lock);
}

/* Until the engine wakes the sleepers on this result. */
static void sleep_on(struct g4_ring_client *client, struct g4_ring_result *result, uint32_t number)
{
	const struct timespec longest = {.tv_nsec = FUTEX_NS};
	uint32_t *low = (uint32_t *)&result->word; /* the half with the number */
	uint64_t word;

	__atomic_fetch_add(&client->header->client_waits, 1, __ATOMIC_SEQ_CST);
	if (!has_result(result, number, &word))
		syscall(SYS_futex, low, FUTEX_WAIT, (uint32_t)word, &longest, NULL, 0);
	__atomic_fetch_sub(&client->header->client_waits, 1, __ATOMIC_SEQ_CST);
}

static bool moves_data(const struct g4_ring_command *c)
{
	return g4_command_is(c->op, G4_DATA_IN_PLACE);
}

static struct g4_polling *polling_of(struct g4_ring_client *client, const struct g4_ring_command *c)
{
	uint32_t bits = c->length ? 63 - (uint32_t)__builtin_clzll(c->length) : 0;

	if (!moves_data(c))
		return &client->pollings[c->op % G4_COMMAND_COUNT];
	return &client->pollings[G4_COMMAND_COUNT + (g4_command_is(c->op, G4_DATA_IN) ? 32 : 0) +
				 (bits < 31 ? bits : 31)];
}

static uint32_t most_spin_ns(const struct g4_ring_client *client, const struct g4_ring_command *c)
{
	if (client->header->completes)
		return SPIN_WOKEN_NS;
	return moves_data(c) && c->length >= DATA_BYTES ? SPIN_DATA_NS : SPIN_NS;
}

/* left: by g4_ring_client_submit(). False: the engine is gone without a result. */
static bool wait_for(struct g4_ring_client *client, struct g4_polling *polling, uint32_t most_spin, uint32_t number,
		     bool left, uint64_t *word)
{
	struct g4_ring_result *result = g4_ring_result_of(client->ring, client->entries, number);
	struct g4_waiter waiter;
	bool done;

	g4_waiter_begin(&waiter, polling, most_spin, client->header->completes);
	waiter.peer = &client->header->engine_runs_on;
	while (!(done = has_result(result, number, word))) {
		const bool spins = g4_waiter_spins(&waiter);
		if (left && (!spins || waiter.looks >= LATE_LOOKS)) {
			left = false;
			if (!is_begun(client->header, number))
				wake_engine(client);
		}
		if (spins)
			continue;
		if (is_gone(client)) {
			done = has_result(result, number, word);
			break;
		}
		if (client->header->completes)
			sleep_on(client, result, number);
		else
			g4_waiter_nap(&waiter);
	}
	g4_waiter_end(&waiter, done);
	return done;
}

/* ------------------------------------------------------------------ commands */

static bool is_own(const struct g4_ring_client *client, const struct g4_cred *cred)
{
	return cred->uid == client->own.uid && cred->gid == client->own.gid && cred->flags == client->own.flags &&
	       cred->group_count == client->own.group_count &&
	       memcmp(cred->groups, client->own.groups, cred->group_count * sizeof(cred->groups[0])) == 0;
}

static uint16_t append(uint8_t *text, uint32_t *bytes, const void *from, uint32_t count)
{
	if (count)
		memcpy(text + *bytes, from, count);
	*bytes += count;
	return (uint16_t)count;
}

int g4_ring_client_marshal(struct g4_ring_client *client, const struct g4_cmd *cmd, const struct g4_walk *walk,
			   struct g4_ring_slot *slot, uint32_t *inline_bytes)
{
	struct g4_ring_command *c = &slot->command;
	uint8_t text[G4_RING_MAX_TEXT];
	const struct g4_cred *cred = cmd->cred ? cmd->cred : &client->own;
	uint32_t bytes = 0;

	if (cmd->name_bytes > 4096 || cmd->name2_bytes > 4096 || (walk && cmd->name_bytes + walk->bytes > 4096))
		return -G4_E_NAMETOOLONG;
	*c = (struct g4_ring_command){.op = cmd->op,
				      .flags = cmd->flags,
				      .mode = cmd->mode,
				      .mask = cmd->mask,
				      .node = cmd->node,
				      .node2 = cmd->node2,
				      .handle = cmd->handle,
				      .offset = cmd->offset,
				      .length = cmd->length,
				      .offset2 = cmd->offset2,
				      .token = cmd->token,
				      .umask = cred->umask,
				      .wants_attr = cmd->attr != NULL,
				      .text_at = G4_RING_TEXT_INLINE};
	if (!is_own(client, cred)) {
		if (!client->may_act)
			return -G4_E_PERM;
		c->cred_bytes = append(
			text, &bytes, cred,
			(uint32_t)(offsetof(struct g4_cred, groups) + cred->group_count * sizeof(cred->groups[0])));
	}
	if (walk) {
		c->walk_flags = (uint16_t)walk->flags;
		c->walk_bytes = append(text, &bytes, walk->path, walk->bytes);
	}
	c->name_bytes = append(text, &bytes, cmd->name, cmd->name_bytes);
	c->name2_bytes = append(text, &bytes, cmd->name2, cmd->name2_bytes);
	if (g4_command_is(cmd->op, G4_ATTR_IN))
		c->attr_bytes = append(text, &bytes, cmd->attr, sizeof(*cmd->attr));
	*inline_bytes = bytes;
	if (bytes <= G4_RING_TEXT_BYTES) {
		memcpy(slot->text, text, bytes);
	} else {
		*inline_bytes = 0;
		c->text_at = borrow(client, &client->text);
		memcpy(client->data + c->text_at, text, bytes);
	}
	return 0;
}

void g4_ring_client_end_text(struct g4_ring_client *client, const struct g4_ring_slot *slot)
{
	if (slot->command.text_at != G4_RING_TEXT_INLINE)
		give_back(client, &client->text, slot->command.text_at);
}

/* Its words may come behind its first one. False: the engine is gone in the middle of it. */
static bool take_full(struct g4_ring_client *client, struct g4_ring_result *from, struct g4_ring_result *to)
{
	for (uint32_t looks = 1; !g4_ring_result_take(from, to); looks++) {
		if (looks % LOOKS == 0 && is_gone(client))
			return g4_ring_result_take(from, to);
		g4_pause();
	}
	return true;
}

/* False: the engine is gone. */
static bool unmarshal(struct g4_ring_client *client, uint32_t number, uint64_t word, struct g4_cmd *cmd)
{
	struct g4_ring_result result;

	set_small(word, cmd);
	if (!(word & G4_RING_WORD_FULL))
		return true;
	if (!take_full(client, g4_ring_result_of(client->ring, client->entries, number), &result))
		return false;
	set_full(&result, cmd);
	return true;
}

void g4_ring_client_await(struct g4_ring_client *client, struct g4_polling *polling, const struct g4_ring_command *c,
			  uint32_t number, bool left, struct g4_cmd *cmd)
{
	uint64_t word;

	cmd->status = -G4_E_IO;
	if (wait_for(client, polling ? polling : polling_of(client, c), most_spin_ns(client, c), number, left, &word) &&
	    !unmarshal(client, number, word, cmd))
		cmd->status = -G4_E_IO;
	g4_ring_client_free_slot(client, number);
}

/* One command whose data, if any, lies at `at` in the data area; walk: NULL: none. */
static int call(struct g4_ring_client *client, struct g4_cmd *cmd, const struct g4_walk *walk, uint64_t at)
{
	struct g4_ring_slot slot;
	uint32_t inline_bytes, number;
	bool left;
	int rc = g4_ring_client_marshal(client, cmd, walk, &slot, &inline_bytes);

	if (rc < 0)
		return cmd->status = rc;
	slot.command.data = at;
	cmd->status = -G4_E_IO;
	if (!g4_load32_acq(&client->stopped) &&
	    g4_ring_client_submit(client, &slot, inline_bytes, &number, &left, NULL))
		g4_ring_client_await(client, NULL, &slot.command, number, left, cmd);
	g4_ring_client_end_text(client, &slot);
	return cmd->status;
}

/* What a command has given lies at `at`, and shall be in the caller's memory. */
static int deliver(struct g4_ring_client *client, struct g4_cmd *cmd, uint64_t at)
{
	const uint64_t bytes = g4_min64(cmd->value, cmd->length);

	if (!client->deliver) {
		memcpy(cmd->data, client->data + at, bytes);
	} else if (!client->deliver(cmd->data, client->data + at, bytes)) {
		cmd->value = 0;
		cmd->status = -G4_E_FAULT;
	}
	return cmd->status;
}

/* One command through a borrowed buffer. */
static int call_copied(struct g4_ring_client *client, struct g4_cmd *cmd)
{
	struct g4_ring_buffers *buffers = buffers_for(client, cmd->length);
	uint64_t at = borrow(client, buffers);

	if (g4_command_is(cmd->op, G4_DATA_IN))
		memcpy(client->data + at, cmd->data, cmd->length);
	const bool says = g4_command_is(cmd->op, G4_SAYS_WHY);
	if (says)
		client->data[at] = 0;
	int rc = call(client, cmd, NULL, at);
	if (rc < 0 && says)
		cmd->value = strnlen((const char *)client->data + at, cmd->length - 1);
	if (rc == 0 && g4_command_is(cmd->op, G4_DATA_OUT))
		rc = deliver(client, cmd, at);
	else if (says)
		memcpy(cmd->data, client->data + at, cmd->value + 1);
	give_back(client, buffers, at);
	return rc;
}

/* READ or WRITE in pieces. What was moved before an error counts, as in read(2) and write(2). */
static int call_in_pieces(struct g4_ring_client *client, struct g4_cmd *cmd)
{
	struct g4_cmd piece = *cmd;
	uint64_t done = 0;
	int rc = 0;

	while (done < cmd->length) {
		piece.data = (uint8_t *)cmd->data + done;
		piece.length = g4_min64(cmd->length - done, LARGE_BYTES);
		piece.offset = cmd->offset + done;
		rc = call_copied(client, &piece);
		if (rc < 0)
			break;
		if (done == 0)
			cmd->offset = piece.offset; /* where an appending write went */
		done += piece.value;
		if (piece.value < piece.length)
			break;
	}
	cmd->value = done;
	return cmd->status = done > 0 ? 0 : rc;
}

int g4_ring_client_execute(struct g4_ring_client *client, struct g4_cmd *cmd)
{
	uint64_t at = (uint64_t)((uint8_t *)cmd->data - client->data);

	if (!g4_command_is(cmd->op, G4_DATA_IN | G4_DATA_OUT) || cmd->length == 0)
		return call(client, cmd, NULL, 0);
	if (cmd->data && at < client->data_bytes && cmd->length <= client->data_bytes - at)
		return call(client, cmd, NULL, at);
	if (cmd->length <= LARGE_BYTES)
		return call_copied(client, cmd);
	if (g4_command_is(cmd->op, G4_DATA_IN_PLACE))
		return call_in_pieces(client, cmd);
	if (!g4_command_is(cmd->op, G4_DATA_IN)) { /* no listing or value is longer: a larger buffer is not filled */
		uint64_t length = cmd->length;
		cmd->length = LARGE_BYTES;
		int rc = call_copied(client, cmd);
		cmd->length = length;
		return rc;
	}
	return cmd->status = -G4_E_XATTR_BIG;
}

int g4_ring_client_execute_at(struct g4_ring_client *client, struct g4_cmd *cmd, const struct g4_walk *walk)
{
	return call(client, cmd, walk->bytes > 0 ? walk : NULL, 0);
}

void g4_ring_client_post(struct g4_ring_client *client, struct g4_cmd *cmd)
{
	struct g4_ring_slot slot;
	uint32_t inline_bytes, number;

	if (g4_ring_client_marshal(client, cmd, NULL, &slot, &inline_bytes) < 0)
		return;
	if (slot.command.text_at != G4_RING_TEXT_INLINE) { /* a buffer is given back when the result is there */
		g4_ring_client_end_text(client, &slot);
		(void)g4_ring_client_execute(client, cmd);
		return;
	}
	if (!g4_load32_acq(&client->stopped))
		(void)g4_ring_client_submit(client, &slot, inline_bytes, &number, NULL, NULL);
}
