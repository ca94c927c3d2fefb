/* SPDX-License-Identifier: GPL-2.0 */
/* What the stub modules share: the class uacce, and the faults that a build may have. */
#ifndef STUB_UACCE_H
#define STUB_UACCE_H

#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "variant.h" /* written by the build: STUB_VERSION, STUB_FAULT, STUB_FAULT_MODULE */

struct uacce_device {
	struct device dev;
	struct cdev cdev;
	int id;
	const char *algorithms;
	atomic_t free;		/* queues that nobody has */
	int queues;
	bool gone;		/* nobody may open it any more */
	int isolated;		/* an attribute that tests may write: 1, 0, -1 */
	struct page *page;	/* what mmap shows */
};

/* What a process has of a device that it opened. */
struct uacce_queue {
	struct uacce_device *uacce;
	enum { UACCE_Q_INIT, UACCE_Q_STARTED, UACCE_Q_ZOMBIE } state;
};

struct uacce_device *uacce_add(struct device *parent, const char *module, const char *algorithms, int queues);
void uacce_remove(struct uacce_device *uacce);

/* Opens are waited for by the caller, as hisi_qm_wait_task_finish does. */
static inline bool uacce_busy(struct uacce_device *uacce)
{
	return atomic_read(&uacce->free) != uacce->queues;
}

static inline bool stub_has(const char *fault)
{
	return !strcmp(STUB_FAULT, fault) && !strcmp(STUB_FAULT_MODULE, KBUILD_MODNAME);
}

/* Faults while a module is loaded; the init functions of all five call it first. */
static inline int stub_init_fault(void)
{
	if (stub_has("panic"))
		panic("stub: %s panics on load", KBUILD_MODNAME);
	if (stub_has("oops"))
		*(volatile int *)8 = 1;
	while (stub_has("hang"))
		msleep(100); /* unkillable: state D */
	return stub_has("init") ? -EIO : 0;
}
#endif
