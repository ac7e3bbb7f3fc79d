# Made by tools/make_sync from _async; change it there.
"""The client and its parts for plain threads. `_sync` is made from this folder by tools/make_sync."""
