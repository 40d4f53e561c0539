/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands ahead: READs, and lookups, that are given before anybody waits for them (client_parts_host.h). There are places for a few of each kind, of
 * all callers. A READ has a buffer, which is taken from what is left for g4_ring_client_alloc() when it is first wanted.
 */
#include "ring/client_parts_host.h"

#define KEPT                                                                                                           \
	64u /* commands ahead that were begun or wanted later, until one that nobody asked for may be forgotten for others */

/* Whether what it tells may be forgotten, and is there, so that its place is nobody's. The submit lock is held. */
static bool may_go(struct g4_ring_client *client, const struct g4_aheads *aheads, struct g4_ahead *ahead)
{
	return ahead->state != G4_AHEAD_HELD && (ahead->forgotten || aheads->ids - ahead->id > KEPT) &&
	       g4_ahead_is_done(client, ahead);
}

/* One place more, if there is one, and memory for it. The submit lock is held. */
static struct g4_ahead *new_place(struct g4_ring_client *client, struct g4_aheads *aheads)
{
	const bool reads = aheads == &client->reads;
	uint8_t *memory = NULL;

	if (aheads->count == (reads ? G4_READS_AHEAD : G4_LOOKUPS_AHEAD))
		return NULL;
	if (reads && !(memory = g4_ring_client_alloc(client, G4_RING_AHEAD_BYTES)))
		return NULL;
	aheads->places = reads ? client->read_places : client->lookup_places;
	struct g4_ahead *place = &aheads->places[aheads->count++];
	place->at = reads ? (uint64_t)(memory - client->data) : 0;
	return place;
}

/* Room for one more, held; NULL: there is none now. */
static struct g4_ahead *take_room(struct g4_ring_client *client, struct g4_aheads *aheads, uint32_t op, uint32_t length)
{
	struct g4_ahead *found = NULL;

	pthread_mutex_lock(&client->submit_lock);
	aheads->ids++;
	for (uint32_t i = 0; i < aheads->count && !found; i++)
		if (aheads->places[i].state == G4_AHEAD_NONE)
			found = &aheads->places[i];
	if (!found)
		found = new_place(client, aheads);
	for (uint32_t i = 0; i < aheads->count && !found; i++)
		if (may_go(client, aheads, &aheads->places[i]))
			found = &aheads->places[i];
	if (found) {
		found->state = G4_AHEAD_HELD;
		found->id = aheads->ids;
		found->forgotten = false;
		found->op = op;
		found->length = length;
		found->trail.count = 0;
	}
	pthread_mutex_unlock(&client->submit_lock);
	return found;
}

/* The one that callers know by this; NULL: it was forgotten. The submit lock is held. */
static struct g4_ahead *ahead_of(const struct g4_aheads *aheads, uint64_t id)
{
	for (uint32_t i = 0; i < aheads->count; i++)
		if (aheads->places[i].state != G4_AHEAD_NONE && aheads->places[i].id == id)
			return &aheads->places[i];
	return NULL;
}

static void set_state(struct g4_ring_client *client, struct g4_ahead *ahead, uint32_t state)
{
	pthread_mutex_lock(&client->submit_lock);
	ahead->state = state;
	pthread_mutex_unlock(&client->submit_lock);
}

/* Gives the command of one that is held. False: it does not fit into a slot, or the engine is gone; the place is free again. */
static bool begin(struct g4_ring_client *client, struct g4_ahead *ahead, const struct g4_cmd *cmd)
{
	struct g4_ring_slot slot;
	uint32_t inline_bytes, number;
	bool left;

	if (g4_ring_client_marshal(client, cmd, NULL, &slot, &inline_bytes) == 0) {
		slot.command.data = ahead->at;
		if (slot.command.text_at == G4_RING_TEXT_INLINE && !g4_load32_acq(&client->stopped) &&
		    g4_ring_client_submit(client, &slot, inline_bytes, &number, &left, ahead))
			return true;
		g4_ring_client_end_text(client, &slot); /* nobody would, when the result is there */
	}
	set_state(client, ahead, G4_AHEAD_NONE);
	return false;
}

/* Takes one for the caller and waits for it. NULL: it was forgotten. */
static struct g4_ahead *await(struct g4_ring_client *client, struct g4_aheads *aheads, uint64_t id)
{
	bool under_way = false;

	pthread_mutex_lock(&client->submit_lock);
	struct g4_ahead *ahead = ahead_of(aheads, id);
	if (ahead) {
		under_way = ahead->state == G4_AHEAD_UNDER_WAY && !g4_ahead_is_done(client, ahead);
		if (under_way) /* the slot is this thread's now */
			client->taken[ahead->number & (client->entries - 1)] = G4_SLOT_AWAITED;
		ahead->state = G4_AHEAD_HELD;
	}
	pthread_mutex_unlock(&client->submit_lock);
	if (under_way) {
		const struct g4_ring_command like = {.op = ahead->op, .length = ahead->length};
		struct g4_cmd cmd = g4_ahead_command(ahead);
		g4_ring_client_await(client, &aheads->polling, &like, ahead->number, true, &cmd);
		g4_ahead_set(ahead, &cmd);
	}
	return ahead;
}

static void end(struct g4_ring_client *client, const struct g4_aheads *aheads, uint64_t id, bool keep)
{
	pthread_mutex_lock(&client->submit_lock);
	struct g4_ahead *ahead = ahead_of(aheads, id);
	if (ahead && ahead->state == G4_AHEAD_HELD)
		ahead->state = keep ? G4_AHEAD_DONE : G4_AHEAD_NONE;
	else if (ahead)
		ahead->forgotten = true;
	pthread_mutex_unlock(&client->submit_lock);
}

/* ------------------------------------------------------------------ READs */

bool g4_ring_client_begin_read(struct g4_ring_client *client, const struct g4_cmd *cmd, uint64_t *read)
{
	struct g4_ahead *ahead = take_room(client, &client->reads, G4_CMD_READ, (uint32_t)cmd->length);

	if (!ahead)
		return false;
	*read = ahead->id;
	return begin(client, ahead, cmd);
}

const uint8_t *g4_ring_client_await_read(struct g4_ring_client *client, uint64_t read, int *status, uint32_t *bytes)
{
	const struct g4_ahead *ahead = await(client, &client->reads, read);

	if (!ahead)
		return NULL;
	*status = ahead->status;
	*bytes = (uint32_t)g4_min64(ahead->value, ahead->length);
	return client->data + ahead->at;
}

void g4_ring_client_end_read(struct g4_ring_client *client, uint64_t read, bool keep)
{
	end(client, &client->reads, read, keep);
}

/* ------------------------------------------------------------------ lookups */

bool g4_ring_client_begin_lookup(struct g4_ring_client *client, const struct g4_cmd *cmd, uint64_t *lookup)
{
	struct g4_ahead *ahead =
		cmd->name_bytes <= G4_RING_TEXT_BYTES ? take_room(client, &client->lookups, cmd->op, 0) : NULL;

	if (!ahead)
		return false;
	*lookup = ahead->id;
	struct g4_cmd asks = *cmd;
	asks.flags |= G4_LOOK_TRAIL;
	asks.attr = &ahead->attr;
	return begin(client, ahead, &asks);
}

bool g4_ring_client_await_lookup(struct g4_ring_client *client, uint64_t lookup, struct g4_cmd *cmd,
				 struct g4_trail *trail)
{
	const struct g4_ahead *ahead = await(client, &client->lookups, lookup);

	if (!ahead)
		return false;
	cmd->status = ahead->status;
	*cmd->attr = ahead->attr;
	*trail = ahead->trail;
	end(client, &client->lookups, lookup, false);
	return true;
}

void g4_ring_client_end_lookup(struct g4_ring_client *client, uint64_t lookup)
{
	end(client, &client->lookups, lookup, false);
}
