// SPDX-License-Identifier: GPL-2.0
/* A stand-in for hisi_qm: what the three engines share. */
#include <linux/debugfs.h>
#include <linux/slab.h>

#include "hisi_qm.h"

struct hisi_qm {
	struct uacce_device *uacce;	/* none with uacce_mode 0 */
	struct dentry *folder;		/* /sys/kernel/debug/<module>/<address> */
};

static struct debugfs_blob_wrapper status = { .data = "start\n", .size = 6 };

static int set_between(const char *text, const struct kernel_param *kp, int least, int most)
{
	int value;

	if (kstrtoint(text, 10, &value) || value < least || value > most)
		return -EINVAL;
	return param_set_int(text, kp);
}

static int set_mode(const char *text, const struct kernel_param *kp) { return set_between(text, kp, 0, 2); }
static int set_queues(const char *text, const struct kernel_param *kp) { return set_between(text, kp, 2, 1024); }
static int set_vfs(const char *text, const struct kernel_param *kp) { return set_between(text, kp, 0, 63); }
const struct kernel_param_ops hisi_qm_mode_ops = { .set = set_mode, .get = param_get_int };
const struct kernel_param_ops hisi_qm_queue_ops = { .set = set_queues, .get = param_get_int };
const struct kernel_param_ops hisi_qm_vfs_ops = { .set = set_vfs, .get = param_get_int };
EXPORT_SYMBOL_GPL(hisi_qm_mode_ops);
EXPORT_SYMBOL_GPL(hisi_qm_queue_ops);
EXPORT_SYMBOL_GPL(hisi_qm_vfs_ops);

int hisi_qm_probe(struct pci_dev *pdev, const struct hisi_engine *engine)
{
	struct hisi_qm *qm = devm_kzalloc(&pdev->dev, sizeof(*qm), GFP_KERNEL);
	struct dentry *top = debugfs_lookup(engine->module, NULL);
	int error = pcim_enable_device(pdev);

	if (!qm || error)
		return error ?: -ENOMEM;
	pci_set_drvdata(pdev, qm);
	if (*engine->uacce_mode) {
		qm->uacce = uacce_add(&pdev->dev, engine->module, engine->algorithms, *engine->pf_q_num);
		if (IS_ERR(qm->uacce))
			return PTR_ERR(qm->uacce);
	}
	qm->folder = debugfs_create_dir(pci_name(pdev), top);
	debugfs_create_blob("status", 0444, debugfs_create_dir("qm", qm->folder), &status);
	dput(top);
	if (*engine->vfs_num && !pdev->is_virtfn)
		hisi_qm_sriov_configure(pdev, *engine->vfs_num);
	return 0;
}
EXPORT_SYMBOL_GPL(hisi_qm_probe);

void hisi_qm_remove(struct pci_dev *pdev)
{
	struct hisi_qm *qm = pci_get_drvdata(pdev);

	pci_disable_sriov(pdev);
	if (qm->uacce) {
		WRITE_ONCE(qm->uacce->gone, true);
		while (uacce_busy(qm->uacce))
			msleep(20); /* unkillable, as hisi_qm_wait_task_finish */
		uacce_remove(qm->uacce);
	}
	debugfs_remove(qm->folder);
}
EXPORT_SYMBOL_GPL(hisi_qm_remove);

int hisi_qm_sriov_configure(struct pci_dev *pdev, int count)
{
	int error;

	if (!count) {
		if (pci_vfs_assigned(pdev))
			return -EPERM;
		pci_disable_sriov(pdev);
		return 0;
	}
	if (pci_num_vf(pdev))
		return -EBUSY;
	error = pci_enable_sriov(pdev, count);
	return error ?: count;
}
EXPORT_SYMBOL_GPL(hisi_qm_sriov_configure);

static int __init hisi_qm_init(void) { return stub_init_fault(); }
module_init(hisi_qm_init);
static void __exit hisi_qm_exit(void) { }
module_exit(hisi_qm_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(STUB_VERSION STUB_SUFFIX);
MODULE_DESCRIPTION("Stub of hisi_qm, for tests without hardware");
