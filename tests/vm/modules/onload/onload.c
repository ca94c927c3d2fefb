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
	return error;
}
module_init(onload_init);

static void __exit onload_exit(void)
{
	misc_deregister(&nodes[1]);
	misc_deregister(&nodes[0]);
}
module_exit(onload_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(KMODVER);
MODULE_DESCRIPTION("Stub of Onload, for tests without hardware");
