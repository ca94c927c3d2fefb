/* SPDX-License-Identifier: GPL-2.0 */
/* The whole of an engine's module; it defines ENGINE_PF, ENGINE_VF, ENGINE_QEMU and ENGINE_ALGORITHMS before. */
#include <linux/debugfs.h>

#include "hisi_qm.h"

static int uacce_mode, pf_q_num = 64, vfs_num;
module_param_cb(uacce_mode, &hisi_qm_mode_ops, &uacce_mode, 0444);
module_param_cb(pf_q_num, &hisi_qm_queue_ops, &pf_q_num, 0444);
module_param_cb(vfs_num, &hisi_qm_vfs_ops, &vfs_num, 0444);

static const struct hisi_engine engine = {
	.module = KBUILD_MODNAME, .algorithms = ENGINE_ALGORITHMS,
	.uacce_mode = &uacce_mode, .pf_q_num = &pf_q_num, .vfs_num = &vfs_num,
};

static int engine_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	if (stub_has("probe"))
		return -EIO;
	return hisi_qm_probe(pdev, &engine);
}

static const struct pci_device_id engine_ids[] = {
	{ PCI_DEVICE(0x19e5, ENGINE_PF) },
	{ PCI_DEVICE(0x19e5, ENGINE_VF) },
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT, ENGINE_QEMU) }, /* a device of QEMU that no driver of the kernel wants */
	{ }
};
MODULE_DEVICE_TABLE(pci, engine_ids);

static struct pci_driver engine_driver = {
	.name = KBUILD_MODNAME, .id_table = engine_ids, .probe = engine_probe, .remove = hisi_qm_remove,
	.sriov_configure = hisi_qm_sriov_configure,
};

static struct dentry *debug;

static int __init engine_init(void)
{
	int error = stub_init_fault();

	if (error)
		return error;
	debug = debugfs_create_dir(KBUILD_MODNAME, NULL);
	error = pci_register_driver(&engine_driver);
	if (error)
		debugfs_remove(debug);
	return error;
}
module_init(engine_init);

static void __exit engine_exit(void)
{
	pci_unregister_driver(&engine_driver);
	debugfs_remove(debug);
}
module_exit(engine_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(STUB_VERSION STUB_SUFFIX);
MODULE_DESCRIPTION("Stub of an accelerator's driver, for tests without hardware");
