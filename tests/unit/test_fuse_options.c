/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure parts of the FUSE front end: mount options and translations. The library leaves the front end out, so the two
 * sources are compiled into this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fuse/convert.c"
#include "fuse/options.c"

static char message[256];

static int parse(const char *text, struct g4_fuse_options *options)
{
	g4_fuse_options_init(options);
	message[0] = '\0';
	return g4_fuse_parse_options(text, options, message, sizeof(message));
}

static void refuses(const char *text, const char *words)
{
	struct g4_fuse_options options;
	assert_int_equal(parse(text, &options), -G4_E_INVAL);
	if (!strstr(message, words) || strchr(message, '\n'))
		fail_msg("for '%s' the sentence is: %s", text, message);
}

static void options_of_fstab_are_understood(void **state)
{
	(void)state;
	struct g4_fuse_options o;
	assert_int_equal(parse("", &o), 0);
	assert_false(o.read_only);
	assert_true(o.writeback);
	assert_int_equal(parse("rw,noauto,user,nofail,_netdev,x-systemd.automount,defaults,noexec,nosuid,nodev", &o),
			 0);
	assert_true(o.noexec && o.nosuid && o.nodev && !o.read_only);
	assert_int_equal(
		parse("ro,,dev,suid,cache=512M,tier=8M,dedup_memory=2M,commit=30,threads=4,noatime,allow_other,attr_timeout=1.5,",
		      &o),
		0);
	assert_true(o.read_only && !o.nosuid && !o.nodev && o.allow_other);
	assert_int_equal(o.cache_bytes, 512 * G4_MIB);
	assert_int_equal(o.dedup_bytes, 2 * G4_MIB);
	assert_int_equal(o.tier_bytes, 8 * G4_MIB);
	assert_false(o.dedup_verify);
	assert_int_equal(parse("dedup_verify", &o), 0);
	assert_true(o.dedup_verify);
	assert_int_equal(parse("tier=0", &o), 0);
	assert_int_equal(o.tier_bytes, G4_NO_TIER);
	assert_int_equal(parse("", &o), 0);
	assert_int_equal(o.tier_bytes, 0);
	assert_int_equal(parse("ro,cache=512M,commit=30,threads=4,noatime,allow_other,attr_timeout=1.5", &o), 0);
	assert_int_equal(o.commit_ms, 30000);
	assert_int_equal(o.threads, 4);
	assert_int_equal(o.atime, G4_ATIME_NOATIME);
	assert_true(o.attr_timeout_s == 1.5);
	assert_int_equal(parse("engine=auto,sms=16", &o), 0);
	assert_int_equal(o.engine, G4_ENGINE_AUTO);
	assert_int_equal(o.sms, 16);
	assert_int_equal(o.gpu_queues, 0);
	assert_int_equal(parse("engine=cuda,gpu_queues=24", &o), 0);
	assert_int_equal(o.gpu_queues, 24);
	assert_int_equal(parse("host_memory=16M", &o), 0);
	assert_int_equal(o.host_memory_bytes, 16 * G4_MIB);
	assert_int_equal(parse("host_memory=0", &o), 0);
	assert_int_equal(o.host_memory_bytes, 0);
	assert_string_equal(o.socket, "");
	assert_int_equal(parse("socket=/run/data.sock,ro", &o), 0);
	assert_string_equal(o.socket, "/run/data.sock");
	assert_int_equal(parse("noatime,relatime,writeback,nowriteback,readdirplus=auto", &o), 0);
	assert_int_equal(o.atime, G4_ATIME_RELATIME);
	assert_int_equal(o.readdirplus, G4_READDIRPLUS_AUTO);
	assert_int_equal(o.mirror, G4_MIRROR_AUTO);
	assert_false(o.writeback);
	assert_int_equal(parse("mirror=yes", &o), 0);
	assert_int_equal(o.mirror, G4_MIRROR_ALWAYS);
	assert_int_equal(parse("mirror=yes,mirror=no", &o), 0);
	assert_int_equal(o.mirror, G4_MIRROR_NEVER);
	assert_int_equal(parse("mirror=no,mirror=auto", &o), 0);
	assert_int_equal(o.mirror, G4_MIRROR_AUTO);
}

/* Names of devices with commas, and long ones, as paths may be. */
static void a_comma_of_a_value_is_escaped(void **state)
{
	static char text[3000], path[2900];
	struct g4_fuse_options o;

	(void)state;
	assert_int_equal(parse("device=/dev/s\\,1,ro", &o), 0);
	assert_string_equal(o.other_devices, "/dev/s\\,1"); /* as space/set_host.h has several in one */
	assert_true(o.read_only);
	assert_int_equal(parse("device=a\\\\,device=b\\c,ro", &o), 0);
	assert_string_equal(o.other_devices, "a\\\\,b\\c");
	assert_true(o.read_only);
	assert_int_equal(parse("socket=/run/a\\,b\\\\c,x-a\\,b=c,ro", &o), 0);
	assert_string_equal(o.socket, "/run/a,b\\c");
	assert_true(o.read_only);
	assert_int_equal(parse("device=x\\", &o), 0);
	assert_string_equal(o.other_devices, "x\\");
	memset(path, 'p', sizeof(path) - 1);
	snprintf(text, sizeof(text), "device=%s,ro", path);
	assert_int_equal(parse(text, &o), 0);
	assert_string_equal(o.other_devices, path);
}

static void wrong_options_are_named(void **state)
{
	(void)state;
	char longer[600];
	refuses("ro,frobnicate,rw", "'frobnicate'");
	refuses("frobnicate=1", "'frobnicate=1'");
	refuses("cache", "'cache' needs a value");
	refuses("cache=much", "'cache=much'");
	refuses("cache=4096", "at least 1M");
	refuses("dedup_memory=4096", "at least 1M");
	refuses("tier=4096", "at least 1M");
	refuses("engine=steam", "cpu, cuda or auto");
	refuses("sms=0", "multiprocessors");
	refuses("host_memory=much", "such as 32M");
	refuses("gpu_queues=0", "queues from 1 to 24");
	refuses("gpu_queues=25", "queues from 1 to 24");
	refuses("sms=all", "multiprocessors");
	refuses("commit=0", "'commit=0'");
	refuses("commit=-1", "'commit=-1'");
	refuses("commit=5s", "'commit=5s'");
	refuses("threads=257", "1 to 256");
	refuses("attr_timeout=nan", "'attr_timeout=nan'");
	refuses("readdirplus=maybe", "yes, auto or no");
	refuses("mirror=maybe", "yes, auto or no");
	refuses("ro=1", "'ro=1'");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	refuses(longer, "unknown mount option");
}

static void times_survive_both_ways(void **state)
{
	(void)state;
	static const int64_t times[] = {0, 1, -1, 999999999, -999999999, -1000000000, INT64_MAX, INT64_MIN};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct timespec time = g4_fuse_timespec((uint64_t)times[i]);
		assert_in_range(time.tv_nsec, 0, 999999999);
		assert_true((int64_t)g4_fuse_time_ns(&time) == times[i] || times[i] == INT64_MIN);
	}
	struct timespec far = {.tv_sec = INT64_MAX / 2}, past = {.tv_sec = INT64_MIN / 2};
	assert_true((int64_t)g4_fuse_time_ns(&far) == INT64_MAX);
	assert_true((int64_t)g4_fuse_time_ns(&past) == INT64_MIN);
}

static void open_flags_follow_the_cache(void **state)
{
	(void)state;
	assert_int_equal(g4_fuse_open_flags(O_RDONLY, true), G4_OPEN_DIRECT | G4_OPEN_READ);
	assert_int_equal(g4_fuse_open_flags(O_WRONLY | O_APPEND, true), G4_OPEN_DIRECT | G4_OPEN_READ | G4_OPEN_WRITE);
	assert_int_equal(g4_fuse_open_flags(O_WRONLY | O_APPEND, false),
			 G4_OPEN_DIRECT | G4_OPEN_WRITE | G4_OPEN_APPEND);
	assert_int_equal(g4_fuse_open_flags(O_RDWR | O_SYNC, false),
			 G4_OPEN_DIRECT | G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_SYNC);
	assert_int_equal(g4_fuse_open_flags(O_RDWR | O_DSYNC, false),
			 G4_OPEN_DIRECT | G4_OPEN_READ | G4_OPEN_WRITE | G4_OPEN_DSYNC);
	assert_int_equal(g4_fuse_open_flags(O_RDWR | O_SYNC, true), G4_OPEN_DIRECT | G4_OPEN_READ | G4_OPEN_WRITE);
}

static void chattr_flags_survive_both_ways(void **state)
{
	(void)state;
	uint32_t all = G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME, back;
	assert_true(g4_fuse_from_fs_flags(g4_fuse_fs_flags(all), &back) && back == all);
	assert_true(g4_fuse_from_xflags(g4_fuse_xflags(all), &back) && back == all);
	assert_int_equal(g4_fuse_fs_flags(G4_INODE_INLINE | G4_INODE_ORPHAN), 0);
	assert_false(g4_fuse_from_fs_flags(FS_COMPR_FL, &back));
	assert_false(g4_fuse_from_xflags(FS_XFLAG_DAX, &back));
}

static void trusted_names_are_hidden(void **state)
{
	(void)state;
	char list[] = "user.a\0trusted.b\0trusted\0security.c\0trusted.";
	size_t bytes = g4_fuse_hide_trusted(list, sizeof(list));
	assert_int_equal(bytes, sizeof("user.a\0trusted\0security.c"));
	assert_memory_equal(list, "user.a\0trusted\0security.c", bytes);
	assert_int_equal(g4_fuse_hide_trusted(list, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_comma_of_a_value_is_escaped), cmocka_unit_test(options_of_fstab_are_understood),
		cmocka_unit_test(wrong_options_are_named),	 cmocka_unit_test(times_survive_both_ways),
		cmocka_unit_test(open_flags_follow_the_cache),	 cmocka_unit_test(chattr_flags_survive_both_ways),
		cmocka_unit_test(trusted_names_are_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
