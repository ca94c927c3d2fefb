// SPDX-License-Identifier: GPL-2.0
/* A module without a parameter, in a file with a hyphen in its name: the kernel calls it simple_kmod. */
#include <linux/module.h>

static int __init simple_init(void)
{
	pr_info("simple_kmod " KMODVER " begins\n");
	return 0;
}
module_init(simple_init);

static void __exit simple_exit(void)
{
	pr_info("simple_kmod " KMODVER " ends\n");
}
module_exit(simple_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(KMODVER);
MODULE_DESCRIPTION("Stub of simple-kmod, for tests");
