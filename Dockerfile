# covdp in a container: by default `covdp serve`, one private release a night.
# With PostgreSQL as ledger: flows/compose.yaml. No secret is needed to build it, and none is kept.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY pipeline pipeline
COPY flows flows
COPY data data
COPY reports reports
RUN python -m venv /opt/covdp \
    && /opt/covdp/bin/python -m pip install --no-cache-dir --constraint constraints.txt '.[hospital,nights,partners,postgres]' \
    && /opt/covdp/bin/python -m pip uninstall --yes pip setuptools

FROM python:3.11-slim-bookworm
RUN useradd --uid 10001 --home-dir /state --no-create-home --shell /usr/sbin/nologin covdp \
    && install --directory --owner=covdp --group=covdp --mode=0700 /state /released \
    && install --directory /images /etc/covdp
COPY --from=build /opt/covdp /opt/covdp
ENV PATH=/opt/covdp/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    HOME=/state \
    NUMBA_CACHE_DIR=/state/numba \
    COVDP_DATA=/images
USER covdp
WORKDIR /state
VOLUME ["/state", "/released"]
# Python answers SIGINT also as the first process of a container, and covdp ends cleanly on it.
STOPSIGNAL SIGINT
# Healthy is who reaches the ledger; what it says of budgets stays out of the container's record.
HEALTHCHECK --interval=5m --timeout=1m --start-period=1m \
    CMD covdp ledger show > /dev/null
ENTRYPOINT ["covdp"]
CMD ["serve", "--config", "/etc/covdp/release.toml", "--data-root", "/images", "--out", "/released"]
