// SPDX-License-Identifier: GPL-2.0
/* The device nodes of Onload, /dev/onload and /dev/onload_epoll; the kernel makes them in its devtmpfs. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

int sfc_driverlink(void);
#ifdef STRANGER
/* Nobody has this symbol, as when a module was built for another kernel. */
void symbol_of_another_kernel(void);
#endif

/* Of each type that a parameter may have; the first is Onload's own. */
static char *cplane_server_params = "";
module_param(cplane_server_params, charp, 0644);
static bool quiet;
module_param(quiet, bool, 0444);
static int stacks = 1;
module_param(stacks, int, 0444);

static const struct file_operations operations = { .owner = THIS_MODULE };

static struct miscdevice nodes[] = {
	{ .minor = MISC_DYNAMIC_MINOR, .name = "onload", .mode = 0666, .fops = &operations },
	{ .minor = MISC_DYNAMIC_MINOR, .name = "onload_epoll", .mode = 0666, .fops = &operations },
};

static int __init onload_init(void)
{
	int error = sfc_driverlink() ?: misc_register(&nodes[0]);

	if (error)
		return error;
#ifdef STRANGER
	symbol_of_another_kernel();
#endif
	error = misc_register(&nodes[1]);
	if (error)
		misc_deregister(&nodes[0]);
	else
		pr_info("onload " KMODVER " begins\n");
	return error;
}
module_init(onload_init);

static void __exit onload_exit(void)
{
	misc_deregister(&nodes[1]);
	misc_deregister(&nodes[0]);
	pr_info("onload " KMODVER " ends\n");
}
module_exit(onload_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(KMODVER);
MODULE_DESCRIPTION("Stub of Onload, for tests without hardware");
