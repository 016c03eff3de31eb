/* The core of aom.bpf.c as a plain library, so that tests need no privileges. */
#include <stddef.h>

#define AOM_LOOKUP(id) aom_lookup(id)
struct aom_group;
static struct aom_group *aom_lookup(unsigned int id);
#include "aom_core.h"

struct aom_entry {
    u32 id;
    struct aom_group group;
};

/* The table of the running call. Tests run in several threads. */
static _Thread_local struct aom_entry *entries;
static _Thread_local size_t entry_count;

static struct aom_group *aom_lookup(u32 id)
{
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].id == id)
            return &entries[i].group;
    return NULL;
}

int aom_native_frame(struct aom_entry *table, size_t count, u8 *frame, size_t length, u16 port,
                     u16 packet_port)
{
    entries = table;
    entry_count = count;
    return aom_frame(frame, frame + length, port, packet_port);
}
