/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of permission that are more than a mode's bits, as tables: what others left in sticky directories, set-id bits. (Who may search
 * a directory: test_names.c; lists: test_acl.c; everything through the library: test_api_permissions.c.)
 */
#include "rig.h"

#include "fs/fs.h"

static struct g4_inode_core make(uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct g4_inode_core inode;

	memset(&inode, 0, sizeof(inode));
	inode.disk.mode = (uint16_t)mode;
	inode.disk.uid = uid;
	inode.disk.gid = gid;
	inode.disk.nlink = 1;
	return inode;
}

/* fs.protected_symlinks = 1: in a sticky directory that all may write to, only one's own links and its owner's. */
static void links_of_others_in_shared_directories_are_not_followed(void **state)
{
	const uint32_t modes[] = {0755, 0777, 01777, 01755, 01775};

	(void)state;
	for (uint32_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		const struct g4_inode_core dir = make(G4_S_IFDIR | modes[m], 500, 500);
		const bool shared = modes[m] == 01777;
		for (uint32_t owner = 0; owner < 3; owner++) {
			const uint32_t owners[] = {1000, 500, 1001}; /* who asks, the directory's, somebody else */
			const struct g4_inode_core link = make(G4_S_IFLNK | 0777, owners[owner], 0);
			struct g4_cred cred = {.uid = 1000};
			const int rc = shared && owner == 2 ? -G4_E_ACCES : 0;
			assert_int_equal(g4_may_follow(&dir, &link, &cred), rc);
			assert_int_equal(g4_may_reuse(&dir, &link, &cred), rc);
			cred.uid = 0; /* root is no exception, as in Linux: it is root whom such links are for */
			assert_int_equal(g4_may_follow(&dir, &link, &cred), shared && owner != 1 ? -G4_E_ACCES : 0);
			cred.flags = G4_CRED_TRUSTED; /* has a kernel that asks */
			assert_int_equal(g4_may_follow(&dir, &link, &cred), 0);
			assert_int_equal(g4_may_follow(&dir, &link, NULL), 0);
		}
	}
}

/* fs.protected_regular = 2, protected_fifos = 1. */
static void files_of_others_in_sticky_directories_are_not_opened_by_create(void **state)
{
	const struct {
		uint32_t dir, type;
		bool refused;
	} cases[] = {
		{0777, G4_S_IFREG, false},  {01755, G4_S_IFREG, false}, {01775, G4_S_IFREG, true},
		{01777, G4_S_IFREG, true},  {01775, G4_S_IFIFO, false}, {01777, G4_S_IFIFO, true},
		{01777, G4_S_IFCHR, false}, {01777, G4_S_IFDIR, false},
	};
	const struct g4_cred cred = {.uid = 1000}, owner = {.uid = 1001},
			     trusted = {.uid = 1, .flags = G4_CRED_TRUSTED};

	(void)state;
	for (uint32_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		const struct g4_inode_core dir = make(G4_S_IFDIR | cases[k].dir, 500, 500);
		const struct g4_inode_core other = make(cases[k].type | 0666, 1001, 0);
		const struct g4_inode_core dirs = make(cases[k].type | 0666, 500, 0);
		assert_int_equal(g4_may_reuse(&dir, &other, &cred), cases[k].refused ? -G4_E_ACCES : 0);
		assert_int_equal(g4_may_reuse(&dir, &other, &owner), 0);
		assert_int_equal(g4_may_reuse(&dir, &other, &trusted), 0);
		assert_int_equal(g4_may_reuse(&dir, &dirs, &cred), 0);
	}
}

static void set_id_bits_go_unless_they_are_no_privilege(void **state)
{
	const struct g4_cred stranger = {.uid = 1000, .gid = 1}, member = {.uid = 1000, .gid = 2000}, root = {.uid = 0};

	(void)state;
	const struct g4_inode_core program = make(G4_S_IFREG | 06775, 5, 2000);
	assert_int_equal(g4_mode_less_ids(&program, &stranger), G4_S_IFREG | 0775);
	assert_int_equal(g4_mode_less_ids(&program, &member), G4_S_IFREG | 0775);
	assert_int_equal(g4_mode_less_ids(&program, &root), G4_S_IFREG | 0775); /* callers spare root or not */
	/* set-gid without execution by the group marks mandatory locks, and is for those who could set it */
	const struct g4_inode_core locked = make(G4_S_IFREG | 02664, 5, 2000);
	assert_int_equal(g4_mode_less_ids(&locked, &stranger), G4_S_IFREG | 0664);
	assert_int_equal(g4_mode_less_ids(&locked, &member), G4_S_IFREG | 02664);
	assert_int_equal(g4_mode_less_ids(&locked, NULL), G4_S_IFREG | 02664);
	const struct g4_inode_core dir = make(G4_S_IFDIR | 06775, 5, 2000);
	assert_int_equal(g4_mode_less_ids(&dir, &stranger), G4_S_IFDIR | 06775);
}

static void root_may_execute_what_somebody_may(void **state)
{
	const struct g4_cred root = {.uid = 0};

	(void)state;
	for (uint32_t mode = 0; mode <= 0777; mode++) {
		const struct g4_inode_core file = make(G4_S_IFREG | mode, 5, 7), dir = make(G4_S_IFDIR | mode, 5, 7);
		assert_int_equal(g4_mode_permits(&file, &root, 6), 0);
		assert_int_equal(g4_mode_permits(&file, &root, 1), mode & 0111 ? 0 : -G4_E_ACCES);
		assert_int_equal(g4_mode_permits(&dir, &root, 7), 0);
		assert_int_equal(g4_mode_permits(&file, NULL, 7), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_of_others_in_shared_directories_are_not_followed),
		cmocka_unit_test(files_of_others_in_sticky_directories_are_not_opened_by_create),
		cmocka_unit_test(set_id_bits_go_unless_they_are_no_privilege),
		cmocka_unit_test(root_may_execute_what_somebody_may),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
