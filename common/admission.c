#include "admission.h"

#include "signals.h"

void admission_init(struct admission *admission)
{
    *admission = (struct admission){0};
    mutex_init(&admission->lock);
}

void admission_destroy(struct admission *admission)
{
    mutex_destroy(&admission->lock);
}

bool admission_has_place(struct admission *admission, size_t most)
{
    mutex_lock(&admission->lock);
    bool place = admission->count < most;
    admission->wanted = !place;
    mutex_unlock(&admission->lock);
    return place;
}

void admission_enter(struct admission *admission)
{
    mutex_lock(&admission->lock);
    admission->count++;
    mutex_unlock(&admission->lock);
}

void admission_leave(struct admission *admission)
{
    mutex_lock(&admission->lock);
    admission->count--;
    bool wanted = admission->wanted;
    admission->wanted = false;
    mutex_unlock(&admission->lock);
    if (wanted)
        signals_ring();
}
