// SPDX-License-Identifier: GPL-2.0
/* A network driver with one interface, sfc0. Only the one out of the tree offers what onload needs. */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static struct platform_device *card;

static netdev_tx_t sfc_transmit(struct sk_buff *skb, struct net_device *interface)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops operations = {
	.ndo_start_xmit = sfc_transmit, .ndo_set_mac_address = eth_mac_addr,
};

static int sfc_probe(struct platform_device *device)
{
	struct net_device *interface = alloc_etherdev(0);
	int error;

	if (!interface)
		return -ENOMEM;
	strscpy(interface->name, "sfc%d", IFNAMSIZ);
	interface->netdev_ops = &operations;
	eth_hw_addr_random(interface);
	SET_NETDEV_DEV(interface, &device->dev);
	platform_set_drvdata(device, interface);
	error = register_netdev(interface);
	if (error)
		free_netdev(interface);
	return error;
}

static int sfc_remove(struct platform_device *device)
{
	struct net_device *interface = platform_get_drvdata(device);

	unregister_netdev(interface);
	free_netdev(interface);
	return 0;
}

static struct platform_driver driver = { .driver.name = "sfc", .probe = sfc_probe, .remove = sfc_remove };

#ifndef IN_TREE
int sfc_driverlink(void);
int sfc_driverlink(void) { return 0; }
EXPORT_SYMBOL_GPL(sfc_driverlink);
#endif

static int __init sfc_init(void)
{
	int error = platform_driver_register(&driver);

	if (error)
		return error;
	card = platform_device_register_simple("sfc", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(card))
		platform_driver_unregister(&driver);
	else
		pr_info("sfc " KMODVER " begins\n");
	return PTR_ERR_OR_ZERO(card);
}
module_init(sfc_init);

static void __exit sfc_exit(void)
{
	platform_device_unregister(card);
	platform_driver_unregister(&driver);
	pr_info("sfc " KMODVER " ends\n");
}
module_exit(sfc_exit);

MODULE_LICENSE("GPL");
MODULE_VERSION(KMODVER);
MODULE_DESCRIPTION("Stub of a network driver, for tests without hardware");
