"""`make up`: the whole product on one machine, with servers from wheels and nothing to configure.

`up.py` tells the sequence; every other module is one of its concerns.
"""
