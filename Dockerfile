# syntax=docker/dockerfile:1

# Both by tag, so that a rebuild has the latest fixes. A release pins them: --build-arg BUILD_IMAGE=…@sha256:… and the same
# for RUNTIME_IMAGE, with the digests that its own build has resolved. The program itself refuses a Node that is too old.
ARG BUILD_IMAGE=node:24-bookworm-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN ["npm", "ci", "--no-progress"]
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN ["npm", "run", "build"]
# What the image holds, package by package.
RUN npm sbom --package-lock-only --omit=dev --sbom-format=cyclonedx > sbom.cdx.json
RUN ["npm", "prune", "--omit=dev", "--no-progress"]
# Names the sources in the metric postern_build_info.
ARG REVISION=unknown
RUN printf '%s\n' "$REVISION" > dist/REVISION
# A volume takes its owner from the directory that it covers.
RUN ["mkdir", "/data"]

FROM ${RUNTIME_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Postern" \
      org.opencontainers.image.description="API-key gateway in front of a workspace/files service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /build/node_modules /app/node_modules
COPY --from=build /build/dist /app/dist
COPY --from=build /build/package.json /build/sbom.cdx.json /app/
COPY config /app/config
COPY LICENSE /app/
COPY --from=build --chown=65532:65532 /data /var/lib/postern
ENV NODE_ENV=production
# The program's own default is reachable from this machine alone, which here would be the container alone.
ENV POSTERN_CONSOLE_HOST=0.0.0.0
# The console's SQLite file is written here where no other place is named.
WORKDIR /var/lib/postern
USER 65532:65532
EXPOSE 8080 8081 8082 9090
# Probes ask the ops port (/livez, /readyz): there is no shell, and nothing to ask with.
HEALTHCHECK NONE
# The V8 options of `npm start`; docs/architecture.md says what each gives.
ENTRYPOINT ["/nodejs/bin/node", "--max-semi-space-size=32", "--semi-space-growth-factor=64", "--no-allocation-site-pretenuring", "--incremental-marking-soft-trigger=40", "--incremental-marking-hard-trigger=90", "--memory-reducer-gc-count=0", "--max-valid-polymorphic-map-count=24", "--max-inlined-bytecode-size=1000", "--max-inlined-bytecode-size-cumulative=2000", "/app/dist/main.js"]
CMD ["--help"]
