/* SPDX-License-Identifier: Apache-2.0 */
/* Rehearsing and recording workloads. */
#include <pthread.h>

#include "explore.h"
#include "fs/fs.h"
#include "fs/mount_host.h"

/* ------------------------------------------------------------------ traces */

/* The requests of a set's disks, in their order. */
static void take_of_set(struct set_lab *s, struct trace *trace)
{
	uint64_t bytes = 0;

	for (uint32_t k = 0; k < s->count; k++)
		bytes += s->requests[k].bytes;
	trace->count = s->count;
	trace->requests = (struct request *)malloc((trace->count + 1) * sizeof(struct request) + bytes);
	if (!trace->requests)
		abort();
	uint8_t *at = (uint8_t *)(trace->requests + trace->count + 1);
	for (uint32_t k = 0; k < s->count; k++) {
		trace->requests[k] = s->requests[k];
		trace->requests[k].data = at;
		memcpy(at, s->requests[k].data, s->requests[k].bytes);
		at += s->requests[k].bytes;
	}
}

static void trace_take(struct lab *lab, struct trace *trace)
{
	struct g4_dev *const fault = lab->fault;
	uint64_t bytes = 0;

	if (lab->kind != 0) {
		(void)set_recorded(lab);
		trace->first = 0;
		take_of_set(&lab->set, trace);
		set_record(lab, false);
		return;
	}

	trace->count = (uint32_t)g4_dev_fault_recorded(fault);
	trace->first = 0;
	for (uint32_t k = 0; k < trace->count; k++)
		bytes += g4_dev_fault_recorded_op(fault, k)->bytes;
	trace->requests = (struct request *)malloc((trace->count + 1) * sizeof(struct request) + bytes);
	if (!trace->requests)
		abort();
	uint8_t *at = (uint8_t *)(trace->requests + trace->count + 1);
	for (uint32_t k = 0; k < trace->count; k++) {
		const struct g4_fault_op *op = g4_dev_fault_recorded_op(fault, k);
		struct request *request = &trace->requests[k];
		*request = (struct request){.flush = op->op == G4_IO_FLUSH,
					    .fua = op->flags & G4_IO_FUA,
					    .done_at = (uint32_t)g4_min64(op->done_at, UINT32_MAX),
					    .offset = op->offset_bytes,
					    .bytes = op->bytes,
					    .data = at};
		if (op->op == G4_IO_DISCARD)
			abort(); /* the engine makes none; one that does needs states without and with it */
		if (op->bytes)
			memcpy(at, op->data, op->bytes);
		at += op->bytes;
	}
	g4_dev_fault_record(fault, false);
}

static void count_requests(struct counts *counts, const struct trace *trace)
{
	counts->requests += trace->count - trace->first;
	for (uint32_t k = trace->first + 1; k < trace->count; k++)
		counts->overlaps += trace->requests[k - 1].done_at > k;
}

static void power_off_and_on(struct lab *lab)
{
	if (lab->kind != 0) /* its disks were closed: what they had not flushed is undone with the rest */
		return;
	if (g4_dev_fault_cut(lab->fault) < 0)
		abort();
	g4_dev_fault_power_on(lab->fault);
}

/* ------------------------------------------------------------------ running */

static void can_not(const struct workload *w, const char *message)
{
	printf("%s: %s\n", w->name, message);
	exit(2);
}

static void preamble(struct lab *lab, const struct workload *w, struct actor *actor, uint64_t commits)
{
	lab->due_commits = tree_preamble(actor, w->tree, commits);
	if (g4_dev_flush(lab->wg[0], lab->kind == 0 ? lab->fault : lab->set.device) < 0)
		abort();
}

/* What states a party goes through when nothing goes wrong and nobody else is there. */
static bool rehearse(struct lab *lab, struct workload *w, struct party *party)
{
	uint32_t mark = memory_mark(&lab->memory), worked = 0;
	struct actor actor = {0};
	const char *what;
	char message[256];

	clock_restart();
	struct g4_fs *fs = lab_mount(lab, true, message, sizeof(message));
	if (!fs)
		can_not(w, message);
	actor_start(&actor, fs, lab->wg[0]);
	if (!w->mount)
		preamble(lab, w, &actor, 0);
	actor.scrubs = true;
	for (uint32_t k = 0; k <= party->count; k++) {
		if (k > 0 && part_is_sync(&party->parts[k - 1]))
			tree_copy(&party->states[k], &party->states[k - 1]);
		else if (look(&actor.rig, &party->states[k], &what) < 0)
			abort();
		if (k == party->count)
			break;
		party->codes[k] = part_run(&actor, &party->parts[k]);
		worked += party->codes[k] == 0;
		if (part_is_of_disks(&party->parts[k]) &&
		    party->codes[k] < 0) /* the list has it of sets that can do it */
			can_not(w, g4_strerror(party->codes[k]));
	}
	lab_unmount(lab, fs, false);
	memory_back(&lab->memory, mark);
	party_prepare(party);
	return worked > 0 || party->count == 0;
}

struct runner {
	struct lab *lab;
	struct party *party;
	const struct mounted *mounted;
	struct g4_wg *wg;
	uint64_t *clock;
	bool differs; /* a part answered otherwise than in the rehearsal */
};

static void *run_party(void *argument)
{
	struct runner *r = (struct runner *)argument;
	struct party *party = r->party;
	struct actor actor = {0};

	engine_actor(r->mounted, r->wg, &actor);
	actor.scrubs = true;
	while (party->done < party->count && !r->differs) {
		const uint32_t first = party->done;
		struct part whole;
		const uint32_t end = first + part_whole(&party->parts[first], party->count - first, &whole);
		for (uint32_t k = first; k < end; k++) {
			party->begun[k] = lab_recorded(r->lab);
			party->begun_at[k] = g4_add64(r->clock, 1);
		}
		const int rc = part_run(&actor, &whole);
		r->differs = rc != party->codes[end - 1];
		if (r->differs)
			printf("part %u of a party answers %d instead of %d\n", end - 1, rc, party->codes[end - 1]);
		for (uint32_t k = first; k < end; k++) {
			party->ended_at[k] = g4_add64(r->clock, 1);
			party->ended[k] = lab_recorded(r->lab);
		}
		party->done = end;
	}
	return NULL;
}

static bool run_parties(struct lab *lab, struct workload *w, const struct mounted *mounted)
{
	struct runner runners[MAX_PARTIES];
	pthread_t threads[MAX_PARTIES];
	uint64_t clock = 1;
	bool differs = false;

	for (uint32_t p = 0; p < w->party_count; p++) {
		struct party *party = &w->parties[p];
		memset(party->begun, 0xff, sizeof(party->begun));
		memset(party->ended, 0xff, sizeof(party->ended));
		party->done = 0;
		runners[p] = (struct runner){lab, party, mounted, lab->wg[p], &clock, false};
		if (w->party_count == 1)
			run_party(&runners[p]);
		else if (pthread_create(&threads[p], NULL, run_party, &runners[p]) != 0)
			abort();
	}
	for (uint32_t p = 0; p < w->party_count; p++) {
		if (w->party_count > 1)
			pthread_join(threads[p], NULL);
		differs |= runners[p].differs;
	}
	return !differs;
}

/* Runs the workload for the record. Memory is then as it was before the mount. */
static bool record(struct lab *lab, struct workload *w, struct trace *trace)
{
	struct mounted mounted;
	struct actor actor = {0};
	uint32_t first = 0;
	char message[256];
	bool clean;

	clock_restart();
	lab_record(lab, true);
	if (!engine_mount(lab, w->class_ == MEM, &mounted, message, sizeof(message)))
		can_not(w, message);
	if (!w->mount) {
		engine_actor(&mounted, lab->wg[0], &actor);
		preamble(lab, w, &actor, lab->due_commits);
		first = lab_recorded(lab);
	}
	bool same = run_parties(lab, w, &mounted);
	clean = w->unmount && same;
	if (!clean)
		trace_take(lab, trace);
	if (!engine_unmount(lab, &mounted, clean))
		same = false;
	if (clean)
		trace_take(lab, trace);
	trace->first = first;
	power_off_and_on(lab);
	memory_back(&lab->memory, 0);
	return same;
}

/* ------------------------------------------------------------------ a workload */

static void walk_through(struct lab *lab, struct workload *w, const struct trace *trace)
{
	struct session session = {
		.lab = lab, .w = w, .trace = trace, .seed = w->seed ^ lab->seed, .present = lab_all_disks(lab)};

	session.random = session.seed;
	walk(&session);
}

static void find_orders(struct lab *lab, struct workload *w)
{
	lab->set.may_leave_out = lab->set.gives_up = false;
	lab->set.absent = 0;
	w->orders = w->party_count;
	for (uint32_t p = 0; p < w->party_count; p++)
		for (uint32_t k = 0; k < w->parties[p].count; k++) {
			const struct part *part = &w->parties[p].parts[k];
			if (part->verb != ORDER)
				continue;
			w->orders = p;
			lab->set.may_leave_out = true;
			lab->set.gives_up |= part->bytes == G4_DISK_REMOVE;
		}
}

bool explore(struct lab *lab, struct workload *w)
{
	struct trace trace = {0};
	bool something = w->mount;

	lab->workload_serial++;
	find_orders(lab, w);
	memory_mark(&lab->memory);
	for (uint32_t p = 0; p < w->party_count; p++)
		something |= rehearse(lab, w, &w->parties[p]);
	if (something) {
		if (record(lab, w, &trace)) {
			count_requests(lab->counts, &trace);
			settle_preamble(lab, &trace);
			walk_through(lab, w, &trace);
			lab->counts->workloads++;
		} else {
			printf("VIOLATION: %s answers otherwise than when it was rehearsed\n", w->name);
			for (uint32_t p = 0; p < w->party_count; p++)
				party_print(&w->parties[p]);
			lab->counts->violations++;
		}
	}
	free(trace.requests);
	memory_back_settled(&lab->memory, 0);
	return something;
}

/* ------------------------------------------------------------------ records that are kept */

void trace_keep(struct lab *lab, const struct workload *w, const struct trace *trace)
{
	char path[256];

	if ((w->party_count < 2 && lab->engine == ENGINE_CPU) || !lab->trace_path[0])
		return;
	snprintf(path, sizeof(path), "%s/crash-%s-%016lx.record", lab->trace_path, engine_names[lab->engine],
		 (unsigned long)w->seed);
	FILE *file = fopen(path, "wb");
	bool good = file && fwrite(w->name, sizeof(w->name), 1, file) == 1;
	for (uint32_t p = 0; good && p < w->party_count; p++) {
		const struct party *party = &w->parties[p];
		good = fwrite(party->begun, sizeof(party->begun), 1, file) == 1 &&
		       fwrite(party->ended, sizeof(party->ended), 1, file) == 1 &&
		       fwrite(party->begun_at, sizeof(party->begun_at), 1, file) == 1 &&
		       fwrite(party->ended_at, sizeof(party->ended_at), 1, file) == 1 &&
		       fwrite(&party->done, sizeof(party->done), 1, file) == 1;
	}
	good = good && fwrite(&trace->count, sizeof(trace->count), 1, file) == 1 &&
	       fwrite(&trace->first, sizeof(trace->first), 1, file) == 1;
	for (uint32_t k = 0; good && k < trace->count; k++)
		good = fwrite(&trace->requests[k], sizeof(struct request), 1, file) == 1 &&
		       fwrite(trace->requests[k].data, 1, trace->requests[k].bytes, file) == trace->requests[k].bytes;
	if (file)
		good = fclose(file) == 0 && good;
	printf("  another run takes turns otherwise: the record is %s %s\n", good ? "kept in" : "lost, cannot write",
	       path);
}

static bool read_trace(FILE *file, uint64_t room, struct trace *trace)
{
	if (fread(&trace->count, sizeof(trace->count), 1, file) != 1 ||
	    fread(&trace->first, sizeof(trace->first), 1, file) != 1 || trace->count > 1000000 ||
	    trace->first > trace->count)
		return false;
	trace->requests = (struct request *)calloc(trace->count + 1, sizeof(struct request));
	for (uint32_t k = 0; trace->requests && k < trace->count; k++) {
		struct request *request = &trace->requests[k];
		uint8_t *data;
		if (fread(request, sizeof(*request), 1, file) != 1 || request->bytes > room ||
		    request->offset > room - request->bytes || request->disk >= MEMORY_DISKS)
			return false;
		request->data = data = (uint8_t *)malloc(request->bytes + 1); /* the process ends after this */
		if (!data || fread(data, 1, request->bytes, file) != request->bytes)
			return false;
	}
	return trace->requests != NULL;
}

void explore_kept(struct lab *lab, struct workload *w, FILE *file)
{
	struct trace trace = {0};
	bool good = true;

	memory_mark(&lab->memory);
	lab->workload_serial++;
	find_orders(lab, w);
	for (uint32_t p = 0; p < w->party_count && good; p++) {
		struct party *party = &w->parties[p];
		rehearse(lab, w, party);
		good = fread(party->begun, sizeof(party->begun), 1, file) == 1 &&
		       fread(party->ended, sizeof(party->ended), 1, file) == 1 &&
		       fread(party->begun_at, sizeof(party->begun_at), 1, file) == 1 &&
		       fread(party->ended_at, sizeof(party->ended_at), 1, file) == 1 &&
		       fread(&party->done, sizeof(party->done), 1, file) == 1 && party->done <= party->count;
	}
	if (!good || !read_trace(file, lab->memory.page_count * G4_PAGE_BYTES, &trace)) {
		printf("this is no record\n");
		exit(2);
	}
	settle_preamble(lab, &trace);
	walk_through(lab, w, &trace);
	lab->counts->workloads++;
}

/* ------------------------------------------------------------------ recovery and after */

void second_crash(struct session *s, uint32_t mark, uint32_t outcome)
{
	struct lab *lab = s->lab;
	struct session second = {.lab = lab,
				 .w = s->w,
				 .seed = s->seed ^ s->number,
				 .outer = s,
				 .outer_outcome = outcome,
				 .present = lab->memory.present};
	const struct part make = {.verb = CREATE, .path = SECOND_LIFE, .id = 999}, sync = {.verb = SYNCFS};
	uint32_t recovery = memory_mark(&lab->memory);
	struct actor actor = {0};
	struct trace trace;
	char message[256];

	lab_record(lab, true);
	struct g4_fs *fs = lab_mount(lab, s->w->class_ == MEM, message, sizeof(message));
	if (!fs)
		abort(); /* it did a moment ago */
	actor_start(&actor, fs, lab->wg[0]);
	second.second_begun = lab_recorded(lab);
	bool made = part_run(&actor, &make) == 0 && part_run(&actor, &sync) == 0;
	second.second_durable = made ? lab_recorded(lab) : UINT32_MAX;
	lab_unmount(lab, fs, false);
	trace_take(lab, &trace);
	power_off_and_on(lab);
	memory_back(&lab->memory, recovery);

	memory_settle(&lab->memory, mark);
	second.random = second.seed;
	second.trace = &trace;
	lab->counts->recoveries++;
	walk(&second);
	memory_back_settled(&lab->memory, mark);
	free(trace.requests);
}
