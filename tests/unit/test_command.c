/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands: its numbers, the sets that are made of it, and docs/commands.md, which says the same to people.
 * G4_WRITE_DOCS=1 writes that file anew.
 */
#include "fs/command.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct row {
	const char *name;
	uint32_t number, properties;
	const char *arguments, *results;
};

static const struct row rows[] = {
#define ROW(context, name, number, properties, arguments, results) {#name, number, properties, arguments, results},
	G4_COMMANDS(ROW, )
#undef ROW
};

static const struct {
	const char *name;
	uint32_t bit;
	const char *text;
} properties[] = {
#define PROPERTY(name, bit, text) {#name, 1u << (bit), text},
	G4_COMMAND_PROPERTIES(PROPERTY)
#undef PROPERTY
};
#define PROPERTY_COUNT (sizeof(properties) / sizeof(properties[0]))

static void numbers_have_no_gaps(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < G4_COMMAND_COUNT; i++)
		assert_int_equal(rows[i].number, i);
	for (uint32_t i = 0; i < PROPERTY_COUNT; i++)
		assert_int_equal(properties[i].bit, 1u << i);
}

static void sets_are_those_of_the_rows(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < G4_COMMAND_COUNT; op++) {
		assert_int_equal(g4_command_is(op, G4_CHANGES), (rows[op].properties & G4_CHANGES) != 0);
		assert_int_equal(g4_command_is(op, G4_FOR_OWNER), (rows[op].properties & G4_FOR_OWNER) != 0);
		assert_int_equal(g4_command_is(op, G4_DATA_IN | G4_DATA_OUT),
				 (rows[op].properties & (G4_DATA_IN | G4_DATA_OUT)) != 0);
	}
	assert_false(g4_command_is(G4_COMMAND_COUNT, UINT32_MAX));
	assert_false(g4_command_is(64, UINT32_MAX));
	assert_false(g4_command_is(UINT32_MAX, UINT32_MAX));
}

static bool is(uint32_t op, uint32_t properties_of_it)
{
	return (rows[op].properties & properties_of_it) != 0;
}

/* What the engine and the rings take for granted of each row. */
static void properties_go_together(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < G4_COMMAND_COUNT; op++) {
		assert_false(is(op, G4_CHANGES) && is(op, G4_MAY_CHANGE));
		/* where results take the place of what was asked */
		assert_false(is(op, G4_DATA_IN) && is(op, G4_DATA_OUT) && is(op, G4_DATA_IN_PLACE));
		assert_false(is(op, G4_DATA_IN_PLACE) && !is(op, G4_DATA_IN | G4_DATA_OUT));
		assert_false(is(op, G4_TAKES_HANDLE) && is(op, G4_NEEDS_HANDLE));
		assert_false(is(op, G4_TWO_HANDLES) && !is(op, G4_NEEDS_HANDLE));
		/* which lie in the same place */
		assert_false(is(op, G4_TWO_HANDLES) && is(op, G4_TWO_NODES));
		/* the union of fields has one for each command, so data and a second inode's token do not meet */
		assert_false(is(op, G4_TWO_NODES) && is(op, G4_DATA_IN | G4_DATA_OUT));
	}
}

/* ------------------------------------------------------------------ the document */

static void write_row(FILE *out, const struct row *row)
{
	const char *comma = "";

	fprintf(out, "| %u | %s | ", row->number, row->name);
	for (const char *at = row->arguments; *at; at++)
		fprintf(out, *at == '|' ? "\\|" : "%c", *at);
	fprintf(out, " | %s | ", row->results);
	for (uint32_t i = 0; i < PROPERTY_COUNT; i++) {
		if (row->properties & properties[i].bit) {
			fprintf(out, "%s%s", comma, properties[i].name);
			comma = ", ";
		}
	}
	fprintf(out, " |\n");
}

static void write_document(FILE *out)
{
	fprintf(out,
		"# Commands\n\n"
		"The one way into the engine. `src/fs/command.h` has the types; this file is made of its table by\n"
		"`tests/unit/test_command.c`, which fails when the two differ (`G4_WRITE_DOCS=1` writes it).\n"
		"`node`, `node2` are inode numbers, beside which `generation`, `generation2` may stand. `cred` is who asks.\n\n"
		"| number | command | arguments | results | properties |\n| --- | --- | --- | --- | --- |\n");
	for (uint32_t i = 0; i < G4_COMMAND_COUNT; i++)
		write_row(out, &rows[i]);
	fprintf(out, "\n| property | meaning |\n| --- | --- |\n");
	for (uint32_t i = 0; i < PROPERTY_COUNT; i++)
		fprintf(out, "| %s | %s |\n", properties[i].name, properties[i].text);
}

static void the_document_says_what_the_table_says(void **state)
{
	char path[4096], *wanted, *is;
	size_t wanted_bytes, bytes;
	FILE *file = open_memstream(&wanted, &wanted_bytes);

	(void)state;
	assert_non_null(getenv("G4_SOURCE_DIR"));
	snprintf(path, sizeof(path), "%s/docs/commands.md", getenv("G4_SOURCE_DIR"));
	assert_non_null(file);
	write_document(file);
	fclose(file);
	if (getenv("G4_WRITE_DOCS")) {
		file = fopen(path, "w");
		assert_non_null(file);
		assert_int_equal(fwrite(wanted, 1, wanted_bytes, file), wanted_bytes);
		fclose(file);
	}
	is = calloc(1, wanted_bytes + 2);
	file = fopen(path, "r");
	assert_non_null(is);
	assert_non_null(file);
	bytes = fread(is, 1, wanted_bytes + 1, file);
	fclose(file);
	assert_string_equal(is, wanted);
	assert_int_equal(bytes, wanted_bytes);
	free(is);
	free(wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_have_no_gaps),
		cmocka_unit_test(sets_are_those_of_the_rows),
		cmocka_unit_test(properties_go_together),
		cmocka_unit_test(the_document_says_what_the_table_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
