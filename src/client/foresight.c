/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Foresight: who lists a directory mostly asks for its names next, one by one. So the first time that a name is asked for which a listing has told, those
 * behind it are looked up as well, by commands under way, in the way in which that one was asked for: the engine works on them while the program does
 * something with what it has, and each of them waits for no way there and back of its own.
 *
 * Such a lookup is a hint. It becomes the answer of a call only if all epochs of its trail still have the values that the engine has seen when the
 * call looks at them (docs/design/mirror.md): it is of that moment then, whenever it was begun. Else a command is the answer.
 *
 * What is known is of a few directories of a session, for who walks through a tree comes back to the names that lie behind a directory, and of one thread at
 * a time; others ask as if there were no listing. Lookups are under way for one of these directories: what others have under way is waited for and put
 * into the mirror, when that one begins some.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/client.h"

#define NAMES_BYTES (64u * 1024)
#define UNDER_WAY G4_LOOKUPS_AHEAD
#define LISTINGS 8u
#define MOST_IN_VAIN                                                                                                   \
	8u /* names that were asked for and not foreseen, or foreseen and changed, until a listing is given up */

struct listing {
	uint64_t used; /* when, of all of the session */
	uint32_t in_vain;
	uint64_t ino, generation; /* of the directory */
	uint32_t filled;	  /* bytes of names: each is its length, a byte, and its text */
	uint32_t first, begun;	  /* those from the one on up to the other are under way or were; */
	bool again;		  /* and those behind it: what follows now are those in front of `first` */
	bool learnt;		  /* how they are asked for: what follows */
	struct g4c_question like; /* with what stands in front of the name as its path */
	struct g4c_node start;
	uint32_t flags;
	char path[G4_RING_TEXT_BYTES];
	uint32_t count; /* of lookups under way */
	struct {
		uint64_t lookup;
		uint32_t name; /* where it is */
	} under_way[UNDER_WAY];
	uint8_t names[NAMES_BYTES];
};

struct g4c_foresight {
	uint32_t busy; /* atomic: a thread has it, and all that follows */
	uint64_t uses;
	struct listing *told; /* what a listing tells now is of this one */
	struct listing listings[LISTINGS];
};

static bool take(struct g4c_foresight *f)
{
	return f && g4_cas32(&f->busy, 0, 1);
}

static void give_back(struct g4c_foresight *f)
{
	g4_store32_rel(&f->busy, 0);
}

static void forget_lookups(gpu4fs *fs, struct listing *l)
{
	while (l->count > 0)
		g4_engine_end_lookup(fs->mount->engine, l->under_way[--l->count].lookup);
}

static void forget(gpu4fs *fs, struct listing *l)
{
	forget_lookups(fs, l);
	l->filled = l->begun = l->first = l->in_vain = 0;
	l->learnt = l->again = false;
}

/* Where the names end that are looked up now. */
static uint32_t end_of(const struct listing *l)
{
	return l->again ? l->first : l->filled;
}

/* Whether there are names that were not looked up. */
static bool has_more(const struct listing *l)
{
	return l->begun != end_of(l) || (!l->again && l->first > 0);
}

/* All of its names were looked up, and asked for or kept. */
static bool is_over(const struct listing *l)
{
	return l->begun == end_of(l) && (l->count == 0 || l->filled > NAMES_BYTES / 2);
}

/* ------------------------------------------------------------------ what a listing has told */

/* The session's, made with its first listing; NULL: no memory, or another thread has it. */
static struct g4c_foresight *take_or_make(gpu4fs *fs)
{
	struct g4c_foresight *f = __atomic_load_n(&fs->foresight, __ATOMIC_ACQUIRE), *none = NULL;

	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f &&
		    !__atomic_compare_exchange_n(&fs->foresight, &none, f, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			free(f);
			f = none;
		}
	}
	return take(f) ? f : NULL;
}

/* How soon it goes for another one: first those that are used up, then those of which nobody has asked for anything, then the one used longest ago. */
static uint64_t worth(const struct listing *l)
{
	return is_over(l) ? 0 : l->learnt ? UINT64_MAX / 2 + l->used : l->used;
}

static struct listing *of_directory(struct g4c_foresight *f, const gpu4fs_file *directory)
{
	struct listing *least = &f->listings[0];

	for (uint32_t i = 0; i < LISTINGS; i++) {
		struct listing *l = &f->listings[i];
		if (l->ino == directory->ino && l->generation == directory->generation)
			return l;
		if (worth(l) < worth(least))
			least = l;
	}
	return least;
}

struct g4c_foresight *g4c_foresight_begin(gpu4fs_file *directory, bool goes_on)
{
	struct g4c_foresight *f = directory->fs->mirror ? take_or_make(directory->fs) : NULL;

	if (!f)
		return NULL;
	struct listing *l = of_directory(f, directory);
	if (!goes_on || is_over(l) || l->ino != directory->ino || l->generation != directory->generation)
		forget(directory->fs, l);
	l->ino = directory->ino;
	l->generation = directory->generation;
	l->used = ++f->uses;
	f->told = l;
	return f;
}

void g4c_foresight_add(struct g4c_foresight *f, const char *name, uint32_t bytes)
{
	struct listing *l = f->told;

	if (bytes > UINT8_MAX || bytes + 1 > NAMES_BYTES - l->filled)
		return; /* it is asked for as if nobody had told it */
	l->names[l->filled] = (uint8_t)bytes;
	memcpy(&l->names[l->filled + 1], name, bytes);
	l->filled += bytes + 1;
}

void g4c_foresight_end(struct g4c_foresight *f)
{
	give_back(f);
}

void g4c_foresight_free(gpu4fs *fs)
{
	struct g4c_foresight *f = fs->foresight;

	for (uint32_t i = 0; f && i < LISTINGS; i++)
		forget_lookups(fs, &f->listings[i]); /* other sessions of the connection have the places from now on */
	free(f);
}

/* ------------------------------------------------------------------ what is asked for */

static bool is_name(const struct listing *l, uint32_t at, const char *name, uint32_t bytes)
{
	return l->names[at] == bytes && memcmp(&l->names[at + 1], name, bytes) == 0;
}

static uint32_t behind(const struct listing *l, uint32_t at)
{
	return at + l->names[at] + 1;
}

/* Where in a path its last component begins. */
static uint32_t last_of(const char *path, uint32_t bytes)
{
	while (bytes > 0 && path[bytes - 1] != '/')
		bytes--;
	return bytes;
}

static void learn(struct listing *l, const struct g4c_question *question, const struct g4_cmd *cmd, uint32_t head)
{
	l->like = *question;
	l->like.path_bytes = (uint16_t)head;
	l->start = (struct g4c_node){cmd->node, cmd->generation, cmd->token};
	l->flags = cmd->flags;
	memcpy(l->path, question->path, head);
	l->learnt = true;
}

static bool is_like(const struct listing *l, const struct g4c_question *question, uint32_t head)
{
	return l->like.start == question->start && l->like.generation == question->generation &&
	       l->like.asks == question->asks && l->like.path_bytes == head &&
	       memcmp(l->path, question->path, head) == 0;
}

/* The path of a name, as it is asked for; 0: it is too long. */
static uint32_t path_of(const struct listing *l, uint32_t at, char path[G4_RING_TEXT_BYTES])
{
	const uint32_t head = l->like.path_bytes, bytes = head + l->names[at];

	if (bytes > G4_RING_TEXT_BYTES)
		return 0;
	memcpy(path, l->path, head);
	memcpy(path + head, &l->names[at + 1], bytes - head);
	return bytes;
}

/* False: there is no room, or the path is too long. */
static bool begin(gpu4fs *fs, struct listing *l, uint32_t at)
{
	char path[G4_RING_TEXT_BYTES];
	const uint32_t bytes = path_of(l, at, path);
	struct g4_cmd cmd = {.op = G4_CMD_RESOLVE,
			     .flags = l->flags,
			     .name = path,
			     .name_bytes = (uint16_t)bytes,
			     .cred = &fs->cred};

	if (bytes == 0)
		return false;
	g4c_set_node(&cmd, l->start);
	if (!g4_engine_begin_lookup(fs->mount->engine, &cmd, &l->under_way[l->count].lookup))
		return false;
	l->under_way[l->count++].name = at;
	return true;
}

/* Waits for a lookup. True: it is the answer now, with *rc as its code. */
static bool await(gpu4fs *fs, struct listing *l, uint32_t k, const struct g4c_question *question, struct g4_cmd *cmd,
		  struct g4_trail *trail, int *rc)
{
	const uint64_t lookup = l->under_way[k].lookup;

	l->under_way[k] = l->under_way[--l->count];
	if (!g4_engine_await_lookup(fs->mount->engine, lookup, cmd, trail))
		return false;
	*rc = cmd->status < 0 ? -g4_errno(cmd->status) : 0;
	return g4c_mirror_keep(fs->mirror, question, *rc, cmd->attr, trail);
}

/* The answers of what is under way, for when they are asked for: there are places for the lookups of one listing at a time. */
static void keep_answers(gpu4fs *fs, struct listing *l)
{
	while (l->count > 0) {
		char path[G4_RING_TEXT_BYTES];
		struct g4c_question question = l->like;
		struct g4_attr attr;
		struct g4_cmd cmd = {.op = G4_CMD_RESOLVE, .attr = &attr};
		struct g4_trail trail = {0};
		int rc;

		question.path = path;
		question.path_bytes = (uint16_t)path_of(l, l->under_way[l->count - 1].name, path);
		(void)await(fs, l, l->count - 1, &question, &cmd, &trail, &rc);
	}
}

/* Begins more when half of what there is room for has been used: those up to the end, and then those in front of the first one. */
static void begin_more(gpu4fs *fs, struct g4c_foresight *f, struct listing *l)
{
	if (l->count > UNDER_WAY / 2 || !has_more(l))
		return;
	for (uint32_t i = 0; i < LISTINGS; i++)
		if (&f->listings[i] != l)
			keep_answers(fs, &f->listings[i]);
	while (l->count < UNDER_WAY) {
		if (l->begun == l->filled && !l->again) {
			l->begun = 0;
			l->again = true;
		}
		if (l->begun == end_of(l) || !begin(fs, l, l->begun))
			return;
		l->begun = behind(l, l->begun);
	}
}

/* Whether one of the names that were told is asked for the first time: it becomes the first that is looked up. */
static bool finds_first(struct listing *l, const struct g4c_question *question, const struct g4_cmd *cmd, uint32_t head)
{
	const char *name = question->path + head;
	const uint32_t bytes = question->path_bytes - head;
	uint32_t at = 0;

	if (question->path_bytes > sizeof(l->path))
		return false;
	while (at < l->filled && !is_name(l, at, name, bytes))
		at = behind(l, at);
	if (at == l->filled)
		return false;
	learn(l, question, cmd, head);
	l->first = l->begun = at;
	return true;
}

/*
 * Whose names this may be one of: the listing that is asked for so, or the newest of which it is the first one to be asked for. A name alone is one of the
 * directory where the walk begins.
 */
static struct listing *of_question(struct g4c_foresight *f, const struct g4c_question *question, uint32_t head)
{
	struct listing *found = NULL;

	for (uint32_t i = 0; i < LISTINGS; i++) {
		struct listing *l = &f->listings[i];
		if (l->filled == 0)
			continue;
		if (l->learnt && is_like(l, question, head))
			return l;
		if (!l->learnt && (head > 0 || (l->ino == question->start && l->generation == question->generation)) &&
		    (!found || l->used > found->used))
			found = l;
	}
	return found;
}

static bool answer(gpu4fs *fs, struct g4c_foresight *f, struct listing *l, const struct g4c_question *question,
		   struct g4_cmd *cmd, struct g4_trail *trail, int *rc)
{
	const uint32_t head = last_of(question->path, question->path_bytes), bytes = question->path_bytes - head;

	if (!l->learnt && !finds_first(l, question, cmd, head)) {
		l->in_vain++;
		return false;
	}
	l->used = ++f->uses;
	if (l->count == 0) /* it is the first one, or those before it were kept */
		begin_more(fs, f, l);
	for (uint32_t k = 0; k < l->count; k++) {
		if (!is_name(l, l->under_way[k].name, question->path + head, bytes))
			continue;
		const bool answers = await(fs, l, k, question, cmd, trail, rc);
		l->in_vain = answers ? 0 : l->in_vain + 1;
		begin_more(fs, f, l);
		return answers;
	}
	l->in_vain++;
	return false;
}

bool g4c_foresee(gpu4fs *fs, const struct g4c_question *question, struct g4_cmd *cmd, struct g4_trail *trail, int *rc)
{
	struct g4c_foresight *f = __atomic_load_n(&fs->foresight, __ATOMIC_ACQUIRE);

	if (cmd->op != G4_CMD_RESOLVE || !take(f))
		return false;
	struct listing *l = of_question(f, question, last_of(question->path, question->path_bytes));
	const bool answers = l && answer(fs, f, l, question, cmd, trail, rc);
	if (l && !answers && l->in_vain > MOST_IN_VAIN)
		forget(fs, l);
	give_back(f);
	return answers;
}
