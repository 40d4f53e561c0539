/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program, by pointers that may be bad. Each page is touched by one of two instructions before it is used; the handler of
 * faults (signals.c) knows these, and has the touch say false where one of them has faulted. What lies in a page that was touched is
 * read and written as usual: who unmaps it at that moment from another thread has the fault.
 *
 * Where an architecture has no touch here, a bad pointer is a fault.
 */
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "preload/memory.h"

#define PAGE ((uintptr_t)4096) /* or a part of one */

bool g4p_touch(const void *at);		  /* reads a byte */
bool g4p_touch_with(void *at, char byte); /* writes one */

#if defined(__x86_64__)
#define FUNCTION(name, access)                                                                                         \
	".type " name ", @function\n" name ":\n.cfi_startproc\n" name "_access: " access "\nmovl $1, %eax\nret\n" name \
	"_failed: xorl %eax, %eax\nret\n.cfi_endproc\n.size " name ", . - " name "\n"
__asm__(".pushsection .text\n" FUNCTION("g4p_touch", "movb (%rdi), %al")
		FUNCTION("g4p_touch_with", "movb %sil, (%rdi)") ".popsection\n");
#define PLACE(context) ((context)->uc_mcontext.gregs[REG_RIP])
#elif defined(__aarch64__)
#define FUNCTION(name, access)                                                                                         \
	".type " name ", %function\n" name ":\n.cfi_startproc\n" name "_access: " access "\nmov w0, #1\nret\n" name    \
	"_failed: mov w0, #0\nret\n.cfi_endproc\n.size " name ", . - " name "\n"
__asm__(".pushsection .text\n" FUNCTION("g4p_touch", "ldrb w2, [x0]")
		FUNCTION("g4p_touch_with", "strb w1, [x0]") ".popsection\n");
#define PLACE(context) ((context)->uc_mcontext.pc)
#endif

#ifdef PLACE
extern const char g4p_touch_access[], g4p_touch_failed[], g4p_touch_with_access[], g4p_touch_with_failed[];

bool g4p_resume(void *context)
{
	ucontext_t *at = context;

	if ((uintptr_t)PLACE(at) == (uintptr_t)g4p_touch_access)
		PLACE(at) = (__typeof__(PLACE(at)))(uintptr_t)g4p_touch_failed;
	else if ((uintptr_t)PLACE(at) == (uintptr_t)g4p_touch_with_access)
		PLACE(at) = (__typeof__(PLACE(at)))(uintptr_t)g4p_touch_with_failed;
	else
		return false;
	return true;
}
#else
bool g4p_touch(const void *at)
{
	return at != NULL;
}

bool g4p_touch_with(void *at, char byte)
{
	*(volatile char *)at = byte;
	return true;
}

bool g4p_resume(void *context)
{
	(void)context;
	return false;
}
#endif

/* Up to the next page's beginning. */
static size_t left_in_page(const void *at)
{
	return PAGE - ((uintptr_t)at & (PAGE - 1));
}

size_t g4p_readable(const void *from, size_t bytes)
{
	size_t done = 0;

	while (done < bytes && g4p_touch((const char *)from + done))
		done += left_in_page((const char *)from + done);
	return done < bytes ? done : bytes;
}

bool g4p_is_string(const char *text)
{
	for (size_t done = 0; text && done < G4P_PATH_BYTES;) {
		const size_t part = left_in_page(text + done);
		if (!g4p_touch(text + done))
			return false;
		if (memchr(text + done, 0, part))
			return true;
		done += part;
	}
	return text != NULL;
}

bool g4p_begins_with(const char *text, char first)
{
	return text && g4p_guarded && g4p_touch(text) && text[0] == first;
}

bool g4p_copy_out(void *to, const void *from, size_t bytes)
{
	for (size_t done = 0; done < bytes; done += left_in_page((char *)to + done))
		if (!g4p_touch_with((char *)to + done, ((const char *)from)[done]))
			return false;
	if (bytes)
		memcpy(to, from, bytes);
	return true;
}
