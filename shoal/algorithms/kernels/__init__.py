"""Gradients written by hand for the commonest small networks, where autograd's bookkeeping costs more than the arithmetic.

Nothing else depends on this folder: an algorithm asks whether a kernel suits its policy and works without one as well.
"""
