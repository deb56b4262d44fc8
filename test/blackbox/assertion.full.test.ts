import { execFileSync } from 'node:child_process'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createRemoteJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from 'jose'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parseAssertionKey } from '../../src/domain/pem.ts'
import { assertionKeyPem } from '../support/assertion-keys.ts'
import { startVerifier, type Verifier } from '../support/assertion-verifiers.ts'
import { startPostern } from '../support/postern-process.ts'
import { exchange, get } from '../support/raw-client.ts'
import { scrape } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { GO, has, PYTHON } from '../support/tools.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const ISSUER = 'https://api.example.com'
const FILES = '/api/v1/workspaces/ws_1/files'
const directory = mkdtempSync(join(tmpdir(), 'postern-assertion-'))
const kidOf = (pem: string) => {
  const key = parseAssertionKey(pem)
  if (typeof key === 'string') throw new Error(key)
  return key.publicKey.kid
}

let world: World
let key: IssuedKey
let secrets: SecretMount
let jwks: string
/** What the files hold at the time. */
let keys: { current: string; next: string; previous: string }
let settings: Record<string, string>

beforeAll(async () => {
  const file = join(directory, 'current.pem')
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', file], { stdio: 'ignore' })
  keys = { current: readFileSync(file, 'utf8'), next: assertionKeyPem(), previous: assertionKeyPem() }
  secrets = new SecretMount(keys)
  settings = {
    POSTERN_UPSTREAM_ASSERTION_KEY_FILES: ['current', 'next', 'previous']
      .map(name => secrets.file(name))
      .join(','),
    POSTERN_UPSTREAM_ASSERTION_ISSUER: ISSUER,
    POSTERN_UPSTREAM_ASSERTION_AUDIENCE: 'files',
    POSTERN_RELOAD_EVERY_SECONDS: '0.05',
  }
  world = await startWorld(settings)
  jwks = `${world.gateway.urls.ops}/.well-known/jwks.json`
  key = await world.issue()
})
afterAll(async () => {
  await world.stop()
  secrets.remove()
  rmSync(directory, { recursive: true, force: true })
})
beforeEach(() => world.upstream.reset())

const assertionIn = (request = '') => /^x-postern-assertion: (.*)$/im.exec(request)?.[1]?.trim() ?? ''

async function assertionOf(target = FILES, url = world.gateway.urls.gateway): Promise<string> {
  await exchange(url, get(target, key.secret))
  return assertionIn(world.upstream.requests.at(-1))
}

test('the ops port serves the public keys of all files, to be cached for five minutes', async () => {
  const response = await fetch(jwks)
  expect(response.headers.get('cache-control')).toBe('public, max-age=300')
  const publicKeys = [keys.current, keys.next, keys.previous].map(pem => {
    const { x } = createPublicKey(createPrivateKey(pem)).export({ format: 'jwk' })
    return { kty: 'OKP', crv: 'Ed25519', x, kid: kidOf(pem), alg: 'EdDSA', use: 'sig' }
  })
  expect(await response.json()).toEqual({ keys: publicKeys })
  expect((await fetch(`${world.gateway.urls.gateway}/.well-known/jwks.json`)).status).toBe(404)
  expect((await fetch(`${world.console.urls.ops}/.well-known/jwks.json`)).status).toBe(404)
})

test('requests of a key carry one assertion, and another key has its own', async () => {
  const first = await assertionOf()
  expect(await assertionOf('/api/v1/workspaces/ws_1')).toBe(first)
  const other = await world.issue({ scopes: ['files:read'] })
  await exchange(world.gateway.urls.gateway, get(FILES, other.secret))
  const { sub, scope } = decodeJwt(assertionIn(world.upstream.requests.at(-1)))
  expect([sub, scope]).toEqual([other.id, 'files:read'])
  const metrics = await scrape(world.gateway.urls.ops)
  const count = (result: string) => metrics.get(`postern_upstream_assertions_total{result="${result}"}`)
  expect([count('signed'), count('reused'), count('failed')]).toEqual([2, 1, 0])
})

describe.each([
  ['JavaScript, jose', 'js', true],
  ['Python, PyJWT', 'python', has(PYTHON)],
  ['Go, golang-jwt and keyfunc', 'go', has(GO)],
] as const)('the example of docs/upstream.md in %s', (_, language, isHere) => {
  let verifier: Verifier
  beforeAll(() => {
    if (isHere) verifier = startVerifier(language, directory, jwks)
  }, 300_000)
  afterAll(() => verifier?.stop())

  test.skipIf(!isHere)('accepts what the gateway sends, and reads its claims', async () => {
    const nowSeconds = Date.now() / 1000
    const verdict = await verifier.verify(await assertionOf())
    const { iat, exp, ...claims } = 'claims' in verdict ? verdict.claims : {}
    expect(claims).toMatchObject({
      iss: ISSUER,
      sub: key.id,
      workspace_id: 'ws_1',
      scope: 'files:read workspace:read',
    })
    expect([claims['aud']].flat()).toEqual(['files'])
    expect(Number(exp) - Number(iat)).toBe(60)
    expect(Math.abs(Number(iat) - nowSeconds)).toBeLessThan(35)
  })

  test.skipIf(!isHere)('rejects everything else', async () => {
    const good = await assertionOf()
    const claims = decodeJwt(good)
    const sign = (changed: JWTPayload, pem = keys.current, kid = kidOf(keys.current)) =>
      new SignJWT({ ...claims, ...changed })
        .setProtectedHeader({ alg: 'EdDSA', kid })
        .sign(createPrivateKey(pem))
    const { exp: _, ...withoutExpiry } = claims
    const [header = '', payload = '', signature = ''] = good.split('.')
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const rejected = {
      'another audience': await sign({ aud: 'billing' }),
      'another issuer': await sign({ iss: 'https://elsewhere.example' }),
      expired: await sign({ exp: Math.floor(Date.now() / 1000) - 6 }),
      'without expiry': await new SignJWT(withoutExpiry)
        .setProtectedHeader({ alg: 'EdDSA', kid: kidOf(keys.current) })
        .sign(createPrivateKey(keys.current)),
      'signed by another key': await sign({}, assertionKeyPem()),
      'an unknown key': await sign({}, assertionKeyPem(), 'unknown'),
      'changed claims': `${header}.${encode({ ...claims, workspace_id: 'ws_2' })}.${signature}`,
      unsigned: `${encode({ alg: 'none' })}.${payload}.`,
      'no token': 'x',
    }
    expect(await verifier.verify(await sign({}))).toHaveProperty('claims')
    for (const [what, assertion] of Object.entries(rejected)) {
      expect([what, await verifier.verify(assertion)]).toEqual([what, { error: expect.any(String) }])
    }
  })
})

test('bound to its request, an assertion names method, path and query as the upstream receives them', async () => {
  const gateway = await startPostern('gateway', {
    ...world.env,
    ...settings,
    POSTERN_UPSTREAM_URL: `${world.upstream.url}/base`,
    POSTERN_UPSTREAM_ASSERTION_BIND: 'request',
  })
  const signed = [`${FILES}?limit=5`, FILES, FILES].map(async target => {
    await exchange(gateway.urls.gateway, get(target, key.secret))
  })
  await Promise.all(signed)
  const seen = world.upstream.requests.map(request => {
    const [method, target] = request.split(' ')
    const { htm, htu, sub } = decodeJwt(assertionIn(request))
    expect([htm, htu, sub]).toEqual([method, target, key.id])
    return htu
  })
  expect(seen.sort()).toEqual([`/base${FILES}`, `/base${FILES}`, `/base${FILES}?limit=5`])
  await gateway.process.stop()
})

describe('under load, with a verifier that caches the keys and fetches no others for an unknown one', () => {
  /** Stands for the five minutes of the documentation. */
  const CACHED_MS = 300
  const HOUR_MS = 3_600_000
  const clients: Promise<void>[] = []
  const statuses = new Map<number, number>()
  const rejected: string[] = []
  const signers: string[] = []
  let verifier: ReturnType<typeof createRemoteJWKSet>
  let isRunning = true

  const verifierThatCaches = (cacheMaxAge: number) =>
    createRemoteJWKSet(new URL(jwks), { cacheMaxAge, cooldownDuration: HOUR_MS })

  beforeAll(() => {
    verifier = verifierThatCaches(CACHED_MS)
  })
  beforeEach(() => {
    world.upstream.hold = async request => {
      const assertion = assertionIn(request)
      signers.push(decodeProtectedHeader(assertion).kid ?? '')
      const options = { issuer: ISSUER, audience: 'files', clockTolerance: 5 }
      await jwtVerify(assertion, verifier, options).catch((error: unknown) => rejected.push(String(error)))
    }
  })
  afterAll(async () => {
    isRunning = false
    await Promise.all(clients)
  })

  async function sendRequests(secret: string): Promise<void> {
    while (isRunning) {
      const headers = { authorization: `Bearer ${secret}` }
      const response = await fetch(`${world.gateway.urls.gateway}${FILES}`, { headers })
      await response.arrayBuffer()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    }
  }
  const someMore = async () => {
    const before = signers.length
    await until('further requests were sent', () => signers.length > before + 50)
  }
  const cached = () => verifier.jwks()?.keys.map(({ kid }) => kid) ?? []

  test('three rotations reject no request, and each key signs in turn', async () => {
    for (let index = 0; index < 4; index++) clients.push(sendRequests((await world.issue()).secret))
    const expected = [kidOf(keys.current)]
    for (let rotation = 0; rotation < 3; rotation++) {
      await someMore()
      keys = { previous: keys.current, current: keys.next, next: assertionKeyPem() }
      secrets.swap(keys)
      expected.push(kidOf(keys.current))
      await until('the new key signs', () => signers.at(-1) === kidOf(keys.current))
      await until('the verifier knows the next one', () => cached().includes(kidOf(keys.next)))
    }
    await someMore()
    expect([...new Set(signers)]).toEqual(expected)
    expect(rejected).toEqual([])
    expect([...statuses.keys()]).toEqual([200])
    process.stdout.write(
      `Three assertion keys replaced under load: ${statuses.get(200)} responses, none rejected\n`,
    )
  })

  test('a key that signs before it was published is rejected', async () => {
    // What fetched the keys between the swap and the first assertion would accept it, however late that is.
    verifier = verifierThatCaches(HOUR_MS)
    await verifier.reload()
    keys = { ...keys, current: assertionKeyPem() }
    secrets.swap(keys)
    await until('an assertion is rejected', () => rejected.length > 0)
    expect(rejected[0]).toContain('JWKSNoMatchingKey')
  })

  test('a file that holds no key is reported, and the former keys sign on', async () => {
    secrets.swap({ current: 'half a file' })
    const refused = await world.gateway.process.logged(({ level }) => level === 50)
    expect(refused['problem']).toContain('names a file that holds no private key in PEM. Make one with')
    await someMore()
    expect(signers.at(-1)).toBe(kidOf(keys.current))
  })
})
