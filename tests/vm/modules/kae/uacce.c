// SPDX-License-Identifier: GPL-2.0
/* A stand-in for KAE's uacce: the class, its attributes, and a device node with counted queues. No hardware. */
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "uacce.h"

static struct class *class;
static dev_t first;
static DEFINE_IDA(ids);

static struct uacce_device *of(struct device *dev)
{
	return container_of(dev, struct uacce_device, dev);
}

#define SHOW(name, ...)									\
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{										\
		return sysfs_emit(buf, __VA_ARGS__);					\
	}

SHOW(api, "hisi_qm_v2_noiommu\n")
static DEVICE_ATTR_RO(api);
SHOW(flags, "2\n")
static DEVICE_ATTR_RO(flags);
SHOW(algorithms, "%s", of(dev)->algorithms)
static DEVICE_ATTR_RO(algorithms);
SHOW(available_instances, "%d\n", atomic_read(&of(dev)->free))
static DEVICE_ATTR_RO(available_instances);
SHOW(region_mmio_size, "8192\n")
static DEVICE_ATTR_RO(region_mmio_size);
SHOW(region_dus_size, "86016\n")
static DEVICE_ATTR_RO(region_dus_size);
SHOW(node_id, "%d\n", dev_to_node(dev->parent))
static DEVICE_ATTR_RO(node_id);
SHOW(isolate, "%d\n", of(dev)->isolated)
static ssize_t isolate_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t size)
{
	return kstrtoint(buf, 10, &of(dev)->isolated) ?: size;
}
static DEVICE_ATTR_RW(isolate); /* read-only in the real one */

static struct attribute *uacce_attrs[] = {
	&dev_attr_api.attr, &dev_attr_flags.attr, &dev_attr_algorithms.attr, &dev_attr_available_instances.attr,
	&dev_attr_region_mmio_size.attr, &dev_attr_region_dus_size.attr, &dev_attr_node_id.attr,
	&dev_attr_isolate.attr, NULL,
};
ATTRIBUTE_GROUPS(uacce);

/* The numbers are KAE's: those of uacce, and one that uacce leaves to hisi_qm. */
#define UACCE_CMD_START_Q _IO('W', 0)
#define UACCE_CMD_PUT_Q _IO('W', 1)
#define UACCE_CMD_QM_SET_QP_CTX _IOWR('H', 10, struct hisi_qp_ctx)
struct hisi_qp_ctx { __u16 id, qc_type; };

static int uacce_open(struct inode *inode, struct file *file)
{
	struct uacce_device *uacce = container_of(inode->i_cdev, struct uacce_device, cdev);
	struct uacce_queue *queue;

	if (READ_ONCE(uacce->gone))
		return -ENODEV;
	queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	if (!queue)
		return -ENOMEM;
	if (atomic_dec_if_positive(&uacce->free) < 0) {
		kfree(queue);
		return -EBUSY;
	}
	queue->uacce = uacce;
	file->private_data = queue;
	return 0;
}

static long uacce_put_queue(struct uacce_queue *queue)
{
	if (xchg(&queue->state, UACCE_Q_ZOMBIE) != UACCE_Q_ZOMBIE)
		atomic_inc(&queue->uacce->free);
	return 0;
}

static long uacce_start_queue(struct uacce_queue *queue)
{
	if (stub_has("start"))
		return -EIO;
	return cmpxchg(&queue->state, UACCE_Q_INIT, UACCE_Q_STARTED) == UACCE_Q_INIT ? 0 : -EINVAL;
}

static long uacce_set_context(void __user *where)
{
	struct hisi_qp_ctx context;

	if (copy_from_user(&context, where, sizeof(context)))
		return -EFAULT;
	if (context.qc_type > 1)
		return -EINVAL;
	context.id = 0;
	return copy_to_user(where, &context, sizeof(context)) ? -EFAULT : 0;
}

static long uacce_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct uacce_queue *queue = file->private_data;

	if (READ_ONCE(queue->state) == UACCE_Q_ZOMBIE)
		return -ENXIO;
	switch (command) {
	case UACCE_CMD_START_Q:
		return uacce_start_queue(queue);
	case UACCE_CMD_PUT_Q:
		return uacce_put_queue(queue);
	case UACCE_CMD_QM_SET_QP_CTX:
		return uacce_set_context((void __user *)argument);
	}
	return -EINVAL;
}

static int uacce_release(struct inode *inode, struct file *file)
{
	uacce_put_queue(file->private_data);
	kfree(file->private_data);
	return 0;
}

static int uacce_mmap(struct file *file, struct vm_area_struct *area)
{
	struct uacce_queue *queue = file->private_data;

	if (area->vm_pgoff || area->vm_end - area->vm_start != PAGE_SIZE)
		return -EINVAL;
	return vm_insert_page(area, area->vm_start, queue->uacce->page);
}

static const struct file_operations fops = {
	.owner = THIS_MODULE, .open = uacce_open, .release = uacce_release, .mmap = uacce_mmap,
	.unlocked_ioctl = uacce_ioctl,
};

static void uacce_free(struct device *dev)
{
	struct uacce_device *uacce = of(dev);

	ida_free(&ids, uacce->id);
	__free_page(uacce->page);
	kfree(uacce);
}

struct uacce_device *uacce_add(struct device *parent, const char *module, const char *algorithms, int queues)
{
	struct uacce_device *uacce = kzalloc(sizeof(*uacce), GFP_KERNEL);
	int error;

	if (!uacce)
		return ERR_PTR(-ENOMEM);
	uacce->page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	uacce->id = ida_alloc(&ids, GFP_KERNEL);
	uacce->algorithms = algorithms;
	uacce->queues = queues;
	atomic_set(&uacce->free, queues);
	device_initialize(&uacce->dev);
	uacce->dev.class = class;
	uacce->dev.parent = parent;
	uacce->dev.devt = MKDEV(MAJOR(first), uacce->id);
	uacce->dev.groups = uacce_groups;
	uacce->dev.release = uacce_free;
	dev_set_name(&uacce->dev, "%s-%d", module, uacce->id);
	cdev_init(&uacce->cdev, &fops);
	uacce->cdev.owner = THIS_MODULE;
	error = cdev_device_add(&uacce->cdev, &uacce->dev);
	if (error) {
		put_device(&uacce->dev);
		return ERR_PTR(error);
	}
	return uacce;
}
EXPORT_SYMBOL_GPL(uacce_add);

void uacce_remove(struct uacce_device *uacce)
{
	cdev_device_del(&uacce->cdev, &uacce->dev);
	put_device(&uacce->dev);
}
EXPORT_SYMBOL_GPL(uacce_remove);

static int __init uacce_init(void)
{
	int error = stub_init_fault() ?: alloc_chrdev_region(&first, 0, 1024, "uacce");

	if (error)
		return error;
	class = class_create(THIS_MODULE, "uacce");
	if (IS_ERR(class))
		unregister_chrdev_region(first, 1024);
	return PTR_ERR_OR_ZERO(class);
}
module_init(uacce_init);

static void __exit uacce_exit(void)
{
	class_destroy(class);
	unregister_chrdev_region(first, 1024);
}
module_exit(uacce_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(STUB_VERSION STUB_SUFFIX);
MODULE_DESCRIPTION("Stub of uacce, for tests without hardware");
