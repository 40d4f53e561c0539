/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the locks, asserted in builds with G4_LOCK_ORDER (presets debug and asan): two classes are never taken in both
 * orders, by any threads, also not by way of others. A class is what the call names: all locks called inode->lock and
 * parent->lock are inodes' (readers/writer locks but flush_lock and those of directories' pages), the others go by their member or function. Among
 * themselves locks of one class have rules of their own (by number, parent before child), which are not checked.
 * A try that fails waits for nobody, so one that succeeds may be in any order; what is taken while it is held may not.
 */
#ifndef G4_ORDER_H
#define G4_ORDER_H

#include <stdbool.h>

void g4_order_take(const void *lock, const char *name, bool shared, const char *file, int line); /* before it waits */
bool g4_order_took(bool taken, const void *lock, const char *name, bool shared);		 /* after a try */
void g4_order_drop(const void *lock);

#define g4_lock(l) (g4_order_take((l), #l, false, __FILE__, __LINE__), g4_lock(l))
#define g4_trylock(l) g4_order_took(g4_trylock(l), (l), #l, false)
#define g4_unlock(l) (g4_order_drop(l), g4_unlock(l))
#define g4_read_lock(l) (g4_order_take((l), #l, true, __FILE__, __LINE__), g4_read_lock(l))
#define g4_read_lock_at_gate(l) (g4_order_take((l), #l, true, __FILE__, __LINE__), g4_read_lock_at_gate(l))
#define g4_write_lock(l) (g4_order_take((l), #l, true, __FILE__, __LINE__), g4_write_lock(l))
#define g4_write_trylock(l) g4_order_took(g4_write_trylock(l), (l), #l, true)
#define g4_read_trylock(l) g4_order_took(g4_read_trylock(l), (l), #l, true)
#define g4_read_unlock(l) (g4_order_drop(l), g4_read_unlock(l))
#define g4_write_unlock(l) (g4_order_drop(l), g4_write_unlock(l))

#endif
