// SPDX-License-Identifier: GPL-2.0
/* A module with a parameter, which /proc/simple-procfs-kmod shows and changes. */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>

#define NAME "simple-procfs-kmod"

static int number;
module_param(number, int, 0660);

#ifdef STRANGER
/* Nobody has this symbol, as when a module was built for another kernel. */
void symbol_of_another_kernel(void);
#endif

static ssize_t number_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	char text[64];
	int length = scnprintf(text, sizeof(text), NAME " number = %d\n", READ_ONCE(number));

	return simple_read_from_buffer(to, size, offset, text, length);
}

static ssize_t number_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	return kstrtoint_from_user(from, size, 10, &number) ?: size;
}

/* In place of file_operations since Linux 5.6. */
static const struct proc_ops operations = { .proc_read = number_read, .proc_write = number_write };

static int __init simple_procfs_init(void)
{
#ifdef STRANGER
	symbol_of_another_kernel();
#endif
	return proc_create(NAME, 0660, NULL, &operations) ? 0 : -ENOMEM;
}
module_init(simple_procfs_init);

static void __exit simple_procfs_exit(void)
{
	remove_proc_entry(NAME, NULL);
}
module_exit(simple_procfs_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(KMODVER);
MODULE_DESCRIPTION("Stub of simple-procfs-kmod, for tests");
