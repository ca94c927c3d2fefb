# An image with signed modules, for nodes in secure boot; the key is a build secret, and no layer has it.
# Once, to make the key:     openssl req -new -x509 -newkey rsa:4096 -nodes -days 3650 -subj '/CN=KAE modules/' \
#                                -keyout key.pem -outform DER -out cert.der
# Once on each node:         mokutil --import cert.der
# For each driver:           podman build --secret id=key.pem,src=key.pem --tag …/kae-driver-installer:2.0.2 .
FROM docker.io/openeuler/openeuler:22.03-lts-sp4 AS modules
ARG KERNEL=5.10.0-216.0.0.115.oe2203sp4.aarch64
RUN dnf install -y gcc make kernel-devel-$KERNEL
COPY KAEKernelDriver/KAEKernelDriver-OLK-5.10 /source
RUN make -C /source KERNEL_PATH=/usr/src/kernels/$KERNEL
RUN mkdir -p /modules/$KERNEL && find /source -name '*.ko' -exec cp {} /modules/$KERNEL/ ';'
COPY cert.der /cert.der
RUN --mount=type=secret,id=key.pem for module in /modules/$KERNEL/*.ko; do \
      /usr/src/kernels/$KERNEL/scripts/sign-file sha256 /run/secrets/key.pem /cert.der $module || exit 1; \
    done

FROM registry.example.com/team/kae-driver-installer:0.2.0
COPY --from=modules /modules /opt/lib/modules
