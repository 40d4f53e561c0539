/* SPDX-License-Identifier: Apache-2.0 */
/* Files of traces. */
#include "trace/trace.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define LINE_BYTES 256
#define ACCESS_BYTES 80	      /* of an access, in either format */
#define HELD_MOST_BYTES 1024u /* less than stdio buffers of any file */

bool g4_trace_access_of(uint64_t file, uint64_t offset, uint64_t bytes, bool write, struct g4_trace_access *out)
{
	if (bytes == 0 || bytes > G4_TRACE_MAX_BYTES || offset > G4_TRACE_MAX_BYTES - bytes)
		return false;
	const uint64_t first = offset / G4_TRACE_PAGE_BYTES, last = (offset + bytes - 1) / G4_TRACE_PAGE_BYTES;
	if (last - first >= UINT32_MAX)
		return false;
	*out = (struct g4_trace_access){
		.file = file, .page = first, .pages = (uint32_t)(last - first + 1), .write = write};
	return true;
}

int g4_trace_append(struct g4_trace *trace, const struct g4_trace_access *access)
{
	if (access->pages > G4_TRACE_MAX_PAGES - trace->page_count)
		return -G4_E_FBIG;
	if (trace->count == trace->room) {
		const uint64_t room = trace->room ? 2 * trace->room : 1024;
		struct g4_trace_access *larger = realloc(trace->accesses, room * sizeof(*larger));
		if (!larger)
			return -G4_E_NOMEM;
		trace->accesses = larger;
		trace->room = room;
	}
	trace->accesses[trace->count++] = *access;
	trace->page_count += access->pages;
	return 0;
}

void g4_trace_free(struct g4_trace *trace)
{
	free(trace->accesses);
	memset(trace, 0, sizeof(*trace));
}

/* ------------------------------------------------------------------ text */

/* A decimal number and the blanks behind it. */
static bool take_number(const char **text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*number = strtoull(*text, &end, 10);
	if (errno != 0 || (*end && !isspace((unsigned char)*end)))
		return false;
	while (isspace((unsigned char)*end))
		end++;
	*text = end;
	return true;
}

/* One line, without its comment. An empty one is no access: false and no fault. */
static bool parse_line(const char *at, struct g4_trace_access *access, const char **fault)
{
	uint64_t file, offset, bytes;
	char op;

	*fault = NULL;
	while (isspace((unsigned char)*at))
		at++;
	op = *at;
	if (!*at)
		return false;
	*fault = "is not 'r FILE OFFSET BYTES' or 'w FILE OFFSET BYTES'";
	if ((op != 'r' && op != 'w') || !isspace((unsigned char)at[1]))
		return false;
	for (at++; isspace((unsigned char)*at); at++)
		;
	if (!take_number(&at, &file) || !take_number(&at, &offset) || !take_number(&at, &bytes) || *at)
		return false;
	if (!g4_trace_access_of(file, offset, bytes, op == 'w', access)) {
		*fault = bytes == 0 ? "has no bytes" : "reaches beyond 2^63 - 4096 bytes, or over 2^32 pages";
		return false;
	}
	*fault = NULL;
	return true;
}

static int append(struct g4_trace *trace, const struct g4_trace_access *access, char *message)
{
	const int rc = g4_trace_append(trace, access);

	if (rc < 0)
		snprintf(message, G4_TRACE_MESSAGE_BYTES, "%s",
			 rc == -G4_E_NOMEM ? g4_strerror(rc) : "there are more than 2^32 - 2 pages in it");
	return rc;
}

static int read_text(FILE *in, struct g4_trace *trace, char *message)
{
	char line[LINE_BYTES];

	for (uint64_t number = 1; fgets(line, sizeof(line), in); number++) {
		struct g4_trace_access access;
		const char *fault = NULL;
		const size_t length = strlen(line);
		if (length == sizeof(line) - 1 && line[length - 1] != '\n') {
			/* a long comment is no fault */
			if (!memchr(line, '#', length))
				fault = "is too long";
			for (int c = 0; c != '\n' && c != EOF;)
				c = getc(in);
		}
		line[strcspn(line, "#")] = 0;
		const bool found = !fault && parse_line(line, &access, &fault);
		if (fault) {
			snprintf(message, G4_TRACE_MESSAGE_BYTES, "line %" PRIu64 " %s", number, fault);
			return -G4_E_INVAL;
		}
		const int rc = found ? append(trace, &access, message) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ------------------------------------------------------------------ binary */

/* Returns how many bytes it has. */
static size_t put_number(char *to, uint64_t number)
{
	size_t count = 0;

	for (; number >= 0x80; number >>= 7)
		to[count++] = (char)((number & 0x7f) | 0x80);
	to[count++] = (char)number;
	return count;
}

/* False: the file ends, or the number has more than 64 bits. *some: it has begun. */
static bool get_number(FILE *in, uint64_t *number, bool *some)
{
	*number = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		const int c = getc(in);
		if (c == EOF)
			return false;
		*some = true;
		const uint64_t bits = (uint64_t)c & 0x7f;
		if (shift > 57 && bits >> (64 - shift))
			return false;
		*number |= bits << shift;
		if (!(c & 0x80))
			return true;
	}
	return false;
}

/* *whole: where the file would end without an access that is cut off there; it is one that the file ends in, or damaged. */
static int read_binary(FILE *in, struct g4_trace *trace, off_t *whole, char *message)
{
	uint64_t file = 0, behind = 0;

	for (;;) {
		uint64_t head, distance;
		bool some = false;
		*whole = ftello(in);
		bool good = get_number(in, &head, &some);
		if (!some) /* the end */
			return 0;
		good = good && (!(head & 2) || get_number(in, &file, &some)) && get_number(in, &distance, &some);
		good = good && (head >> 2) < UINT32_MAX;
		if (good) {
			const struct g4_trace_access access = {
				.file = file,
				.page = behind + (distance & 1 ? ~(distance >> 1) : distance >> 1),
				.pages = (uint32_t)(head >> 2) + 1,
				.write = head & 1,
			};
			good = access.page <= G4_TRACE_MAX_BYTES / G4_TRACE_PAGE_BYTES - access.pages;
			behind = access.page + access.pages;
			const int rc = good ? append(trace, &access, message) : 0;
			if (rc < 0)
				return rc;
		}
		if (!good) {
			snprintf(message, G4_TRACE_MESSAGE_BYTES, "access %" PRIu64 " is damaged or cut off",
				 trace->count + 1);
			return -G4_E_INVAL;
		}
	}
}

static int read_either(FILE *in, struct g4_trace *trace, off_t *whole, char *message)
{
	const int first = getc(in);
	char magic[sizeof(G4_TRACE_MAGIC)] = "";
	int rc;

	message[0] = 0;
	if (first != EOF)
		ungetc(first, in);
	if (first != G4_TRACE_MAGIC[0]) { /* no line of a text begins with it */
		rc = read_text(in, trace, message);
	} else if (fread(magic, 1, sizeof(magic) - 1, in) != sizeof(magic) - 1 || strcmp(magic, G4_TRACE_MAGIC) != 0) {
		snprintf(message, G4_TRACE_MESSAGE_BYTES, "is no trace");
		rc = -G4_E_INVAL;
	} else {
		rc = read_binary(in, trace, whole, message);
	}
	if (ferror(in)) {
		snprintf(message, G4_TRACE_MESSAGE_BYTES, "%s", strerror(errno));
		return -G4_E_IO;
	}
	return rc;
}

int g4_trace_read(FILE *in, struct g4_trace *trace, char message[G4_TRACE_MESSAGE_BYTES])
{
	off_t whole;

	return read_either(in, trace, &whole, message);
}

/* ------------------------------------------------------------------ writing */

/* What is in the file is whole at any time, whoever is killed: stdio would write buffers that end somewhere in an access. */
static void put(struct g4_trace_writer *writer, const char *bytes, size_t count)
{
	if (writer->held + count > HELD_MOST_BYTES) {
		fflush(writer->out); /* who looks whether it failed finds that */
		writer->held = 0;
	}
	fwrite(bytes, 1, count, writer->out);
	writer->held += (uint32_t)count;
}

void g4_trace_write_begin(struct g4_trace_writer *writer, FILE *out, bool text)
{
	const char *const head = text ? "# r or w, file, offset, bytes\n" : G4_TRACE_MAGIC;

	*writer = (struct g4_trace_writer){.out = out, .text = text};
	put(writer, head, strlen(head));
}

/* A computer that has lost power has left an access in part. What is to be read is behind `file`'s position then. */
static int cut_off(FILE *file, off_t whole, int rc, char *message)
{
	if (rc != -G4_E_INVAL || whole < 0 || !feof(file))
		return rc;
	if (ftruncate(fileno(file), whole) != 0)
		return rc;
	message[0] = 0;
	return 0;
}

int g4_trace_write_on(struct g4_trace_writer *writer, FILE *file, char message[G4_TRACE_MESSAGE_BYTES])
{
	struct g4_trace trace = {0};
	off_t whole = -1;
	int rc = 0;

	rewind(file);
	const int first = getc(file);
	rewind(file);
	if (first == EOF) {
		g4_trace_write_begin(writer, file, false);
		return 0;
	}
	if (first == G4_TRACE_MAGIC[0]) {
		rc = read_either(file, &trace, &whole, message);
		rc = cut_off(file, whole, rc, message);
	} else {
		snprintf(message, G4_TRACE_MESSAGE_BYTES, "is no binary trace, and was not overwritten");
		rc = -G4_E_INVAL;
	}
	*writer = (struct g4_trace_writer){.out = file};
	if (trace.count > 0) {
		writer->file = trace.accesses[trace.count - 1].file;
		writer->page = trace.accesses[trace.count - 1].page + trace.accesses[trace.count - 1].pages;
	}
	g4_trace_free(&trace);
	fseek(file, 0, SEEK_END); /* between reading and writing */
	return rc;
}

void g4_trace_write(struct g4_trace_writer *writer, const struct g4_trace_access *access)
{
	const uint64_t distance = access->page - writer->page;
	const bool other = access->file != writer->file;
	char bytes[ACCESS_BYTES];
	size_t count;

	if (writer->text) {
		count = (size_t)snprintf(bytes, sizeof(bytes), "%c %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
					 access->write ? 'w' : 'r', access->file, access->page * G4_TRACE_PAGE_BYTES,
					 (uint64_t)access->pages * G4_TRACE_PAGE_BYTES);
		put(writer, bytes, count);
		return;
	}
	count = put_number(bytes, (uint64_t)(access->pages - 1) * 4 + (other ? 2 : 0) + (access->write ? 1 : 0));
	if (other)
		count += put_number(bytes + count, access->file);
	count += put_number(bytes + count, (int64_t)distance < 0 ? 2 * ~distance + 1 : 2 * distance);
	put(writer, bytes, count);
	writer->file = access->file;
	writer->page = access->page + access->pages;
}
