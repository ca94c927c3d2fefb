"""The kubelet's view of the devices: advertised lists, registration, and the answers to Allocate.

`plugin`, `loop` and the command line import any module of it.
"""
