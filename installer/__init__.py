"""The driver installer: brings the KAE driver of its own host to the state that its config names, proves it, lets go.

It looks at the host (`host`, `observation`), decides (`verdict`, `outline`: pure), stages a complete driver without
touching what runs (`sources`, `store`), and only then swaps (`change`, `swap`): the right to swap, driver-changing,
the holders' eviction, unload, files, load, proof. Whatever fails after that puts the driver back that was there. It
acts on nothing but its own host, and meets the compiler only through its config.
"""
