"""What programs exchange: one model each, of which its writer, its strict reader and its JSON Schema are made.

gpuprov and gpuwork both use it, in nodes too: it needs msgspec and nothing else of gpuprov.
"""
