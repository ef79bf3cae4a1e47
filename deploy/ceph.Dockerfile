# A Ceph cluster of one OSD, made by the scripts that the tests use: for trying out, not for keeping anything.
FROM debian:12.12-slim
COPY engines/ceph /engines/ceph
RUN apt-get update && /engines/ceph/install.sh && rm -rf /var/lib/apt/lists/*
VOLUME /ceph
# The gateway's user reads the configuration and the keyring.
CMD ["sh", "-c", "/engines/ceph/start.sh /ceph 17300 chunks && chmod o+r /ceph/ceph.conf /ceph/keyring && exec sleep infinity"]
