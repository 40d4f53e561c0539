/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What orders about disks make of them, as far as a crash may find it: which ones have missed something, may be none of the set any more or
 * not yet, and have nothing that anybody needs. An order that has returned is durable; one that runs may be, or not.
 */
#include "explore.h"

static uint32_t bit_of(const struct session *s, const struct part *part)
{
	return 1u << (part->offset == IDLE_DISK ? set_kinds[s->lab->kind].disks : part->offset);
}

struct orders {
	uint32_t waits;	 /* gets the place of one that has failed, by an order or by itself */
	uint32_t leaves; /* is to be removed */
};

static void add(struct session *s, uint32_t disk)
{
	s->gone &= ~disk;
	s->nobody &= ~disk;
}

/* All jobs have ended: what was put aside is up to date, or another one is in its place. */
static void jobs_ended(struct session *s, struct orders *o)
{
	if (o->waits != 0 && s->out != 0) {
		add(s, o->waits);
		s->gone |= s->out;
		s->nobody |= s->out;
		o->waits = 0;
	}
	s->out = 0;
	s->nobody |= o->leaves;
}

static void follow(struct session *s, struct orders *o, const struct part *part, bool ended)
{
	const uint32_t disk = part->verb == ORDER || part->verb == FAIL ? bit_of(s, part) : 0;

	if (part->verb == FAIL || (part->verb == ORDER && part->bytes == G4_DISK_OFFLINE)) {
		s->out |= disk;
	} else if (part->verb == SERVE && part->bytes == 0 && ended) {
		jobs_ended(s, o);
	} else if (part->verb == ORDER && part->bytes == G4_DISK_REMOVE) {
		s->gone |= disk;
		o->leaves |= disk;
	} else if (part->verb == ORDER && part->bytes == G4_DISK_ADD_SPARE) {
		o->waits |= disk;
	} else if (part->verb == ORDER && part->bytes == G4_DISK_REPLACE && (disk & s->nobody)) {
		o->waits |= disk;
	} else if (part->verb == ORDER && part->bytes == G4_DISK_ADD) {
		s->nobody &= ~disk; /* the others may call it one of them already */
		if (ended)
			add(s, disk);
	}
}

void sets_orders(struct session *s)
{
	const struct party *party = &s->w->parties[s->w->orders];
	struct orders o = {0};

	s->out = 0;
	s->gone = s->nobody = lab_all_disks(s->lab) & ~((1u << set_kinds[s->lab->kind].disks) - 1);
	for (uint32_t k = 0; k < party->count && party->begun[k] <= s->now; k++)
		follow(s, &o, &party->parts[k], k < party->done && party->ended[k] <= s->now && party->codes[k] == 0);
}
