"""Take inputs or a stream; run the batch and streaming pipelines on Spark. The only package that imports pyspark.

Importing this package loads nothing: `ledto.spark.session.session` brings Spark in, and `ledto.spark.session.java`
finds the Java it runs on, also where pyspark is not installed::

    python -m ledto.spark.session.java
    Java 17 in /usr/lib/jvm/java-17-openjdk-amd64 (from PATH)
"""
