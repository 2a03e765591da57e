"""What a kernel left in an array beside what was expected: the one rule that gives all the wrong elements, if there is one."""
