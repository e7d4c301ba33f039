"""The records between header and features: found, put in order of delivery, handed out as batches and side-band."""
