# The service, ready to run as any user, on a read-only file system and without a network:
#
#   docker build -t ledto .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL -v ledto:/data -v "$PWD/tokens:/run/secrets/tokens:ro" -p 4317:4317 -p 4318:4318 ledto
#
# docs/deploy.md has the rest. Every package is checked by its hash (`make lock`).

FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1


FROM base AS wheel
WORKDIR /build
COPY requirements/build.lock requirements/
RUN pip install --no-cache-dir --no-compile --require-hashes -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation -w dist .


FROM base AS packages
COPY requirements/serve.lock /build/
RUN python -m venv --without-pip /opt/ledto \
    && pip --python /opt/ledto install --no-cache-dir --require-hashes -r /build/serve.lock \
    && rm -rf /opt/ledto/lib/python3.11/site-packages/pyspark/examples
COPY --from=wheel /build/dist /build/dist
# Java of PyPI is run through a start script. It is made here, because nothing can be written there later.
RUN pip --python /opt/ledto install --no-cache-dir --no-deps /build/dist/*.whl \
    && XDG_CACHE_HOME=/opt/ledto/cache /opt/ledto/bin/python -m ledto.spark.session.java


# Small services that export OpenTelemetry, for compose.yaml.
FROM base AS examples
COPY requirements/examples.lock /build/
RUN pip install --no-cache-dir --no-compile --require-hashes -r /build/examples.lock
COPY examples/otel_shop.py /examples/
USER 10001:10001
ENTRYPOINT ["python", "/examples/otel_shop.py", "--listen"]


FROM base AS ledto
RUN groupadd --gid 10001 ledto \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin ledto \
    && install -d -o ledto -g ledto -m 0750 /data
COPY --from=packages /opt/ledto /opt/ledto
ENV PATH=/opt/ledto/bin:$PATH \
    XDG_CACHE_HOME=/opt/ledto/cache \
    NUMBA_CACHE_DIR=/data/compiled \
    LEDTO_JAVA_ARCHIVE=off \
    LEDTO_HISTORY=/data/history
USER 10001:10001
WORKDIR /data
VOLUME /data
# OTLP over gRPC; OTLP over HTTP, reports and questions.
EXPOSE 4317 4318
# The stream finishes its micro-batch before it ends.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4318/healthz', timeout=4)"]
ENTRYPOINT ["ledto"]
CMD ["serve", "--to", "/data/history", "--host", "0.0.0.0", "--tokens", "/run/secrets/tokens"]
