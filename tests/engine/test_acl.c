/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control lists as bytes: which are valid, what they grant, what chmod and inheriting make of them. (Through the library:
 * test_api_xattr_acl.c.)
 */
#include "rig.h"

#include "fs/fs.h"

enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};
struct list {
	uint32_t version;
	struct entry entry[8];
};
#define NOBODY UINT32_MAX

static uint64_t bytes_of(uint32_t count)
{
	return sizeof(uint32_t) + count * sizeof(struct entry);
}

static const struct list full = {2,
				 {{USER_OBJ, 6, NOBODY},
				  {USER, 7, 1000},
				  {USER, 4, 1001},
				  {GROUP_OBJ, 5, NOBODY},
				  {GROUP, 2, 2000},
				  {GROUP, 7, 2001},
				  {MASK, 6, NOBODY},
				  {OTHER, 1, NOBODY}}};

static void a_list_is_sorted_and_complete(void **state)
{
	struct list list = full;
	uint32_t bits = 0;
	bool equivalent = true;

	(void)state;
	assert_int_equal(g4_acl_check(&list, bytes_of(8), &bits, &equivalent), 0);
	assert_int_equal(bits, 0661); /* the mask stands where the group's bits are */
	assert_false(equivalent);
	for (uint64_t bytes = 0; bytes <= bytes_of(8) + 1; bytes++)
		if (bytes != bytes_of(8))
			assert_int_not_equal(g4_acl_check(&list, bytes, &bits, &equivalent), 0);
	for (uint32_t k = 0; k + 1 < 8; k++) { /* any two the other way round */
		list = full;
		list.entry[k] = full.entry[k + 1];
		list.entry[k + 1] = full.entry[k];
		assert_int_equal(g4_acl_check(&list, bytes_of(8), &bits, &equivalent), -G4_E_INVAL);
	}
	for (uint32_t k = 0; k < 8; k++) { /* any one with rights that there are not, or of a kind that there is not */
		list = full;
		list.entry[k].perm = 8;
		assert_int_equal(g4_acl_check(&list, bytes_of(8), &bits, &equivalent), -G4_E_INVAL);
		list = full;
		list.entry[k].tag |= 64;
		assert_int_equal(g4_acl_check(&list, bytes_of(8), &bits, &equivalent), -G4_E_INVAL);
	}
	for (uint32_t k = 0; k < 8; k++) { /* without one that must be there, the mask included */
		const bool may_lack = full.entry[k].tag == USER || full.entry[k].tag == GROUP;
		list = full;
		memmove(&list.entry[k], &list.entry[k + 1], (7 - k) * sizeof(list.entry[0]));
		assert_int_equal(g4_acl_check(&list, bytes_of(7), &bits, &equivalent), may_lack ? 0 : -G4_E_INVAL);
	}
	list = full;
	list.version = 1;
	assert_int_equal(g4_acl_check(&list, bytes_of(8), &bits, &equivalent), -G4_E_NOTSUP);
	const struct list plain = {2, {{USER_OBJ, 6, NOBODY}, {GROUP_OBJ, 5, NOBODY}, {OTHER, 1, NOBODY}}};
	assert_int_equal(g4_acl_check(&plain, bytes_of(3), &bits, &equivalent), 0);
	assert_int_equal(bits, 0651);
	assert_true(equivalent);
}

/* acl(5), "Access check algorithm", for those who do not own the file. */
static uint32_t granted(const struct g4_cred *cred, uint32_t want)
{
	const struct entry *e = full.entry;
	const bool group_obj = cred->gid == 7, g2000 = cred->gid == 2000, g2001 = cred->gid == 2001;
	const bool both = cred->group_count == 1 && cred->groups[0] == 2001; /* besides gid */

	if (cred->uid == 1000)
		return (e[1].perm & e[6].perm & want) == want;
	if (cred->uid == 1001)
		return (e[2].perm & e[6].perm & want) == want;
	if (group_obj || g2000 || g2001 || both)
		return (group_obj && (e[3].perm & e[6].perm & want) == want) ||
		       (g2000 && (e[4].perm & e[6].perm & want) == want) ||
		       ((g2001 || both) && (e[5].perm & e[6].perm & want) == want);
	return (e[7].perm & want) == want;
}

static void a_list_grants_what_acl_5_says(void **state)
{
	const struct g4_cred creds[] = {
		{.uid = 1000, .gid = 1},    {.uid = 1001, .gid = 2001},
		{.uid = 1002, .gid = 7},    {.uid = 1002, .gid = 2000},
		{.uid = 1002, .gid = 2001}, {.uid = 1002, .gid = 2000, .group_count = 1, .groups = {2001}},
		{.uid = 1002, .gid = 9},
	};
	struct g4_inode_core inode;
	uint32_t yes = 0, no = 0;

	(void)state;
	memset(&inode, 0, sizeof(inode));
	inode.disk.uid = 5;
	inode.disk.gid = 7;
	for (uint32_t c = 0; c < sizeof(creds) / sizeof(creds[0]); c++) {
		for (uint32_t want = 1; want < 8; want++) {
			const bool may = granted(&creds[c], want);
			assert_int_equal(g4_acl_allows(&full, bytes_of(8), &inode, &creds[c], want),
					 may ? 0 : -G4_E_ACCES);
			yes += may;
			no += !may;
		}
	}
	assert_true(yes > 5 && no > 5);
	/* what an image says may be anything */
	assert_int_equal(g4_acl_allows(&full, bytes_of(8) - 1, &inode, &creds[0], 1), -G4_E_CORRUPT_XATTR);
	assert_int_equal(g4_acl_allows(&full, 3, &inode, &creds[0], 1), -G4_E_CORRUPT_XATTR);
}

static void chmod_changes_the_owner_the_mask_and_the_others(void **state)
{
	struct list list = full;

	(void)state;
	g4_acl_chmod(&list, bytes_of(8), 0717);
	for (uint32_t k = 0; k < 8; k++) {
		const uint32_t tag = full.entry[k].tag;
		const uint32_t perm = tag == USER_OBJ ? 7 : tag == MASK ? 1 : tag == OTHER ? 7 : full.entry[k].perm;
		assert_int_equal(list.entry[k].perm, perm);
		assert_int_equal(list.entry[k].id, full.entry[k].id);
	}
	struct list plain = {2, {{USER_OBJ, 6, NOBODY}, {GROUP_OBJ, 5, NOBODY}, {OTHER, 1, NOBODY}}};
	g4_acl_chmod(&plain, bytes_of(3), 0724); /* without a mask the group's own */
	assert_int_equal(plain.entry[0].perm, 7);
	assert_int_equal(plain.entry[1].perm, 2);
	assert_int_equal(plain.entry[2].perm, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_sorted_and_complete),
		cmocka_unit_test(a_list_grants_what_acl_5_says),
		cmocka_unit_test(chmod_changes_the_owner_the_mask_and_the_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
