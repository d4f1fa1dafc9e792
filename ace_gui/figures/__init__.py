"""Figures for print: panels described as plain values, drawn by matplotlib without a display."""
