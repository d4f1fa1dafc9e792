"""Joins the rooms below: plan, analyse, merge, inspect, export, in a process of their own.

``plan``, ``events``, ``jobs`` and ``process`` import neither torch nor transformers, so the window
can use them; everything else in this room may.
"""
