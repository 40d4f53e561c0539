/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One workload: rehearsed (what states does it go through), recorded (what requests does it make), then every moment of
 * the record is a crash. README.md says which states are legal and which are chosen where there are too many.
 */
#include "explore.h"

#include "fs/fs.h"
#include "fs/mount_host.h"

/* ------------------------------------------------------------------ assessing */

static struct outcome *new_outcome(struct lab *lab, uint32_t *index)
{
	if (lab->outcome_count == lab->outcome_room) {
		lab->outcome_room = lab->outcome_room ? 2 * lab->outcome_room : 256;
		lab->outcome = (struct outcome *)realloc(lab->outcome, lab->outcome_room * sizeof(struct outcome));
		if (!lab->outcome)
			abort();
	}
	*index = lab->outcome_count++;
	memset(&lab->outcome[*index], 0, sizeof(struct outcome));
	return &lab->outcome[*index];
}

static void condemn(struct outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void condemn(struct outcome *outcome, const char *format, ...)
{
	va_list arguments;

	if (outcome->bad)
		return;
	outcome->bad = true;
	va_start(arguments, format);
	if (vasprintf(&outcome->text, format, arguments) < 0)
		abort();
	va_end(arguments);
}

/* What fsck finds on the image as it lies there; its journal counts as replayed. */
void run_fsck(struct lab *lab, struct outcome *outcome, bool recovered, uint64_t free_pages)
{
	char *text = NULL;
	struct rig disks = {0};

	if (lab->kind != 0)
		snprintf(disks.name, sizeof(disks.name), "%s", set_name(lab));
	struct rig_verdict verdict = rig_fsck(lab->kind == 0 ? &lab->rig : &disks, &text);

	lab->counts->fscks++;
	if (verdict.problems > 0 || (recovered && verdict.orphans > 0))
		condemn(outcome, "fsck %s recovery: %lu problems, %lu orphans\n%s", recovered ? "after" : "before",
			(unsigned long)verdict.problems, (unsigned long)verdict.orphans, text);
	else if (recovered && free_pages != ANY_SPACE && verdict.free_pages != free_pages &&
		 !(lab->set.gives_up && free_pages < verdict.free_pages)) /* what a removal has taken is not free */
		condemn(outcome, "statfs counts %lu free pages, the surviving tree leaves %lu",
			(unsigned long)free_pages, (unsigned long)verdict.free_pages);
	free(text);
}

/* A recovery that ended as none did before: what is there, is it whole, is all other space free? */
static void examine(struct lab *lab, struct g4_fs *fs, struct outcome *outcome)
{
	struct actor actor = {0};
	struct g4_statfs space = {0};
	const char *what;

	actor_start(&actor, fs, lab->wg[0]);
	int rc = op_statfs(&actor.rig, &space);
	if (rc == 0)
		rc = look(&actor.rig, &outcome->tree, &what);
	if (rc < 0)
		condemn(outcome, "%s: %s", what, g4_strerror(rc));
	rc = lab_unmount(lab, fs, true);
	if (rc < 0)
		condemn(outcome, "it does not unmount: %s", g4_strerror(rc));
	if (lab->rotten == 0) /* what nobody has read is rotten still */
		run_fsck(lab, outcome, true, space.blocks_free);
}

/* The sketched state is in memory, where it begins at `mark`, and recovers; every so often fsck judges it first. */
static uint32_t assess(struct lab *lab, uint32_t mark, bool fsck_first)
{
	struct outcome before = {0}, *outcome;
	uint64_t all, home, told;
	uint32_t index;
	char message[256];
	bool is_told = recall_home(lab->recall, &told);

	if (fsck_first)
		run_fsck(lab, &before, false, 0);
	lab->counts->mounts++;
	recall_begin(lab->recall);
	struct g4_fs *fs = lab_mount(lab, true, message, sizeof(message));
	if (before.bad || !fs) {
		recall_drop(lab->recall);
		outcome = new_outcome(lab, &index);
		*outcome = before;
		if (!fs)
			condemn(outcome, "it does not mount: %s", message);
		else
			lab_unmount(lab, fs, false);
		return index;
	}
	const uint64_t view = set_view(lab);
	recall_end(lab->recall, view);
	memory_sums(&lab->memory, mark, &all, &home);
	home ^= view;
	lab->counts->compared += is_told;
	uint32_t *known = table_find(&lab->outcomes, home);
	if (known && (!is_told || told == home)) {
		lab_unmount(lab, fs, false);
		return *known;
	}
	outcome = new_outcome(lab, &index);
	examine(lab, fs, outcome);
	if (set_is_short(lab))
		condemn(outcome, "disks are left out that were not lost: %x (bits) of %x are used, %x may be left out",
			lab->set.used, lab->memory.present, lab->set.absent);
	if (is_told && told != home)
		condemn(outcome, "two recoveries that read the same did not leave the same");
	lab->counts->trees++;
	if (!known)
		table_add(&lab->outcomes, home, index);
	return index;
}

/* What a recovery of the sketched state would end as, where one that reads the same was run and its end was looked at. */
static uint32_t *recall(struct lab *lab)
{
	uint64_t home;

	return recall_home(lab->recall, &home) ? table_find(&lab->outcomes, home) : NULL;
}

/* ------------------------------------------------------------------ sketching a state */

static bool unit_survives(const struct fate *fate, uint64_t unit, uint32_t unit_bytes)
{
	switch (fate->kind) {
	case FIRST:
		return unit < fate->argument;
	case WITHOUT:
		return unit != fate->argument;
	case LINES: /* of a processor's cache */
		return mix(fate->argument, unit * unit_bytes / 64) & 1;
	default:
		return mix(fate->argument, unit) & 1;
	}
}

/* Bytes of a request from `from` to before `end` reach the medium. */
static void survive(struct session *s, uint32_t number, uint64_t from, uint64_t end)
{
	const struct request *request = &s->trace->requests[number];
	const uint64_t first_page = request->offset / G4_PAGE_BYTES;

	for (uint64_t at = from, next; at < end; at = next) {
		const uint64_t offset = request->offset + at, page = offset / G4_PAGE_BYTES;
		next = g4_min64(end, (page + 1) * G4_PAGE_BYTES - request->offset);
		if (next - at < G4_PAGE_BYTES) {
			sketch_part(&s->lab->sketch, offset, request->data + at, next - at);
			continue;
		}
		uint64_t *sum = &s->sums[s->first_sum[number] + page - first_page];
		if (*sum == 0)
			*sum = memory_page_sum((uint32_t)page, request->data + at);
		sketch_whole(&s->lab->sketch, (uint32_t)page, request->data + at, *sum);
	}
}

static void sketch_request(struct session *s, uint32_t number, const struct fate *fate)
{
	const uint64_t bytes = s->trace->requests[number].bytes, unit = class_unit_bytes(s->w->class_);
	uint64_t from = 0;

	if (fate->kind == DROP)
		return;
	if (fate->kind == KEEP) {
		survive(s, number, 0, bytes);
		return;
	}
	for (uint64_t at = 0; at < bytes; at += unit) /* units in a row at once */
		if (!unit_survives(fate, at / unit, (uint32_t)unit)) {
			survive(s, number, from, at);
			from = at + unit;
		}
	if (from < bytes)
		survive(s, number, from, bytes);
}

static void sketch(struct session *s)
{
	const struct fate keep = {.kind = KEEP};

	s->lab->sketched = s;
	sketch_clear(&s->lab->sketch);
	for (uint32_t k = 0; k < s->pending_count; k++)
		sketch_request(s, s->pending[k].request, s->pending[k].durable ? &keep : &s->fates[k]);
	if (s->flying)
		sketch_request(s, s->now, &s->flying_fate);
}

/* ------------------------------------------------------------------ judging a state */

static void print_fate(const struct session *s, uint32_t request, const struct fate *fate, bool durable)
{
	static const char *const words[] = {
		"lost", "there", "first units", "without unit", "some lines, seed", "some units, seed"};
	const struct request *r = &s->trace->requests[request];

	printf("    request %u: %lu bytes at %lx%s: ", request, (unsigned long)r->bytes,
	       (unsigned long)(r->offset - r->disk * s->lab->set.disk_bytes), r->fua ? ", durable when complete" : "");
	if (s->w->set > 0)
		printf("on disk %u: ", r->disk);
	if (durable)
		printf("durable\n");
	else if (fate->kind <= KEEP)
		printf("%s\n", words[fate->kind]);
	else
		printf("%s %lu\n", words[fate->kind], (unsigned long)fate->argument);
}

void violation(struct session *s, const struct outcome *outcome, const char *why)
{
	struct session *outer = s->outer ? s->outer : s;

	const uint32_t lost = lab_all_disks(s->lab) & ~s->lab->memory.present;

	s->lab->counts->violations++;
	s->lab->counts->by_set[s->w->set].violations++;
	printf("VIOLATION: %s\n  again with: --engine %s --workload %s --seed %lu --state %lu", why,
	       engine_names[s->lab->engine], s->w->name, (unsigned long)s->lab->seed, (unsigned long)outer->number);
	if (s->outer)
		printf(" --inner %lu", (unsigned long)s->number);
	if (lost != 0)
		printf("\n  without disks %x (bits)", lost);
	if (s->lab->rotten != 0)
		printf("\n  disks %x (bits) are rotten", s->lab->rotten);
	printf("\n  crash %s request %u of %u", s->flying ? "in" : "before", s->now, s->trace->count);
	printf("%s\n", s->outer ? ", in the recovery of a crash" : "");
	for (uint32_t k = 0; k < s->pending_count; k++)
		print_fate(s, s->pending[k].request, &s->fates[k], s->pending[k].durable);
	if (s->flying)
		print_fate(s, s->now, &s->flying_fate, false);
	for (uint32_t p = 0; p < s->w->party_count; p++) {
		const struct party *party = &s->w->parties[p];
		printf("  party %u: names of state %u at least, %u reached; contents of state %u at least", p,
		       s->windows[p].names, s->windows[p].reached, s->windows[p].files);
		for (uint32_t k = 0; k < s->windows[p].count; k++)
			printf(", id %u of %u", s->windows[p].file[k].id, s->windows[p].file[k].from);
		printf("\n");
		party_print(party);
		for (uint32_t k = s->windows[p].names; k <= s->windows[p].reached && s->w->party_count == 1; k++)
			tree_print(&party->states[k], "possible");
	}
	tree_print(&outcome->tree, "found");
	trace_keep(s->lab, s->w, outer->trace);
	fflush(stdout);
}

/* After a crash in a recovery all is as without it, and what was made after the recovery obeys the same rules. */
static const char *judge_second(const struct session *s, const struct outcome *outcome)
{
	const struct tree *first = &s->lab->outcome[s->outer_outcome].tree, *now = &outcome->tree;
	bool there = tree_find(now, SECOND_LIFE) != NULL;
	uint32_t k = 0;

	if (there && s->now < s->second_begun)
		return "a file is there before it was made";
	if (!there && s->now >= s->second_durable)
		return "a file that was synced after a recovery is gone";
	if (now->count != first->count + there)
		return "the second recovery finds other names than the first";
	for (uint32_t n = 0; n < now->count; n++) {
		const struct node *a = &now->nodes[n], *b = &first->nodes[k];
		if (strcmp(a->path, SECOND_LIFE) == 0)
			continue;
		k++;
		if (!same_but_contents(a, b) || a->size != b->size || a->page_count != b->page_count ||
		    (a->page_count > 0 && memcmp(now->pages + a->first_page, first->pages + b->first_page,
						 a->page_count * sizeof(uint64_t)) != 0))
			return "the second recovery finds something else than the first";
	}
	return NULL;
}

static void judge(struct session *s, uint32_t index)
{
	struct outcome *outcome = &s->lab->outcome[index];
	uint64_t possible[MAX_PARTIES];
	const char *why;

	if (outcome->bad) {
		violation(s, outcome, outcome->text);
		return;
	}
	if (outcome->judged_workload == s->lab->workload_serial && outcome->judged_window == s->window_serial)
		return;
	/* before a recovery has ended another disk may be lost, and with it what that one alone had */
	const bool other_disks = s->outer && s->lab->memory.present != s->present && s->now < s->second_begun;
	if (s->outer && !other_disks && (why = judge_second(s, outcome)) != NULL) {
		violation(s, outcome, why);
		return;
	}
	for (uint32_t p = 0; p < s->w->party_count; p++) {
		possible[p] = party_judge(&s->w->parties[p], &s->windows[p], &outcome->tree, &why);
		if (possible[p] == 0) {
			violation(s, outcome, why);
			return;
		}
	}
	if (!parties_in_order(s->w->parties, s->w->party_count, possible)) {
		violation(s, outcome, "of two threads' operations the later one is there and the earlier one is not");
		return;
	}
	outcome->judged_workload = s->lab->workload_serial;
	outcome->judged_window = s->window_serial;
}

/* ------------------------------------------------------------------ one state */

static bool wanted(const struct session *s)
{
	const struct lab *lab = s->lab;

	if (s->outer)
		return lab->only_inner == UINT64_MAX || s->number == lab->only_inner;
	return lab->only_state == UINT64_MAX || s->number == lab->only_state;
}

/* About half of the pages of these disks have a byte that is another, but what says that they are disks of the set. */
static void rot(struct session *s, uint32_t disks)
{
	struct lab *lab = s->lab;
	const uint64_t pages = lab->set.disk_bytes / G4_PAGE_BYTES;

	for (uint32_t left = disks; left != 0; left &= left - 1)
		for (uint64_t page = G4_CHUNK_UNIT / G4_PAGE_BYTES; page < pages - 1; page++) {
			const uint64_t dice = mix(s->seed + (uint32_t)__builtin_ctz(left), s->number * pages + page);
			if (dice & 1)
				sketch_rot(&lab->sketch,
					   (uint32_t)__builtin_ctz(left) * lab->set.disk_bytes + page * G4_PAGE_BYTES +
						   (dice >> 8) % G4_PAGE_BYTES,
					   (uint8_t)(1u << (dice >> 4) % 8));
		}
	lab->rotten = disks;
}

/* If a second crash has sketched others since: its states begin with what has rotted. */
static void sketch_again(struct session *s)
{
	if (s->lab->sketched == s)
		return;
	sketch(s);
	if (!s->outer)
		rot(s, s->lab->rotten);
}

/* A state that was not there before: what it recovers to, and every so often a crash in that. */
static void state_anew(struct session *s, uint64_t sum)
{
	struct lab *lab = s->lab;
	const uint32_t present = lab->memory.present;
	const uint64_t dice = mix(s->seed + present, s->number);
	/* where stores tear, fsck may find the journal's header or a superblock torn: only the mount heals them */
	const bool mounted = dice % 64 == 0,
		   fsck_first = mounted && class_unit_bytes(s->w->class_) > 8 && lab->kind == 0;
	uint32_t *known = mounted ? NULL : recall(lab), mark = memory_mark(&lab->memory), index;

	lab->counts->distinct++;
	lab->counts->by_set[s->w->set].distinct++;
	lab->counts->recalled += known != NULL;
	if (known) {
		index = *known;
	} else {
		sketch_apply(&lab->sketch);
		memory_mark(&lab->memory);
		index = assess(lab, mark, fsck_first);
		memory_back(&lab->memory, mark);
	}
	table_add(&lab->states, sum, index);
	judge(s, index);
	if (!s->outer && !lab->outcome[index].bad && (dice >> 8) % 64 == 0) {
		mark = memory_mark(&lab->memory);
		sketch_apply(&lab->sketch);
		second_crash(s, mark, index);
		lab_present(lab, present);
	}
	if (sets_lives_on(s, index)) {
		mark = memory_mark(&lab->memory);
		sketch_again(s);
		sketch_apply(&lab->sketch);
		sets_live_on(s, index);
	}
	memory_back(&lab->memory, mark);
}

/* With the disks that are present. */
static void state_of_present(struct session *s)
{
	struct lab *lab = s->lab;
	uint64_t all, home;
	uint32_t *known;

	lab->counts->states++;
	lab->counts->by_class[s->w->class_]++;
	lab->counts->by_set[s->w->set].states++;
	lab->counts->by_set[s->w->set].lost += lab->memory.present != lab_all_disks(lab);
	lab->counts->by_set[s->w->set].rotten += lab->rotten != 0;
	sketch_again(s);
	sketch_sums(&lab->sketch, &all, &home);
	known = table_find(&lab->states, all);
	if (known)
		judge(s, *known);
	else
		state_anew(s, all);
}

/*
 * With more disks lost than may be nothing is mounted, nothing is written, and a sentence says why. Where the others have everything by
 * chance, as of copies in pairs, all of it is there.
 */
static void refuse(struct session *s)
{
	const struct outcome nothing = {0};
	struct lab *lab = s->lab;
	const uint32_t mark = memory_mark(&lab->memory);
	char message[1024];

	sketch_again(s);
	sketch_apply(&lab->sketch);
	const uint32_t written = memory_mark(&lab->memory);
	struct g4_fs *fs = lab_mount(lab, true, message, sizeof(message));
	if (fs) {
		lab_unmount(lab, fs, false);
	} else if (lab->memory.count != written || !message[0]) {
		violation(s, &nothing,
			  message[0] ? "a mount that is refused has written" : "a mount is refused without a word");
	}
	lab->counts->by_set[s->w->set].refused += !fs;
	memory_back(&lab->memory, mark);
	if (fs)
		state_of_present(s);
}

/* The disks that are there without these. 0: these can not be lost, or were before. */
static uint32_t disks_left(const struct session *s, uint32_t lost)
{
	const uint32_t there = s->present & ~lost,
		       gone = ((lab_all_disks(s->lab) & ~there) | s->out | s->lab->rotten) & ~s->nobody;

	return (lost & ~s->present) == 0 && (uint32_t)__builtin_popcount(gone) <= set_kinds[s->lab->kind].spare ?
		       there :
		       0;
}

/* Whether of many combinations this one is looked at, here. */
static bool takes_loss(const struct session *s, uint32_t lost, uint32_t combinations)
{
	return lost == 0 || s->lab->losses == 0 || mix(s->seed + lost, s->number) % combinations < s->lab->losses;
}

static bool takes_refusal(const struct session *s, uint32_t lost)
{
	const struct set_kind *kind = &set_kinds[s->lab->kind];
	const uint32_t all = lab_all_disks(s->lab);

	return !s->outer && !s->lab->set.may_leave_out && lost != all &&
	       (uint32_t)__builtin_popcount(lost) == kind->spare + 1 && kind->idle == 0 &&
	       mix(s->seed ^ lost, s->number) % 256 == 0;
}

/* Of some states: as many disks as may be lost rot, or some do and others are lost. */
static void state_with_rot(struct session *s)
{
	struct lab *lab = s->lab;
	uint64_t dice = mix(s->seed ^ UINT64_C(0x5107), s->number);
	uint32_t bad = 0, lost = 0;

	if (lab->rot == 0 || s->outer || lab->set.may_leave_out || set_kinds[lab->kind].spare == 0 ||
	    dice % lab->rot != 0 || rig_setting("G4_TEST_CHECKSUM", 1) == 0)
		return;
	while ((uint32_t)__builtin_popcount(bad) < set_kinds[lab->kind].spare)
		bad |= 1u << rig_random(&dice) % set_kinds[lab->kind].disks;
	for (uint32_t left = bad & (bad - 1); left != 0; left &= left - 1) /* one of them rots in any case */
		if (rig_random(&dice) % 4 == 0)
			lost |= left & -left;
	lab_present(lab, lab_all_disks(lab) & ~lost);
	sketch(s);
	rot(s, bad & ~lost);
	state_of_present(s);
	lab->rotten = 0;
	lab->sketched = NULL;
}

/* The state that the session's fates describe, with any disks lost that may be. Everything but its place in the counts is undone. */
static void state(struct session *s)
{
	const uint32_t all = lab_all_disks(s->lab);
	uint32_t combinations = 0;

	if (wanted(s)) {
		s->lab->set.absent = s->out | s->gone;
		sketch(s);
		for (uint32_t lost = 1; lost <= all; lost++)
			combinations += disks_left(s, lost) != 0;
		for (uint32_t lost = 0; lost <= all; lost++) {
			const uint32_t there = disks_left(s, lost);
			if (there ? !takes_loss(s, lost, combinations) : !takes_refusal(s, lost))
				continue;
			lab_present(s->lab, there ? there : all & ~lost);
			if (there)
				state_of_present(s);
			else
				refuse(s);
		}
		state_with_rot(s);
		lab_present(s->lab, s->present);
	}
	s->number++;
}

/* ------------------------------------------------------------------ choosing states */

static uint32_t disk_of(const struct session *s, uint32_t pending)
{
	return s->trace->requests[s->pending[pending].request].disk;
}

/* Each disk alone has all that was written to it, or nothing: as when the others' caches were not yet written back. */
static void apart(struct session *s)
{
	for (uint32_t n = 0; n < 2 * set_disks(&set_kinds[s->lab->kind]) && s->w->set > 0; n++) {
		uint32_t loose = 0;
		for (uint32_t k = 0; k < s->pending_count; k++) {
			s->fates[k].kind = (disk_of(s, k) == n / 2) == (n % 2 == 0) ? KEEP : DROP;
			loose += disk_of(s, k) == n / 2 && !s->pending[k].durable;
		}
		if (loose > 0)
			state(s);
	}
}

/* Of more writes than so many (lab->singles), not each is looked at alone at every moment. */

/* The n-th of those: the newest half of them, and a sample of older ones that differs from moment to moment, since most
 * are pending at the next moment, too. */
static uint32_t single(const struct session *s, uint32_t n)
{
	const uint32_t newest = s->lab->singles / 2, older = s->pending_count - newest;

	if (s->pending_count <= s->lab->singles)
		return n;
	if (n < newest)
		return s->pending_count - 1 - n;
	return (uint32_t)((mix(s->now, 0) + (uint64_t)(n - newest) * older / newest) % older);
}

/* With everything that is under way as `flying_fate` says: the fates of what is complete and not durable. */
static void subsets(struct session *s, bool all_of_them)
{
	const uint32_t singles = (uint32_t)g4_min64(s->pending_count, s->lab->singles);
	uint32_t loose[64], count = 0;

	for (uint32_t k = 0; k < s->pending_count; k++) {
		s->fates[k].kind = KEEP;
		if (!s->pending[k].durable && count < 64)
			loose[count++] = k;
	}
	if (count == 0 || !all_of_them) {
		state(s);
		for (uint32_t k = 0; k < s->pending_count && count > 0; k++)
			s->fates[k].kind = DROP;
		if (count > 0)
			state(s);
		return;
	}
	apart(s);
	if (count <= s->lab->exhaustive) {
		for (uint64_t set = 0; set < UINT64_C(1) << count; set++) {
			for (uint32_t k = 0; k < count; k++)
				s->fates[loose[k]].kind = set >> k & 1 ? KEEP : DROP;
			state(s);
		}
		return;
	}
	for (uint32_t n = 0; n < s->lab->samples + 4 * singles; n++) {
		uint64_t dice = rig_random(&s->random), chosen = dice % s->pending_count;
		uint32_t one = single(s, n < 2 ? 0 : (n - 2) % singles);
		for (uint32_t k = 0; k < s->pending_count; k++) {
			bool keep = n == 0		? true :
				    n == 1		? false :
				    n < 2 + singles	? k == one :
				    n < 2 + 2 * singles ? k != one :
				    n < 2 + 3 * singles ? k <= one :
							  (mix(dice, k) & 1) != 0 || k == chosen;
			s->fates[k].kind = keep ? KEEP : DROP;
		}
		state(s);
	}
}

/* Every request that is not durable in a state of its own, torn ones among them. */
static void free_for_all(struct session *s, uint64_t units)
{
	for (uint32_t n = 0; n < s->lab->samples && s->pending_count > 0; n++) {
		for (uint32_t k = 0; k <= s->pending_count; k++) {
			uint64_t dice = rig_random(&s->random);
			struct fate *fate = k < s->pending_count ? &s->fates[k] : &s->flying_fate;
			uint64_t size = k < s->pending_count ? s->trace->requests[s->pending[k].request].bytes /
								       class_unit_bytes(s->w->class_) :
							       units;
			fate->kind = dice % 5 == 0 ? DROP : dice % 5 == 1 ? KEEP : dice % 5 == 2 ? FIRST : ANY;
			fate->argument = fate->kind == FIRST ? (dice >> 8) % (size + 1) : dice >> 8;
		}
		state(s);
	}
}

static void torn(struct session *s, enum fate_kind kind, uint64_t argument)
{
	s->flying_fate = (struct fate){.kind = kind, .argument = argument};
	subsets(s, false);
}

/* The request under way reaches the medium in part. */
static void tears(struct session *s, uint64_t units)
{
	uint32_t many = s->outer ? 3 * s->lab->tears : s->lab->tears; /* recoveries are few */

	if (units < 2)
		return;
	if (units - 1 <= many)
		for (uint64_t n = 1; n < units; n++)
			torn(s, FIRST, n);
	else
		for (uint64_t n = 0; n < many; n++)
			torn(s, FIRST, 1 + (n * (units - 1) + rig_random(&s->random) % (units - 1)) / many);
	for (uint32_t n = 0; n < many / 4 + 1 && units > 2; n++) {
		torn(s, WITHOUT, rig_random(&s->random) % units);
		torn(s, ANY, rig_random(&s->random));
		if (class_unit_bytes(s->w->class_) == 8)
			torn(s, LINES, rig_random(&s->random));
	}
}

/* ------------------------------------------------------------------ walking through a record */

static void set_windows(struct session *s)
{
	struct window window;
	bool changed = s->window_serial == 0;

	if (s->outer) {
		s->out = s->outer->out;
		s->gone = s->outer->gone;
		s->nobody = s->outer->nobody;
	} else if (s->lab->set.may_leave_out) {
		sets_orders(s);
	}
	for (uint32_t p = 0; p < s->w->party_count; p++) {
		if (s->outer)
			window = s->outer->windows[p];
		else
			party_window(&s->w->parties[p], s->now, &window);
		if (!s->outer && s->w->unmount && s->now == s->trace->count)
			window.names = window.files = s->w->parties[p].count;
		changed |= !window_same(&window, &s->windows[p]);
		s->windows[p] = window;
	}
	changed |= s->outer && (s->now == s->second_begun || s->now == s->second_durable);
	if (changed)
		s->window_serial = ++s->lab->window_serial;
	s->window_changed = changed;
}

static void settle(struct lab *lab, const struct request *request)
{
	if (request->flush || request->bytes == 0)
		return;
	memory_save(&lab->memory, request->offset, request->bytes);
	memcpy(lab->memory.bytes + request->offset, request->data, request->bytes);
}

void settle_preamble(struct lab *lab, const struct trace *trace)
{
	for (uint32_t k = 0; k < trace->first; k++)
		settle(lab, &trace->requests[k]);
	memory_settle(&lab->memory, 0);
}

/* Whether a request is on the medium now: it was complete before a complete flush began, or that alone is enough. */
static bool is_durable(const struct session *s, const struct request *request)
{
	return request->done_at <= s->flushed[request->disk] ||
	       (request->done_at <= s->now && (request->fua || s->w->class_ == MEM));
}

/* Takes what is durable off the front of the list: what is behind something loose may be under it. */
static void settle_durable(struct session *s)
{
	const struct request *requests = s->trace->requests;
	uint32_t mark = memory_mark(&s->lab->memory), count = 0;

	for (uint32_t disk = 0; disk < set_disks(&set_kinds[s->lab->kind]); disk++)
		for (uint32_t k = s->now; k > s->flushed[disk]; k--)
			if (requests[k - 1].flush && requests[k - 1].disk == disk && requests[k - 1].done_at <= s->now)
				s->flushed[disk] = k - 1;
	for (uint32_t k = 0; k < s->pending_count; k++)
		s->pending[k].durable = is_durable(s, &requests[s->pending[k].request]);
	while (count < s->pending_count && s->pending[count].durable)
		settle(s->lab, &requests[s->pending[count++].request]);
	memory_settle(&s->lab->memory, mark);
	s->pending_count -= count;
	memmove(s->pending, s->pending + count, s->pending_count * sizeof(s->pending[0]));
}

/* Whether of a long record this moment is looked at: some from all over it, others with each seed. */
static bool takes_moment(const struct session *s)
{
	const uint32_t count = s->trace->count - s->trace->first, most = s->lab->moments;

	return s->w->set == 0 || most == 0 || count <= most || mix(s->seed, s->now) % count < most;
}

static void write_under_way(struct session *s)
{
	const struct request *request = &s->trace->requests[s->now];
	uint64_t units = request->bytes / class_unit_bytes(s->w->class_);

	if (takes_moment(s)) {
		s->flying = true;
		s->flying_fate.kind = KEEP;
		subsets(s, true);
		tears(s, units);
		free_for_all(s, units);
		s->flying = false;
	}
	s->pending[s->pending_count++] = (struct pending){.request = s->now};
}

/* Room for what the session keeps of each request. */
static void prepare(struct session *s)
{
	const struct trace *trace = s->trace;
	uint64_t pages = 0;

	s->pending = (struct pending *)calloc(trace->count + 1, sizeof(struct pending));
	s->fates = (struct fate *)calloc(trace->count + 1, sizeof(struct fate));
	s->first_sum = (uint64_t *)calloc(trace->count + 1, sizeof(uint64_t));
	if (!s->pending || !s->fates || !s->first_sum)
		abort();
	for (uint32_t k = trace->first; k < trace->count; k++) {
		s->first_sum[k] = pages;
		pages += trace->requests[k].bytes / G4_PAGE_BYTES + 2;
	}
	s->sums = (uint64_t *)calloc(pages + 1, sizeof(uint64_t));
	if (!s->sums)
		abort();
}

void walk(struct session *s)
{
	prepare(s);
	for (s->now = s->trace->first;; s->now++) {
		settle_durable(s);
		set_windows(s);
		const bool flushed = s->w->set > 0 && s->now > s->trace->first && s->trace->requests[s->now - 1].flush;
		if (s->lab->is_late && s->lab->is_late())
			break;
		if (s->window_changed || (flushed && takes_moment(s)) ||
		    s->now == s->trace->count) /* crash between two requests */
			subsets(s, true);
		if (s->now == s->trace->count)
			break;
		if (!s->trace->requests[s->now].flush)
			write_under_way(s);
	}
	free(s->pending);
	free(s->fates);
	free(s->first_sum);
	free(s->sums);
}
