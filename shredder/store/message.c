/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences of errors, names of files and kinds as text, users and times: what everything else here calls. */
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

/* The kernel's number of the namespace of processes that it starts with. */
#define FIRST_PROCESS_SPACE 0xeffffffcU

static _Thread_local char message[STORE_TEXT_BYTES];

int store_fail(int code, const char *format, ...)
{
	char text[STORE_TEXT_BYTES]; /* the old message may be an argument */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	memcpy(message, text, sizeof(message));
	return code;
}

const char *store_message(void)
{
	return message;
}

const char *store_hex(const struct store_id *id, char text[STORE_HEX_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < STORE_ID_BYTES; i++) {
		text[2 * i] = digits[id->bytes[i] >> 4];
		text[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	text[STORE_HEX_BYTES - 1] = 0;
	return text;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool store_unhex(const char *text, struct store_id *id)
{
	if (strlen(text) != STORE_HEX_BYTES - 1)
		return false;
	for (int i = 0; i < STORE_ID_BYTES; i++) {
		if (digit(text[2 * i]) < 0 || digit(text[2 * i + 1]) < 0)
			return false;
		id->bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	}
	return true;
}

const char *store_kind_name(enum store_kind kind)
{
	switch (kind) {
#define KIND_CASE(name, number, folder, what)                                                                          \
	case STORE_##name:                                                                                             \
		return folder;
		STORE_KINDS(KIND_CASE)
#undef KIND_CASE
	}
	return "";
}

struct store_time store_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (struct store_time){now.tv_sec, (uint32_t)now.tv_nsec};
}

void store_host(char host[65])
{
	struct utsname names;

	snprintf(host, 65, "%.64s", uname(&names) == 0 ? names.nodename : "");
}

uint64_t store_process_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != FIRST_PROCESS_SPACE ? (uint64_t)st.st_ino : 0;
}

void store_user(char user[65])
{
	const struct passwd *entry = getpwuid(geteuid());

	if (entry != NULL)
		snprintf(user, 65, "%.64s", entry->pw_name);
	else
		snprintf(user, 65, "%ld", (long)geteuid());
}
