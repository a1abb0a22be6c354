"""Takes a master; gives a Spark session on a Java that was found, started as quickly as can be."""
