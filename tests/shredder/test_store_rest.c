/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of restic's REST protocol, parsed as they arrive: store/rest.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "store/rest.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static int note(void *user, const struct store_id *name, uint64_t bytes)
{
	char *text = (char *)user;

	sprintf(text + strlen(text), "%02x %llu,", name->bytes[31], (unsigned long long)bytes);
	return 0;
}

/* Its names, when it comes in pieces of so many bytes; INVAL. */
static int parse(const char *text, size_t piece, uint64_t most, char found[256])
{
	struct store_rest_list list = {.most = most};
	const size_t bytes = strlen(text);
	int rc = 0;

	found[0] = 0;
	for (size_t at = 0; rc == 0 && at < bytes; at += piece)
		rc = store_rest_list_add(&list, text + at, g4_min64(piece, bytes - at));
	if (rc == 0)
		rc = store_rest_list_end(&list, note, found);
	store_rest_list_free(&list);
	return rc;
}

static void a_list_may_be_cut_anywhere(void **state)
{
	static const char *const lists[][2] = {
		{"[]", ""},
		{" [ ] \n", ""},
		{"[{\"name\":\"" A "\",\"size\":1}]", "aa 1,"},
		{"\t[ { \"size\" : 20 , \"x\" : \"}]\" , \"name\" : \"" B "\" } , {\"name\":\"" A
		 "\",\"y\":7,\"size\":3}\n]\n",
		 "bb 20,aa 3,"},
		{"[{\"name\":\"none\",\"size\":1},{\"name\":\"" A "\",\"size\":18446744073709551600}]",
		 "aa 18446744073709551600,"},
	};
	char found[256];

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (size_t piece = 1; piece <= strlen(lists[i][0]); piece++) {
			assert_int_equal(parse(lists[i][0], piece, G4_MIB, found), 0);
			assert_string_equal(found, lists[i][1]);
		}
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const others[] = {"",
					     "[",
					     "]",
					     "x",
					     "{}",
					     "[,]",
					     "[]]",
					     "[] x",
					     "[{}]",
					     "[{\"name\":\"" A "\"}]",
					     "[{\"size\":1}]",
					     "[{\"name\":\"" A "\",\"size\":1},]",
					     "[{\"name\":\"" A "\",\"size\":1}",
					     "[{\"name\":\"" A "\",\"size\":1},",
					     "[{\"name\":\"" A "\",\"size\":1} {\"name\":\"" B "\",\"size\":1}]",
					     "[{\"name\":\"" A "\",\"size\":-1}]",
					     "[{\"name\":\"a\\\"\",\"size\":1}]",
					     "[{\"name\":\"" A "\",\"size\":99999999999999999999}]",
					     "[{\"name\":{},\"size\":1}]"};
	char found[256];

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (size_t piece = 1; piece <= strlen(others[i]) + 1; piece++)
			assert_int_equal(parse(others[i], piece, G4_MIB, found), STORE_E_INVAL);
}

/* What has no end is refused early, whatever may be sent of it. */
static void nothing_is_kept_of_what_has_no_end(void **state)
{
	static const char spaces[64 * G4_KIB] = {0};
	static char text[64 * G4_KIB];
	struct store_rest_list list = {.most = G4_GIB};

	(void)state;
	assert_int_equal(store_rest_list_add(&list, spaces, 1), STORE_E_INVAL); /* zeros */
	store_rest_list_reset(&list);
	assert_int_equal(store_rest_list_add(&list, "[{\"name\":\"", 10), 0);
	memset(text, 'a', sizeof(text));
	assert_int_equal(store_rest_list_add(&list, text, sizeof(text)), STORE_E_INVAL);
	store_rest_list_reset(&list);
	memset(text, ' ', sizeof(text)); /* is read over, up to `most` */
	for (int i = 0; i < 100; i++)
		assert_int_equal(store_rest_list_add(&list, text, sizeof(text)), 0);
	assert_true(list.text.room < 2 * sizeof(text));
	store_rest_list_free(&list);
}

static void a_list_has_so_many_bytes_at_most(void **state)
{
	const char *text = "[{\"name\":\"" A "\",\"size\":1}]";
	char found[256];

	(void)state;
	for (size_t piece = 1; piece <= strlen(text); piece++) {
		assert_int_equal(parse(text, piece, strlen(text), found), 0);
		assert_int_equal(parse(text, piece, strlen(text) - 1, found), STORE_E_INVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_may_be_cut_anywhere),
		cmocka_unit_test(what_is_no_list_is_refused),
		cmocka_unit_test(nothing_is_kept_of_what_has_no_end),
		cmocka_unit_test(a_list_has_so_many_bytes_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
