# PgBouncer as Debian ships it: the version that hapax is tested with.
FROM debian:12.11-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends pgbouncer \
    && rm -rf /var/lib/apt/lists/*
COPY pgbouncer.ini /etc/pgbouncer/hapax.ini
USER postgres
EXPOSE 6432
# SIGTERM ends it at once. The gentler signals wait until every client has left, and in session mode none does.
ENTRYPOINT ["pgbouncer", "/etc/pgbouncer/hapax.ini"]
