"""Takes bytes of JSON; gives values, by an exact reader and by quick ones that leave to it what is unusual."""
