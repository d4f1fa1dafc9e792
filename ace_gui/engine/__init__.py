"""The engine: plan, analyse, merge, inspect and export, in a process of its own.

The package ``contract`` imports neither torch nor transformers, so the window can use it. All other
packages may import them.
"""
