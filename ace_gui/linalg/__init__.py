"""Pure functions of tensors: centring, heterogeneity, order statistics, solves, factors, spectra.

They know nothing of checkpoints and recipes. Every tensor stays on its device. Factorisations are
in float64, except ``root_spectrum``, which measures the error of float32.
"""
