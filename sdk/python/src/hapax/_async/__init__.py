"""The client and its parts for asyncio. `_sync` is made from this folder by tools/make_sync."""
