import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digestKey, importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { decodeRecord, deriveRecordKey, recordKeyName } from '../../src/domain/wire.ts'
import { freePort } from '../support/free-port.ts'
import { isWellFormedKey } from '../support/is-well-formed-key.ts'
import { Parts } from '../support/parts.ts'
import type { Listening } from '../support/postern-process.ts'
import { untilConnected } from '../support/readiness.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { scrapeOne } from '../support/scrape.ts'
import { type Replica, SteadyLoad, send } from '../support/steady-load.ts'
import { until } from '../support/until.ts'

// The runbook of docs/operate/rotate-secrets.md, step by step.
const A = randomBytes(32)
const B = randomBytes(32)
const list = (...secrets: Buffer[]) => secrets.map(secret => secret.toString('base64')).join(',')

const parts = new Parts()
let redis: RedisServer
let env: Record<string, string>
let console: Listening | undefined
let gateways: { process: Listening; replica: Replica }[] = []
let load: SteadyLoad

beforeAll(async () => {
  redis = await parts.redis()
  const port = String(await freePort())
  env = {
    POSTERN_REDIS_URL: redis.url,
    POSTERN_KEY_SERVICE_URL: `http://127.0.0.1:${port}`,
    POSTERN_UPSTREAM_URL: 'http://127.0.0.1:1',
    POSTERN_CONSOLE_INTERNAL_PORT: port,
    POSTERN_DATABASE_URL: await parts.sqlite(),
    // So that records are read all the time, not once in the whole test.
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '0.2',
    // Those that a busy machine makes late must not fail.
    POSTERN_KEY_SERVICE_TIMEOUT_MS: '60000',
  }
  load = new SteadyLoad(4)
})
afterAll(async () => {
  await load.stop()
  await parts.stop()
})

test('a signing secret is replaced without any client noticing', async () => {
  await restartConsole(list(A))
  await replaceGateways(list(A))
  const revoked = await issue('revoked before the change')
  await revoke(revoked.id)
  hold('revoked', revoked.secret, 'key_revoked')
  hold(
    'forged',
    mintSecret('wsk_', randomBytes(32), importSigningSecret(randomBytes(32))).reveal(),
    'key_invalid',
  )
  const old = [await issue('old 1'), await issue('old 2'), await issue('old 3')]
  for (const key of old) hold('old', key.secret)
  await load.continueFor()

  // Every process learns B before anything is signed with it.
  await replaceGateways(list(A, B))
  await restartConsole(list(A, B))
  const still = await issue('signed by A')
  expect(isSignedBy(still.secret, A)).toBe(true)
  await until('its record in Redis has a MAC by A', async () => (await signerOf(still.secret)) === 'A')
  hold('still', still.secret)
  await load.continueFor()

  // B signs. Here gateways restart after the console, elsewhere before it: the order no longer matters.
  await restartConsole(list(B, A))
  const young = await issue('signed by B')
  expect(isSignedBy(young.secret, B)).toBe(true)
  await until('its record in Redis has a MAC by B', async () => (await signerOf(young.secret)) === 'B')
  hold('young', young.secret)
  await load.continueFor()
  await replaceGateways(list(B, A))
  await load.continueFor()

  // Lost records return to Redis with a MAC by B. A gateway that was left behind with A alone asks the console.
  await redis.admin.flushall()
  await until('the records are back in Redis', async () => (await signerOf(old[0]?.secret ?? '')) === 'B')
  const forgotten = await startUnconnected(list(A))
  for (const key of [...old, still]) expect(await send(forgotten.urls.gateway, key.secret)).toBe('200')
  expect(await send(forgotten.urls.gateway, revoked.secret)).toBe('key_revoked')
  // It cannot verify keys signed with B, which is why every process must learn B first.
  expect(await send(forgotten.urls.gateway, young.secret)).toBe('key_invalid')
  // It is not connected either, because it cannot verify heartbeats.
  const sample = (name: string) => scrapeOne(forgotten.urls.ops, name)
  const unverified = () => sample('postern_key_invalidations_total{result="unverified"}')
  await until('three heartbeats have arrived', async () => (await unverified()) >= 3)
  expect(await sample('postern_key_invalidation_connected')).toBe(0)
  await forgotten.process.stop()
  await load.continueFor()

  // Clients change to keys signed with B, and only then A is removed.
  for (const [number, key] of [...old, still].entries()) {
    const successor = await issue(`successor ${number}`)
    hold(`successor ${number}`, successor.secret)
    drop(key.secret)
    await revoke(key.id)
  }
  drop(revoked.secret)
  await load.continueFor()
  await replaceGateways(list(B))
  await restartConsole(list(B))
  for (const key of old) hold('gone', key.secret, 'key_invalid')
  await load.continueFor()

  await load.stop()
  expect(load.wrong).toEqual([])
  process.stdout.write(`Signing secret replaced under load: ${load.answered} responses, none of them wrong\n`)
})

test('a gateway with a signing secret of its own is not ready and says so, until it is given the right one', async () => {
  const stranger = await startUnconnected(list(randomBytes(32)))
  const readiness = async () => {
    const response = await fetch(`${stranger.urls.ops}/readyz`)
    return { code: response.status, ...((await response.json()) as object) }
  }
  try {
    await until('it compared its secrets', async () => (await readiness()).code === 503)
    expect(await readiness()).toMatchObject({ status: 'misconfigured', signingSecrets: 'mismatch' })
    const text = await (await fetch(`${stranger.urls.ops}/metrics`)).text()
    expect(text).toContain('\npostern_signing_secrets_mismatch 1\n')
  } finally {
    await stranger.process.stop()
  }
  const matching = await fetch(`${gateways[0]?.process.urls.ops}/readyz`)
  expect([matching.status, await matching.json()]).toEqual([
    200,
    expect.objectContaining({ status: 'ready', signingSecrets: 'match' }),
  ])
})

function hold(name: string, secret: string, expected = '200'): void {
  load.holders.push({ name, secret, expected })
}

function drop(secret: string): void {
  const at = load.holders.findIndex(holder => holder.secret === secret)
  load.holders.splice(at, 1)
}

/** One after another: the new gateway is ready before the old one stops getting requests and exits. */
async function replaceGateways(signingSecrets: string): Promise<void> {
  const old = gateways
  gateways = []
  for (const number of [0, 1]) {
    const started = await startGateway(signingSecrets)
    gateways.push({ process: started, replica: load.join(started.urls.gateway) })
    const gone = old[number]
    if (gone === undefined) continue
    await load.leave(gone.replica)
    expect((await gone.process.process.stop('SIGTERM')).code).toBe(0)
  }
}

async function startGateway(signingSecrets: string): Promise<Listening> {
  const gateway = await startUnconnected(signingSecrets)
  await untilConnected(gateway)
  return gateway
}

function startUnconnected(signingSecrets: string): Promise<Listening> {
  return parts.gateway({ ...env, POSTERN_KEYS_SIGNING_SECRETS: signingSecrets })
}

/** There is one console with one database file. While it is down, gateways use what they have. */
async function restartConsole(signingSecrets: string): Promise<void> {
  if (console !== undefined) expect((await console.process.stop('SIGTERM')).code).toBe(0)
  console = await parts.console({ ...env, POSTERN_KEYS_SIGNING_SECRETS: signingSecrets })
}

async function issue(name: string): Promise<{ id: string; secret: string }> {
  const { key, secret } = await admin('/workspaces/ws_1/keys', { name, scopes: ['files:read'] })
  return { id: (key as { id: string }).id, secret: String(secret) }
}

async function revoke(id: string): Promise<void> {
  await admin(`/keys/${id}/revoke`)
}

async function admin(path: string, body: object = {}): Promise<Record<string, unknown>> {
  if (console === undefined) throw new Error('The console has not started')
  return await parts.change(console, path, body)
}

function isSignedBy(key: string, secret: Buffer): boolean {
  return isWellFormedKey(key, { kind: 'signed', prefix: 'wsk_', signingKeys: [importSigningSecret(secret)] })
}

/** The secret that signed the record in Redis. */
async function signerOf(key: string): Promise<'A' | 'B' | 'neither'> {
  const digest = digestKey(key)
  const text = (await redis.admin.get(recordKeyName(digest))) ?? ''
  if (decodeRecord(text, digest, [deriveRecordKey(A)]).ok) return 'A'
  return decodeRecord(text, digest, [deriveRecordKey(B)]).ok ? 'B' : 'neither'
}
