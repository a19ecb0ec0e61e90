"""Between hosts: slots and versions packed into large objects, relayed from the shared memory of one host to that of another.

A ring between two hosts is two rings in shared memory, one at each end, and a relay: see `relay.py`. Nothing in this folder but
`courier.py` knows Ray.
"""
