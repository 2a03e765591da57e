"""Does a kernel read what it meant to read, and if not, which field is wrong?"""
