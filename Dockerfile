# syntax=docker/dockerfile:1

#   docker build --tag registry.example.com/postern:0.1.0 .
#
# By digest, so that two builds of one commit are the same bytes. docs/release.md says how they are renewed. Node comes from the
# first, for both stages: the second has the C and C++ libraries alone, and follows Debian's fixes, not Node's.
ARG BUILD_IMAGE=node:24.21.0-bookworm-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f

# For the architecture of the image.
FROM ${BUILD_IMAGE} AS node
FROM ${RUNTIME_IMAGE} AS runtime

# For the architecture of the machine that builds: no package has native code.
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# Of all packages only `node` has an install script, which fetches a Node for checkouts.
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --no-progress
COPY tsconfig.json ./
COPY src ./src
RUN ["npm", "run", "build"]
# `npm sbom --omit=dev` leaves out packages that development needs too, so it gets a manifest without development packages.
RUN npm prune --omit=dev --no-progress && npm pkg delete devDependencies && npm sbom --sbom-format=cyclonedx > npm.cdx.json
COPY .ci/image ./image
COPY --from=runtime /var/lib/dpkg/status.d /image/var/lib/dpkg/status.d
COPY --from=runtime /usr/lib/os-release /image/usr/lib/os-release
# What the image holds, package by package.
RUN node image/write-sbom.ts /image < npm.cdx.json > sbom.cdx.json
# The program holds the code of its packages: of the packages themselves the image keeps their licences.
RUN node image/keep-licences.ts node_modules licences && find dist -name '*.map' -delete
# Names the sources in the metric postern_build_info.
ARG REVISION=unknown
RUN printf '%s\n' "$REVISION" > dist/REVISION
# `postern` for commands in a container that runs: `docker exec` and `kubectl exec` do not use the entry point.
RUN printf '#!/nodejs/bin/node\nimport("/app/dist/main.js")\n' > postern && chmod 755 postern
# A volume takes its owner from the directory that it covers.
RUN ["mkdir", "/data"]

FROM runtime AS image
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Postern" \
      org.opencontainers.image.description="API-key gateway in front of a workspace/files service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=node /usr/local/bin/node /nodejs/bin/node
COPY --from=node /usr/local/LICENSE /nodejs/LICENSE
COPY --from=build /build/dist /app/dist
COPY --from=build /build/licences /app/licences
COPY --from=build /build/package.json /build/sbom.cdx.json /app/
COPY --from=build /build/postern /usr/local/bin/postern
COPY config /app/config
COPY LICENSE /app/
COPY --from=build --chown=65532:65532 /data /var/lib/postern
ENV NODE_ENV=production
# The program's own default is reachable from this machine alone, which here would be the container alone.
ENV POSTERN_CONSOLE_HOST=::
# The console's SQLite file is written here where no other place is named.
WORKDIR /var/lib/postern
USER 65532:65532
EXPOSE 8080 8081 8082 9090
# Probes ask the ops port (/livez, /readyz): there is no shell, and nothing to ask with.
HEALTHCHECK NONE
# The V8 options of `npm start`; docs/decisions.md says what each gives.
ENTRYPOINT ["/nodejs/bin/node", "--max-semi-space-size=32", "--memory-reducer-gc-count=0", "--max-inlined-bytecode-size=1000", "--max-inlined-bytecode-size-cumulative=2000", "/app/dist/main.js"]
CMD ["--help"]

# The program starts: on this architecture, with this Node, as this user.
FROM image AS started
RUN ["/nodejs/bin/node", "/app/dist/main.js", "--version"]

# The image itself has nothing of what builders leave where something ran. Copying from that stage makes them run it.
FROM image
COPY --from=started /app/LICENSE /app/LICENSE
