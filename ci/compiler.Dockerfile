# The image of kae for jobs, with git and the scripts of a pull request. ci/images.sh builds it, and makes its context: the
# requirements.txt of the jobs, and a wheel, or else the sources of one.

# python:3.13-slim-trixie, as in watcher/Dockerfile. Another base needs Python 3.11 or newer with its venv module.
ARG BASE_IMAGE=docker.io/library/python@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6

FROM ${BASE_IMAGE} AS wheel
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
ARG VERSION=0+unknown
COPY . /source
WORKDIR /source
RUN [ -e "$(echo kae_compiler-*.whl)" ] || { python3 -m venv /tools \
    && /tools/bin/python -m pip --disable-pip-version-check --no-cache-dir install \
        --require-hashes --only-binary :all: -r ci/requirements.lock \
    && env -u SOURCE_DATE_EPOCH KAE_VERSION=${VERSION} /tools/bin/python -m build --wheel --no-isolation --outdir . ; }

FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY LICENSE third_party.py requirements.txt /build/
COPY --from=wheel /source/kae_compiler-*.whl /build/
# pip stands outside of the environment that it fills. Bytecode is made now, as a job may not write there, and by force:
# the second pip imports `attr` of the environment where it is (pip/_vendor/rich/pretty.py), whose bytecode has a time.
RUN python3 -m venv /pip \
    && python3 -m venv --without-pip /opt/venv \
    && set -- /pip/bin/python -m pip --python /opt/venv/bin/python --disable-pip-version-check --no-cache-dir \
    && "$@" install --no-compile --require-hashes --only-binary :all: -r /build/requirements.txt \
    && "$@" install --no-compile --no-deps --no-index /build/kae_compiler-*.whl \
    && PYTHONHASHSEED=0 /opt/venv/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/venv/lib \
    && mkdir /opt/kae \
    && ln -s "$(/opt/venv/bin/python -c 'import compiler; print(compiler.__path__[0])')/templates/init/ci" /opt/kae/ci \
    && chmod +x /opt/kae/ci/*.sh \
    && install -m 644 /build/kae_compiler-*.whl /opt/kae/ \
    && /opt/venv/bin/kae --version \
    && install -D -m 644 /build/LICENSE /licences/LICENSE \
    && /opt/venv/bin/python -B /build/third_party.py >/licences/THIRD_PARTY.txt

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="kae-compiler" \
      org.opencontainers.image.description="Compiles and reviews kae projects in the jobs of a code host." \
      org.opencontainers.image.licenses="Apache-2.0"
# A base that has them all needs no network here.
RUN if command -v git && command -v bash; \
    then exit; \
    elif command -v apt-get; then \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends bash ca-certificates git \
        && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/*.log /var/cache/ldconfig/aux-cache; \
    else \
        dnf install --assumeyes --setopt=install_weak_deps=False bash ca-certificates git \
        && dnf clean all \
        && rm -rf /var/cache/dnf /var/log/dnf* /var/log/hawkey.log /var/cache/ldconfig/aux-cache; \
    fi
# Runners clone as root, and git reads no repository of another user unless it is told that it may.
RUN echo 'kae:x:65532:65532:kae-compiler:/tmp:/sbin/nologin' >> /etc/passwd \
    && echo 'kae:x:65532:' >> /etc/group \
    && printf '[safe]\n\tdirectory = *\n' >> /etc/gitconfig
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/kae /opt/kae
COPY --from=build /licences /usr/share/licenses/kae
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp
# At the end, so that the layers above are the same in every version.
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["kae"]
