"""Report of a run or review: one folder of pages that opens offline, with the same facts for machines."""
