"""Any log of JSON lines, read as a mapping file says."""
