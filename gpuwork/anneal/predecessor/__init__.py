"""A worker that a master of the predecessor finds: dramatiq's messages, packed by msgpack with msgpack-numpy."""
