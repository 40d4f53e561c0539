/* SPDX-License-Identifier: Apache-2.0 */
/* Mount options, as mount(8) and fstab(5) give them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/units_host.h"
#include "dev/nvme/lent_host.h"
#include "engine/engine.h"
#include "fuse/fuse.h"

#define DEFAULT_TIMEOUT_S 604800.0
#define MAX_TIMEOUT_S 1e9
#define MAX_THREADS 256
#define MAX_COMMIT_S 3600
#define WORD_BYTES 4200 /* the name of a device may be as long as a path */

void g4_fuse_options_init(struct g4_fuse_options *options)
{
	memset(options, 0, sizeof(*options));
	options->allow_other = geteuid() == 0;
	options->nosuid = options->nodev = geteuid() != 0;
	options->writeback = true;
	options->host_memory_bytes = G4_NVME_LENT_BYTES;
	options->attr_timeout_s = DEFAULT_TIMEOUT_S;
	options->entry_timeout_s = DEFAULT_TIMEOUT_S;
	options->negative_timeout_s = DEFAULT_TIMEOUT_S;
}

/* Words for mount(8), systemd and the kernel's own mount flags; nothing for us to do. */
static const char *const ignored[] = {
	"defaults",   "auto",	       "noauto",   "user",	 "nouser",   "users",
	"nousers",    "owner",	       "noowner",  "group",	 "nogroup",  "nofail",
	"_netdev",    "_rnetdev",      "silent",   "loud",	 "quiet",    "default_permissions",
	"mand",	      "nomand",	       "async",	   "nodiratime", "diratime", "iversion",
	"norelatime", "nostrictatime", "lazytime", "nolazytime",
};
/* The last ones are what the kernel shows of a mount, and mount(8) gives back for a remount. */
static const char *const ignored_prefixes[] = {"x-",	      "X-",	  "comment=",  "uhelper=", "helper=",  "user=",
					       "uid_helper=", "user_id=", "group_id=", "blksize=", "max_read="};

static bool is_ignored(const char *word)
{
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (!strcmp(word, ignored[i]))
			return true;
	for (size_t i = 0; i < sizeof(ignored_prefixes) / sizeof(ignored_prefixes[0]); i++)
		if (!strncmp(word, ignored_prefixes[i], strlen(ignored_prefixes[i])))
			return true;
	return false;
}

static bool set_flag(const char *word, struct g4_fuse_options *options)
{
	const struct {
		const char *word;
		bool *field;
		bool value;
	} flags[] = {
		{"ro", &options->read_only, true},	  {"rw", &options->read_only, false},
		{"nosuid", &options->nosuid, true},	  {"suid", &options->nosuid, false},
		{"nodev", &options->nodev, true},	  {"dev", &options->nodev, false},
		{"noexec", &options->noexec, true},	  {"exec", &options->noexec, false},
		{"sync", &options->sync, true},		  {"async", &options->sync, false},
		{"dirsync", &options->dirsync, true},	  {"allow_other", &options->allow_other, true},
		{"degraded", &options->degraded, true},	  {"dedup_verify", &options->dedup_verify, true},
		{"discard", &options->discard, true},	  {"nodiscard", &options->discard, false},
		{"writeback", &options->writeback, true}, {"nowriteback", &options->writeback, false},
		{"remount", &options->remount, true},
	};
	const struct {
		const char *word;
		enum g4_fuse_atime value;
	} atimes[] = {
		{"relatime", G4_ATIME_RELATIME},
		{"atime", G4_ATIME_RELATIME},
		{"noatime", G4_ATIME_NOATIME},
		{"strictatime", G4_ATIME_STRICTATIME},
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (!strcmp(word, flags[i].word)) {
			*flags[i].field = flags[i].value;
			return true;
		}
	}
	for (size_t i = 0; i < sizeof(atimes) / sizeof(atimes[0]); i++) {
		if (!strcmp(word, atimes[i].word)) {
			options->atime = atimes[i].value;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

static bool parse_seconds(const char *text, double *out)
{
	char *end;
	double value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtod(text, &end);
	if (*end != '\0' || !isfinite(value) || value > MAX_TIMEOUT_S)
		return false;
	*out = value;
	return true;
}

/* Of a value with escapes. False: there is none, or no room. */
static bool take_path(const char *value, char *to, size_t room)
{
	size_t bytes = 0;

	for (const char *c = value; *c && bytes < room; c++) {
		if (*c == '\\' && (c[1] == ',' || c[1] == '\\'))
			c++;
		to[bytes++] = *c;
	}
	if (bytes == 0 || bytes >= room)
		return false;
	to[bytes] = 0;
	return true;
}

/* 1: set; 0: not a key of ours; -1: a key of ours with a wrong value, *expected says what it takes. */
static int set_value(const char *key, const char *value, struct g4_fuse_options *options, const char **expected)
{
	uint64_t number;

	if (!strcmp(key, "cache") || !strcmp(key, "dedup_memory")) {
		*expected = "a size such as 512M, of at least 1M";
		if (g4_parse_size(value, &number) < 0 || number < G4_MIB)
			return -1;
		if (*key == 'c')
			options->cache_bytes = number;
		else
			options->dedup_bytes = number;
		return 1;
	}
	if (!strcmp(key, "tier")) {
		*expected = "a size such as 16M, of at least 1M, or 0";
		if (g4_parse_size(value, &number) < 0 || (number != 0 && number < G4_MIB))
			return -1;
		options->tier_bytes = number ? number : G4_NO_TIER;
		return 1;
	}
	if (!strcmp(key, "device")) {
		const size_t used = strlen(options->other_devices), room = sizeof(options->other_devices) - used;
		*expected = "the name of a disk";
		if (*value == 0 ||
		    (size_t)snprintf(options->other_devices + used, room, "%s%s", used ? "," : "", value) >= room)
			return -1;
		return 1;
	}
	if (!strcmp(key, "socket")) {
		*expected = "the path of a socket";
		return take_path(value, options->socket, sizeof(options->socket)) ? 1 : -1;
	}
	if (!strcmp(key, "engine")) {
		*expected = "cpu, cuda or auto";
		return g4_engine_parse_kind(value, &options->engine) == 0 ? 1 : -1;
	}
	if (!strcmp(key, "sms")) {
		*expected = "a number of multiprocessors";
		if (!parse_number(value, UINT32_MAX, &number) || number == 0)
			return -1;
		options->sms = (uint32_t)number;
		return 1;
	}
	if (!strcmp(key, "gpu_queues")) {
		*expected = "a number of queues from 1 to 24"; /* G4_GPU_QUEUES_MOST */
		if (!parse_number(value, G4_GPU_QUEUES_MOST, &number) || number == 0)
			return -1;
		options->gpu_queues = (uint32_t)number;
		return 1;
	}
	if (!strcmp(key, "host_memory")) {
		*expected = "a size such as 32M, or 0";
		return g4_parse_size(value, &options->host_memory_bytes) < 0 ? -1 : 1;
	}
	if (!strcmp(key, "commit")) {
		*expected = "a number of seconds from 1 to 3600";
		if (!parse_number(value, MAX_COMMIT_S, &number) || number == 0)
			return -1;
		options->commit_ms = (uint32_t)number * 1000;
		return 1;
	}
	if (!strcmp(key, "threads")) {
		*expected = "a number from 1 to 256";
		if (!parse_number(value, MAX_THREADS, &number) || number == 0)
			return -1;
		options->threads = (uint32_t)number;
		return 1;
	}
	if (!strcmp(key, "readdirplus")) {
		*expected = "yes, auto or no";
		if (!strcmp(value, "yes"))
			options->readdirplus = G4_READDIRPLUS_ALWAYS;
		else if (!strcmp(value, "auto"))
			options->readdirplus = G4_READDIRPLUS_AUTO;
		else if (!strcmp(value, "no"))
			options->readdirplus = G4_READDIRPLUS_NEVER;
		else
			return -1;
		return 1;
	}
	if (!strcmp(key, "mirror")) {
		*expected = "yes, auto or no";
		if (!strcmp(value, "yes"))
			options->mirror = G4_MIRROR_ALWAYS;
		else if (!strcmp(value, "auto"))
			options->mirror = G4_MIRROR_AUTO;
		else if (!strcmp(value, "no"))
			options->mirror = G4_MIRROR_NEVER;
		else
			return -1;
		return 1;
	}
	*expected = "a number of seconds";
	if (!strcmp(key, "attr_timeout"))
		return parse_seconds(value, &options->attr_timeout_s) ? 1 : -1;
	if (!strcmp(key, "entry_timeout"))
		return parse_seconds(value, &options->entry_timeout_s) ? 1 : -1;
	if (!strcmp(key, "negative_timeout"))
		return parse_seconds(value, &options->negative_timeout_s) ? 1 : -1;
	return 0;
}

static int parse_word(char *word, struct g4_fuse_options *options, char *message, size_t message_bytes)
{
	const char *expected = "";
	char *equals;
	int result;

	if (set_flag(word, options) || is_ignored(word))
		return 0;
	equals = strchr(word, '=');
	if (!equals) {
		const char *dummy;
		struct g4_fuse_options scratch = *options;

		if (set_value(word, "", &scratch, &dummy) == -1)
			snprintf(message, message_bytes, "mount option '%s' needs a value: %s", word, dummy);
		else
			snprintf(message, message_bytes, "unknown mount option '%s'", word);
		return -G4_E_INVAL;
	}
	*equals = '\0';
	result = set_value(word, equals + 1, options, &expected);
	*equals = '=';
	if (result > 0)
		return 0;
	if (result < 0)
		snprintf(message, message_bytes, "mount option '%s': expected %s", word, expected);
	else
		snprintf(message, message_bytes, "unknown mount option '%s'", word);
	return -G4_E_INVAL;
}

/* Up to a comma that has no backslash: with one it is part of a name, as mount(8) and libfuse have it, and so is a second backslash. */
static size_t word_bytes(const char *text)
{
	size_t bytes = 0;

	while (text[bytes] && text[bytes] != ',')
		bytes += text[bytes] == '\\' && (text[bytes + 1] == ',' || text[bytes + 1] == '\\') ? 2 : 1;
	return bytes;
}

int g4_fuse_parse_options(const char *text, struct g4_fuse_options *options, char *message, size_t message_bytes)
{
	char word[WORD_BYTES];

	while (*text) {
		const size_t bytes = word_bytes(text);

		if (bytes >= sizeof(word)) {
			if (strncmp(text, "x-", 2) != 0 && strncmp(text, "X-", 2) != 0) {
				snprintf(message, message_bytes, "unknown mount option '%.40s...'", text);
				return -G4_E_INVAL;
			}
		} else if (bytes > 0) {
			int result;

			memcpy(word, text, bytes);
			word[bytes] = '\0';
			result = parse_word(word, options, message, message_bytes);
			if (result < 0)
				return result;
		}
		text += bytes;
		if (*text == ',')
			text++;
	}
	return 0;
}
