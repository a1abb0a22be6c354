"""Regular expressions of users: JavaScript's and Python's, stopped where they take too long."""
