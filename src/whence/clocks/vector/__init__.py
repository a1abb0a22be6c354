"""Vector clocks: exact happened-before for processes with string ids."""
