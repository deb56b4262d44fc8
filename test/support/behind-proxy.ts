import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { assertionKeyPem } from './assertion-keys.ts'
import { type CheckProxy, RunningProxy } from './check-proxies.ts'
import { BASE } from './hostile-targets.ts'
import { Parts } from './parts.ts'
import { whenOver } from './patience.ts'
import type { Listening } from './postern-process.ts'
import { get, RawClient } from './raw-client.ts'
import type { RecordingUpstream } from './recording-upstream.ts'
import type { IssuedKey, World } from './world.ts'

export const PATH = `${BASE}/ws_1`
export const FILES = `${PATH}/files`
/** What is sent behind each case: in front of it a smuggled request would appear. */
export const FOLLOWING = `${FILES}?limit=7`
/** The only targets that the key of these tests may reach, among those that they send. */
const PERMITTED = new Set([PATH, FILES, `${FILES}?limit=5`, FOLLOWING])
/** Time after which a proxy that waits for the rest of a request is left alone. */
export const PATIENCE_MS = 1000

/** A gateway in check mode behind a proxy with the configuration of its page, and an upstream that no other proxy uses. */
export class BehindProxy {
  readonly gateway: Listening
  readonly running: RunningProxy
  readonly upstream: RecordingUpstream
  readonly #parts: Parts
  readonly #proxy: CheckProxy
  readonly #key: IssuedKey

  private constructor(
    running: Pick<BehindProxy, 'gateway' | 'running' | 'upstream'>,
    parts: Parts,
    proxy: CheckProxy,
    key: IssuedKey,
  ) {
    this.gateway = running.gateway
    this.running = running.running
    this.upstream = running.upstream
    this.#parts = parts
    this.#proxy = proxy
    this.#key = key
  }

  static start(proxy: CheckProxy, world: World, key: IssuedKey): Promise<BehindProxy> {
    return Parts.start(parts => BehindProxy.#started(parts, proxy, world, key))
  }

  static async #started(parts: Parts, proxy: CheckProxy, world: World, key: IssuedKey): Promise<BehindProxy> {
    const directory = await parts.directory(`check-${proxy.kind}`)
    const keyFile = join(directory, 'assertion.pem')
    writeFileSync(keyFile, assertionKeyPem())
    const upstream = await parts.upstream()
    const gateway = await parts.gateway({
      ...world.env,
      POSTERN_UPSTREAM_URL: upstream.url,
      POSTERN_GATEWAY_CHECK_PORT: '0',
      POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1',
      POSTERN_GATEWAY_CHECK_PROXY: proxy.kind,
      POSTERN_GATEWAY_TRUSTED_PROXIES: '127.0.0.1/32',
      POSTERN_UPSTREAM_ASSERTION_KEY_FILES: keyFile,
      POSTERN_UPSTREAM_ASSERTION_ISSUER: 'gateway',
      POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
    })
    const { urls } = gateway
    const running = await RunningProxy.start(proxy, directory, {
      check: new URL(urls.check).host,
      gateway: new URL(urls.gateway).host,
      upstream: new URL(upstream.url).host,
    })
    await parts.own(running)
    return new BehindProxy({ gateway, running, upstream }, parts, proxy, key)
  }

  get url(): string {
    return this.running.url
  }

  async stop(): Promise<void> {
    await this.#parts.stop()
  }

  /**
   * Sends each text on a connection of its own, with a permitted request behind it.
   * @returns what is wrong with that which reached the upstream, and how many requests show something
   */
  async sendAll(
    cases: readonly (readonly [name: string, bytes: string])[],
  ): Promise<{ readonly faults: string[]; readonly telling: number }> {
    const faults: string[] = []
    let telling = 0
    for (const [name, bytes] of cases) {
      this.upstream.forget()
      const client = new RawClient(this.url)
      client.send(bytes + get(FOLLOWING, this.#key.secret, 'Connection: close'))
      const closed = Promise.withResolvers<void>()
      client.socket.once('close', () => closed.resolve())
      // Envoy reads no more after a 400, but waits a second for the end of the client.
      client.socket.on('data', () => {
        if (this.#proxy.closesAfter400 === true && client.received.includes('HTTP/1.1 400'))
          client.socket.end()
      })
      const cancel = whenOver(PATIENCE_MS, closed.resolve)
      await closed.promise
      cancel()
      client.end()
      const seen = this.faults()
      telling += this.upstream.requests.length
      if (this.#proxy.closesAfter400 === true && client.received.includes('HTTP/1.1 400')) telling += 1
      faults.push(...seen.map(fault => `${name}: ${fault}`))
    }
    return { faults, telling }
  }

  /** What is wrong with the bytes that have reached the upstream since its last reset. */
  faults(): string[] {
    const { requests, remainders } = this.upstream
    return [
      ...requests.flatMap(request => faultsOf(request, this.#key)),
      ...remainders.map(bytes => `has bytes behind its head: ${bytes.slice(0, 300)}`),
    ]
  }
}

const lines = (request: string) => request.split('\r\n').slice(1)

/** Values of a header of a request as received. */
export const valuesOf = (request: string, name: string) =>
  lines(request).flatMap(line =>
    line.toLowerCase().startsWith(`${name}:`) ? [line.slice(name.length + 1).trim()] : [],
  )

/** `sub` of a JWT, without verifying it. */
function subjectOf(assertion = ''): unknown {
  const claims = Buffer.from(assertion.split('.')[1] ?? '', 'base64url').toString()
  return claims.startsWith('{') ? (JSON.parse(claims) as { sub?: unknown }).sub : undefined
}

/** What is wrong with a request that reached the upstream. */
function faultsOf(request: string, key: IssuedKey): string[] {
  const [method, target = '', version] = request.split('\r\n', 1)[0]?.split(' ') ?? []
  const faults: string[] = []
  if (method !== 'GET' || !PERMITTED.has(target) || !version?.startsWith('HTTP/1.'))
    faults.push('not a permitted request')
  if (request.includes(key.secret)) faults.push('holds the key')
  if (valuesOf(request, 'authorization').length > 0) faults.push('has a credential')
  const identity = {
    'x-postern-workspace-id': 'ws_1',
    'x-postern-key-id': key.id,
    'x-postern-scopes': 'files:read workspace:read',
  }
  for (const [name, value] of Object.entries(identity)) {
    if (valuesOf(request, name).join() !== value) faults.push(`has not exactly one true ${name}`)
  }
  const assertions = valuesOf(request, 'x-postern-assertion')
  if (assertions.length !== 1 || subjectOf(assertions[0]) !== key.id)
    faults.push('has not exactly one assertion of its key')
  const others = lines(request).filter(
    line =>
      /^x[-_.]postern/i.test(line) && !/^x-postern-(?:workspace-id|key-id|scopes|assertion):/i.test(line),
  )
  if (others.length > 0) faults.push('has a variant of an identity header')
  if (valuesOf(request, 'connection').some(value => /postern/i.test(value)))
    faults.push('names an identity header in Connection')
  return faults.map(fault => `${fault}: ${request.slice(0, 300)}`)
}
