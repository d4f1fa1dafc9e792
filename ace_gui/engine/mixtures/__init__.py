"""Mixtures of experts made of dense models: the plan of their tensors, routers, and folders."""
